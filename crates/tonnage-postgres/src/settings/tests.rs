use super::*;

struct Variables(Vec<(&'static str, String)>);

impl Surroundings for Variables {
    fn variable(&self, name: &str) -> Option<String> {
        let (_, value) = self.0.iter().find(|(n, _)| *n == name)?;
        Some(value.clone())
    }
}

fn variables(pairs: &[(&'static str, &str)]) -> Variables {
    Variables(
        pairs
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect(),
    )
}

fn resolve(url: &str, pairs: &[(&'static str, &str)]) -> Settings {
    Settings::resolve(url, &variables(pairs)).unwrap_or_else(|e| panic!("{url}: {e}"))
}

/// `user@endpoint,endpoint/database`
fn summary(settings: &Settings) -> String {
    let endpoints: Vec<_> = settings.endpoints.iter().map(Endpoint::to_string).collect();
    format!("{}@{}/{}", settings.user, endpoints.join(","), settings.database)
}

#[test]
fn the_url_comes_before_the_environment() {
    let environment = [
        ("PGHOST", "envhost"),
        ("PGPORT", "1111"),
        ("PGUSER", "envuser"),
        ("PGDATABASE", "envdb"),
        ("PGPASSWORD", "envpass"),
        ("PGSSLMODE", "require"),
    ];
    let cases = [
        ("postgresql://", "envuser@envhost:1111/envdb"),
        ("postgres://u@h/d", "u@h:1111/d"),
        ("postgres://u@h:2/d", "u@h:2/d"),
        ("postgresql://h1:1,h2:2/d", "envuser@h1:1,h2:2/d"),
        ("postgresql://h1,h2/d?port=7", "envuser@h1:7,h2:7/d"),
        (
            "postgresql:///d?host=/tmp/s%20x&port=3",
            "envuser@/tmp/s x/.s.PGSQL.3/d",
        ),
        ("postgresql://%2Ftmp:4/d", "envuser@/tmp/.s.PGSQL.4/d"),
        ("postgresql://u%40x@[::1]:5/my%2Fdb", "u@x@[::1]:5/my/db"),
        ("postgresql://u@h/d?user=v&dbname=e", "v@h:1111/e"),
        ("postgresql://?hostaddr=10.0.0.1&host=h", "envuser@h:1111/envdb"),
        ("postgresql://u@?hostaddr=10.0.0.1", "u@envhost:1111/envdb"),
        ("host=h user=u dbname=d", "u@h:1111/d"),
        ("dbname='my db' port = 7", "envuser@envhost:7/my db"),
        ("host=/tmp,h2 port=1,2 user=u", "u@/tmp/.s.PGSQL.1,h2:2/envdb"),
    ];
    for (url, expected) in cases {
        assert_eq!(summary(&resolve(url, &environment)), expected, "{url}");
    }
    let settings = resolve("postgres://u@h/d", &environment);
    assert_eq!(settings.tls, TlsMode::Require);
    assert_eq!(settings.endpoints[0].password, Secret("envpass".to_owned()));
    assert_eq!(
        settings.endpoints[0].password_origin,
        PasswordOrigin::Environment("PGPASSWORD")
    );
    let settings = resolve("postgres://u:p%3Aw@h/d?sslmode=verify-full", &environment);
    assert_eq!(settings.tls, TlsMode::VerifyFull);
    assert_eq!(settings.endpoints[0].password, Secret("p:w".to_owned()));
    assert_eq!(settings.endpoints[0].password_origin, PasswordOrigin::Url);
    assert!(!format!("{settings:?}").contains("p:w"));
}

#[test]
fn without_settings_libpqs_defaults_hold() {
    let settings = resolve("postgresql://h", &[("USER", "anna")]);
    assert_eq!(summary(&settings), "anna@h:5432/anna");
    assert_eq!(settings.tls, TlsMode::Prefer);
    assert_eq!(settings.application_name, "tonnage");
    assert_eq!(settings.endpoints[0].password_origin, PasswordOrigin::None);
    assert_eq!(
        (settings.connect_timeout, settings.root_certificate),
        (Some(CONNECT_TIMEOUT), None)
    );
}

#[test]
fn connecting_has_an_end_unless_it_is_to_have_none() {
    let timeout = |url: &str| resolve(url, &[("USER", "anna")]).connect_timeout;
    assert_eq!(timeout("postgresql://h"), Some(CONNECT_TIMEOUT));
    assert_eq!(
        timeout("postgresql://h/d?connect_timeout=7"),
        Some(Duration::from_secs(7))
    );
    assert_eq!(timeout("postgresql://h/d?connect_timeout=0"), None);
}

#[test]
fn mistakes_in_a_url_are_named() {
    let cases = [
        ("mysql://h", "a PostgreSQL URL begins with postgresql://"),
        ("postgresql://h:x/d", "'x' is not a port"),
        ("postgresql://h:0/d", "'0' is not a port"),
        ("postgresql://h:65536/d", "'65536' is not a port"),
        (
            "postgresql://h/d?sslmod=require",
            "unknown option 'sslmod' in the PostgreSQL URL",
        ),
        (
            "postgresql://h/d?sslmode=full",
            "unknown sslmode 'full' in the PostgreSQL URL",
        ),
        (
            "postgresql://h/d?sslmode",
            "an option in the PostgreSQL URL has no value",
        ),
        (
            "postgresql://h1,h2,h3/d?port=1,2",
            "hosts, addresses and ports in the PostgreSQL URL differ in number",
        ),
        (
            "postgresql://[::1/d",
            "an IPv6 address in the PostgreSQL URL is not closed",
        ),
        (
            "postgresql://h/%ff",
            "the database in the PostgreSQL URL is not UTF-8",
        ),
        (
            "postgresql://h/a%00b",
            "the database in the PostgreSQL URL holds a NUL byte",
        ),
        ("postgresql://h/d?hostaddr=h", "'h' is not an IP address"),
        (
            "postgresql://h/d?connect_timeout=x",
            "connect_timeout 'x' is not a number of seconds",
        ),
        (
            "postgresql://h/d?target_session_attrs=standby",
            "target_session_attrs 'standby' is not supported",
        ),
    ];
    for (url, message) in cases {
        let error = Settings::resolve(url, &variables(&[("PGUSER", "u")])).unwrap_err();
        assert_eq!(error.to_string(), message, "{url}");
    }
    let error = Settings::resolve("postgresql://h", &variables(&[])).unwrap_err();
    assert_eq!(error.to_string(), "no PostgreSQL user is known");
    let error = Settings::resolve("postgresql://u@h", &variables(&[("PGSSLMODE", "on")])).unwrap_err();
    assert_eq!(error.to_string(), "unknown sslmode 'on' in PGSSLMODE");
}

#[test]
fn the_first_fitting_line_of_the_password_file_counts() {
    let file = PasswordFile {
        shown: "~/.pgpass".to_owned(),
        text: "# comment:*:*:*:no\n\
               too:few:fields\n\
               h:1:d:u:first\n\
               h:*:*:\\*:star\n\
               a\\:b:5432:d\\\\e:u:p\\:a:ss\\\\word\n\
               localhost:5432:*:u:local\n\
               *:*:*:*:last\n"
            .to_owned(),
    };
    let cases = [
        ("h", 1, "d", "u", "first"),
        ("h", 2, "d", "u", "last"),
        ("h", 2, "d", "*", "star"),
        ("a:b", 5432, "d\\e", "u", "p:a:ss\\word"),
        ("/var/run/postgresql", 5432, "d", "u", "local"),
        ("/elsewhere", 5432, "d", "u", "last"),
    ];
    for (host, port, database, user, password) in cases {
        let found = file.password(host, port, database, user);
        assert_eq!(
            found.map(|(p, _)| p).as_deref(),
            Some(password),
            "{host} {port} {database} {user}"
        );
    }
}

#[test]
fn a_password_file_is_read_only_if_it_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join(".pgpass");
    std::fs::write(&path, "*:*:*:*:secret\n").unwrap();
    let environment = [("HOME", home.path().to_str().unwrap()), ("USER", "u")];
    for (mode, origin) in [
        (0o600, PasswordOrigin::File("~/.pgpass".to_owned())),
        (0o400, PasswordOrigin::File("~/.pgpass".to_owned())),
        (0o640, PasswordOrigin::None),
        (0o604, PasswordOrigin::None),
    ] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(
            resolve("postgres://h", &environment).endpoints[0].password_origin,
            origin,
            "{mode:o}"
        );
    }
}

#[test]
fn a_service_stands_between_the_url_and_the_environment() {
    let home = tempfile::tempdir().unwrap();
    let own = home.path().join(".pg_service.conf");
    let system = home.path().join("pg_service.conf");
    std::fs::write(
        &own,
        "# ours\n[other]\nhost=no\n\n  [shop]  \nhost=h\nport=7\nuser=u\ndbname=d\npassword=s3cret\nsslmode=require\n\
         host=later\nkeepalives=1\n[last]\nport=x\n",
    )
    .unwrap();
    std::fs::write(&system, "[common]\nhost=far\nuser=all\n[shop]\nhost=hidden\n").unwrap();
    let directory = home.path().to_str().unwrap();
    let environment = [
        ("HOME", directory),
        ("PGSYSCONFDIR", directory),
        ("PGHOST", "envhost"),
        ("PGPASSWORD", "envpass"),
        ("PGDATABASE", "envdb"),
    ];
    let cases = [
        ("postgresql://?service=shop", "u@h:7/d"),
        ("postgresql://v@g/e?service=shop", "v@g:7/e"),
        ("postgresql://?service=common", "all@far:5432/envdb"),
    ];
    for (url, expected) in cases {
        assert_eq!(summary(&resolve(url, &environment)), expected, "{url}");
    }
    let mut named = environment.to_vec();
    named.push(("PGSERVICE", "shop"));
    let settings = resolve("postgresql://", &named);
    assert_eq!(summary(&settings), "u@h:7/d");
    assert_eq!(settings.tls, TlsMode::Require);
    assert_eq!(settings.endpoints[0].password, Secret("s3cret".to_owned()));
    let origin = "from the service file ~/.pg_service.conf".to_owned();
    assert_eq!(
        settings.endpoints[0].password_origin,
        PasswordOrigin::Given(origin)
    );
    named.push(("PGSERVICEFILE", system.to_str().unwrap()));
    assert_eq!(
        summary(&resolve("postgresql://u@", &named)),
        "u@hidden:5432/envdb"
    );
}

#[test]
fn mistakes_in_a_service_file_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("services");
    let shown = path.to_str().unwrap();
    let environment = variables(&[
        ("PGSERVICEFILE", shown),
        ("PGSYSCONFDIR", "/nowhere"),
        ("PGUSER", "u"),
    ]);
    let refused = || {
        let error = Settings::resolve("postgresql://?service=shop", &environment).unwrap_err();
        assert!(!format!("{error:?}").contains("s3cret"));
        (
            error.to_string().replace(shown, "FILE"),
            error.hint_text().unwrap_or_default().to_owned(),
        )
    };
    assert_eq!(refused().0, "there is no service file with the service 'shop'");
    let cases = [
        (
            "[shpo]\n",
            "there is no service 'shop' in FILE",
            "did you mean shpo?",
        ),
        (
            "[shop]\n\npasswort s3cret\n",
            "service file FILE line 3: an option has no value",
            "write options as name=value",
        ),
        (
            "[shop]\npasswort=s3cret\n",
            "service file FILE line 2: unknown option 'passwort'",
            "",
        ),
        (
            "[shop]\nservice=other\n",
            "service file FILE line 2: unknown option 'service'",
            "",
        ),
        (
            "[shop]\nsslmode=on\n",
            "unknown sslmode 'on' in the service file FILE",
            "",
        ),
    ];
    for (text, message, hint) in cases {
        std::fs::write(&path, text).unwrap();
        let (found, found_hint) = refused();
        assert_eq!(found, message, "{text}");
        assert!(found_hint.contains(hint), "{found_hint}");
    }
}
