use tonnage_sql::url::redact;

use super::*;

/// An environment, and one option file.
struct Given<'a> {
    variables: &'a [(&'a str, &'a str)],
    file: Option<PathBuf>,
}

impl Surroundings for Given<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        let found = self.variables.iter().find(|(n, _)| *n == name)?;
        Some(found.1.to_owned())
    }

    fn option_files(&self) -> Vec<PathBuf> {
        self.file.clone().into_iter().collect()
    }
}

const NOTHING: Given<'_> = Given {
    variables: &[("USER", "anna")],
    file: None,
};

fn resolve(url: &str) -> Result<Settings> {
    Settings::resolve(url, &NOTHING)
}

#[test]
fn a_url_says_it_all() {
    let settings =
        resolve("mariadb://bob:p%40ss@db.example:3307/shop?sslmode=require&connect_timeout=5").unwrap();
    assert_eq!(settings.endpoint.to_string(), "db.example:3307");
    assert_eq!(
        (settings.user.as_str(), settings.database.as_str()),
        ("bob", "shop")
    );
    assert_eq!(settings.password, Secret("p@ss".to_owned()));
    assert_eq!(settings.tls, TlsMode::Require);
    assert_eq!(settings.connect_timeout, Duration::from_secs(5));
    assert!(!format!("{settings:?}").contains("p@ss"));
    let settings = resolve("mysql://[::1]/shop").unwrap();
    assert_eq!(settings.endpoint.to_string(), "[::1]:3306");
    assert_eq!((settings.user.as_str(), settings.tls), ("anna", TlsMode::Prefer));
    let settings = resolve("mysql:///shop?socket=/run/s.sock").unwrap();
    assert_eq!(settings.endpoint, Endpoint::Socket("/run/s.sock".into()));
}

#[test]
fn option_files_fill_what_the_url_leaves_out() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("my.cnf");
    std::fs::write(
        &path,
        "[mysqld]\nport=1\n[client]\nuser = carl\npassword = \"a#b\\\\c\"  # comment\nhost=db\nport=3310\n\
         ssl_ca=/ca.pem\nssl-mode=VERIFY_IDENTITY\n[mysqldump]\nuser=nobody\n",
    )
    .unwrap();
    let given = Given {
        variables: &[("MYSQL_PWD", "other"), ("MYSQL_HOST", "elsewhere")],
        file: Some(path.clone()),
    };
    let settings = Settings::resolve("mysql:///shop", &given).unwrap();
    assert_eq!(settings.endpoint.to_string(), "db:3310");
    assert_eq!(settings.user, "carl");
    assert_eq!(settings.password, Secret("a#b\\c".to_owned()));
    assert_eq!(
        settings.password_origin.to_string(),
        format!("password from {}", path.display())
    );
    assert_eq!(settings.tls, TlsMode::VerifyFull);
    assert_eq!(settings.root_certificate, Some("/ca.pem".into()));
    let settings = Settings::resolve("mysql://dora:x@host/shop?sslmode=disable", &given).unwrap();
    assert_eq!(settings.endpoint.to_string(), "host:3310");
    assert_eq!((settings.user.as_str(), settings.tls), ("dora", TlsMode::Disable));
    let url = format!("mysql:///shop?defaults-file={}", path.display());
    assert_eq!(resolve(&url).unwrap().user, "carl");
    let environment = Given {
        variables: &[
            ("MYSQL_PWD", "other"),
            ("MYSQL_HOST", "elsewhere"),
            ("USER", "eve"),
        ],
        file: None,
    };
    let settings = Settings::resolve("mysql:///shop", &environment).unwrap();
    assert_eq!(settings.endpoint.to_string(), "elsewhere:3306");
    assert_eq!(settings.password_origin, PasswordOrigin::Environment("MYSQL_PWD"));
}

#[test]
fn a_url_may_name_several_servers() {
    let settings = resolve("mysql://anna@one:3307,two,[::1]:3309/shop").unwrap();
    let each: Vec<_> = (0..settings.servers())
        .map(|at| settings.of_server(at).endpoint.to_string())
        .collect();
    assert_eq!(each, ["one:3307", "two:3306", "[::1]:3309"]);
    assert_eq!(settings.in_use().endpoint.to_string(), "one:3307");
    // All that are made of them go where one went.
    settings.clone().choose(1);
    assert_eq!(settings.in_use().endpoint.to_string(), "two:3306");
    assert_eq!(settings.in_use().servers(), 1);
}

#[test]
fn mistakes_are_named() {
    for (url, wanted) in [
        ("mysql://host", "the URL names no database"),
        ("mysql://host:x/shop", "'x' is not a port"),
        ("mysql://one,two:x/shop", "'x' is not a port"),
        ("mysql://one,/shop", "one of several hosts in the URL has no name"),
        ("mysql://host:0/shop", "'0' is not a port"),
        ("mysql://host/shop?ssl=1", "unknown option 'ssl' in the URL"),
        ("mysql://host/shop?sslmode=on", "unknown sslmode 'on' in the URL"),
        (
            "mysql://host/shop?sslmode=verify-full",
            "sslmode verify-full needs the authority's certificate",
        ),
        (
            "mysql://host/shop?sslmode=verify-ca",
            "sslmode verify-ca needs the authority's certificate",
        ),
        ("mysql://host/shop?socket=/s", "the URL names a host and a socket"),
        ("mysql://[::1/shop", "an IPv6 address in the URL is not closed"),
        (
            "mysql://host/shop?connect_timeout=no",
            "connect_timeout 'no' is not a number of seconds",
        ),
        (
            "mysql:host",
            "a MariaDB or MySQL URL begins with mariadb:// or mysql://",
        ),
    ] {
        assert_eq!(resolve(url).unwrap_err().to_string(), wanted, "{url}");
    }
}

#[test]
fn passwords_are_not_shown() {
    for (url, shown) in [
        ("mysql://u:p@h/d", "mysql://u:***@h/d"),
        (
            "mariadb://u:p%2F@h:1/d?sslmode=require",
            "mariadb://u:***@h:1/d?sslmode=require",
        ),
        (
            "mysql://u@h/d?password=p&socket=s",
            "mysql://u@h/d?password=***&socket=s",
        ),
        ("mysql://u@h/d?pass%77ord=p", "mysql://u@h/d?pass%77ord=***"),
        ("mysql://h/d", "mysql://h/d"),
        ("mysql://u:a/b@h/d", "mysql://u:***@h/d"),
    ] {
        assert_eq!(redact(url), shown);
    }
}
