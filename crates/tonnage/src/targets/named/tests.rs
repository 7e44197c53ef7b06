use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt};

use super::*;

/// A directory to work in, a home and a few variables.
struct TestHome {
    directory: tempfile::TempDir,
    variables: BTreeMap<String, String>,
}

impl TestHome {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("home/.config/tonnage")).unwrap();
        let home = directory.path().join("home").display().to_string();
        Self {
            directory,
            variables: [("HOME".to_owned(), home)].into(),
        }
    }

    fn write(&self, name: &str, text: &str, mode: u32) {
        let path = self.directory.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn find(&self, name: &str) -> Result<Named> {
        find_in(
            name,
            &Surroundings {
                directory: self.directory.path(),
                variable: &|name| self.variables.get(name).cloned(),
            },
        )
    }

    fn url(&self, name: &str) -> String {
        match self.find(name).unwrap().place {
            NamedPlace::Url(url) => url,
            NamedPlace::Sharded { .. } => panic!("@{name} is sharded"),
        }
    }

    fn password(&self, name: &str) -> Result<Option<Password>> {
        let named = self.find(name)?;
        named.password_in(&|name| self.variables.get(name).cloned())
    }

    /// The refusal and its hint, without the directory.
    fn refused(&self, name: &str) -> (String, String) {
        let error = self
            .password(name)
            .err()
            .unwrap_or_else(|| panic!("@{name} was found"));
        let short = |text: &str| text.replace(&format!("{}/", self.directory.path().display()), "");
        assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
        (
            short(&error.to_string()),
            short(error.hint_text().unwrap_or_default()),
        )
    }
}

const OWN: &str = "home/.config/tonnage/targets.toml";

#[test]
fn the_file_in_the_directory_comes_before_the_one_in_the_home() {
    let mut place = TestHome::new();
    place.write(
        OWN,
        "[shop]\nurl = 'old.db'\n[\"odd name\"]\nurl = 'odd.db'\n",
        0o644,
    );
    assert_eq!(place.url("shop"), "old.db");
    place.write("targets.toml", "[shop]\nurl = 'new.db'\n", 0o644);
    assert_eq!(place.url("shop"), "new.db");
    assert_eq!(place.url("odd name"), "odd.db");
    let other = place.directory.path().join("settings");
    fs::create_dir_all(other.join("tonnage")).unwrap();
    place.write(
        "settings/tonnage/targets.toml",
        "[else]\nurl = 'else.db'\n",
        0o644,
    );
    place
        .variables
        .insert("XDG_CONFIG_HOME".to_owned(), other.display().to_string());
    assert_eq!(place.url("else"), "else.db");
    assert!(place.find("odd name").is_err());
}

#[test]
#[cfg(feature = "postgres")]
fn a_password_comes_from_a_variable_or_a_file_and_says_so() {
    let mut place = TestHome::new();
    place.variables.insert("SHOP".to_owned(), "s3cret".to_owned());
    place.write(
        OWN,
        "[a]\nurl = 'postgresql://u@h/d'\npassword_env = 'SHOP'\n\
         [b]\nurl = 'postgresql://u@h/d'\npassword_file = 'b.password'\n\
         [c]\nurl = 'postgresql://u@h/d'\npassword_file = '~/c.password'\n\
         [d]\nurl = 'postgresql://u:s3cret@h/d'\n",
        0o600,
    );
    place.write("home/.config/tonnage/b.password", "s3cret\nmore\n", 0o600);
    place.write("home/c.password", "s3cret", 0o400);
    for (name, origin) in [
        ("a", "from the variable SHOP"),
        ("b", "home/.config/tonnage/b.password"),
        ("c", "home/c.password"),
    ] {
        let password = place.password(name).unwrap().unwrap();
        assert_eq!(password.reveal(), "s3cret", "{name}");
        assert!(password.origin().ends_with(origin), "{}", password.origin());
        assert!(!format!("{password:?}").contains("s3cret"));
    }
    assert_eq!(place.password("d").unwrap(), None);
}

#[test]
fn a_section_may_name_several_databases() {
    let place = TestHome::new();
    let text = "[all]\nmembers = ['a.db', '@b']\nshard_by = ['tenant', 'id']\nhash = 'xxh3'\n\
                [one]\nmembers = ['a.db', 'b.db']\nshard_by = 'id'\n";
    place.write("targets.toml", text, 0o644);
    let sharded = |members: [&str; 2], shard_by: &[&str]| NamedPlace::Sharded {
        members: members.map(str::to_owned).into(),
        shard_by: shard_by.iter().map(|column| (*column).to_owned()).collect(),
    };
    assert_eq!(
        place.find("all").unwrap().place,
        sharded(["a.db", "@b"], &["tenant", "id"])
    );
    assert_eq!(
        place.find("one").unwrap().place,
        sharded(["a.db", "b.db"], &["id"])
    );
}

#[test]
fn what_is_not_right_is_named_by_file_and_line() {
    let place = TestHome::new();
    assert_eq!(
        place.refused("shop"),
        (
            "@shop is a name in targets.toml, and there is no such file".to_owned(),
            format!("write [shop] and a line url = \"..\" into targets.toml or {OWN}"),
        )
    );
    let cases = [
        (
            "[shop]\nurl = 'a.db'\n[shelf]\nurl = 'b.db'\n",
            "shpo",
            "there is no target @shpo in targets.toml",
            "did you mean @shop?",
        ),
        (
            "[shop]\nurl = 'a.db'\n[shelf]\nurl = 'b.db'\n",
            "x",
            "there is no target @x in targets.toml",
            "there are @shelf, @shop",
        ),
        (
            "[shop]\nurl = 'postgresql://u:s3cret@h/d\n",
            "shop",
            "targets.toml line 2: invalid literal string, expected `'`",
            "",
        ),
        (
            "shop = 's3cret'\n",
            "shop",
            "targets.toml line 1: shop is not a section",
            "write [shop] and below it url = \"..\"",
        ),
        (
            "\n[shop]\nurl = 'a.db'\npasword_env = 's3cret'\n",
            "shop",
            "targets.toml line 4: unknown key 'pasword_env' in [shop]",
            "did you mean password_env?",
        ),
        (
            "[shop]\nurl = 7\n",
            "shop",
            "targets.toml line 2: url is not a text",
            "write url = \"..\"",
        ),
        (
            "[a]\nurl = 'a.db'\n[shop]\nurl = 'a.db'\npassword_env = 'SHOP'\n",
            "shop",
            "targets.toml line 3: [shop] has a password, and SQLite takes none",
            "leave password_env and password_file out",
        ),
        #[cfg(feature = "cassandra")]
        (
            "[shop]\npassword_env = 'SHOP'\n",
            "shop",
            "targets.toml line 1: [shop] has no url",
            "url = \"cassandra://host1,host2/keyspace\"",
        ),
        #[cfg(feature = "postgres")]
        (
            "[shop]\nurl = 'postgresql://u:s3cret@h/d'\n",
            "shop",
            "targets.toml line 1: the url of [shop] holds a password, and group or others can read the file",
            "chmod 0600 targets.toml, or keep the password elsewhere: password_env or password_file",
        ),
        #[cfg(feature = "postgres")]
        (
            "[shop]\nurl = 'postgresql://u@h/d'\npassword_env = 'SHOP'\n",
            "shop",
            "targets.toml line 1: the password of [shop] is in the variable SHOP, which is not set",
            "export SHOP=.., or --ask-password",
        ),
        #[cfg(feature = "postgres")]
        (
            "[shop]\nurl = 'postgresql://u@h/d'\npassword_env = 'SHOP'\npassword_file = 'p'\n",
            "shop",
            "targets.toml line 1: [shop] has more than one password",
            "leave one: in the url, password_env or password_file",
        ),
        #[cfg(feature = "postgres")]
        (
            "[shop]\nurl = 'postgresql://u@h/d'\npassword_file = 'open'\n",
            "shop",
            "targets.toml line 1: the password of [shop] is in open, which group or others can read",
            "chmod 0600 open",
        ),
        (
            "[shop]\nurl = '@other'\n",
            "shop",
            "@shop of targets.toml: '@other' names no database",
            "",
        ),
        (
            "[shop]\nmembers = ['a.db', 'b.db']\n",
            "shop",
            "targets.toml line 1: [shop] has members, and nothing says how rows are shared among them",
            "shard_by = \"column\" names the column that decides",
        ),
        (
            "[shop]\nmembers = ['a.db', 7]\nshard_by = 'id'\n",
            "shop",
            "targets.toml line 2: members holds something else than texts",
            "write members = [\"..\", \"..\"]",
        ),
        (
            "[shop]\nurl = 'a.db'\nmembers = ['b.db', 'c.db']\nshard_by = 'id'\n",
            "shop",
            "targets.toml line 1: [shop] is one database by its url, and several by its members",
            "leave url out, or members and shard_by",
        ),
        (
            "[shop]\nmembers = ['b.db', 'c.db']\nshard_by = 'id'\nhash = 'crc32'\n",
            "shop",
            "targets.toml line 1: [shop] has the hash 'crc32', which is not known",
            "hash = \"xxh3\" is the only one",
        ),
    ];
    place.write("open", "s3cret", 0o644);
    for (text, name, message, hint) in cases {
        place.write("targets.toml", text, 0o644);
        let (found, found_hint) = place.refused(name);
        assert_eq!(found, message, "{text}");
        // The hint at a URL lists what databases there are in this build.
        if !hint.is_empty() {
            assert_eq!(found_hint, hint, "{text}");
        }
    }
}
