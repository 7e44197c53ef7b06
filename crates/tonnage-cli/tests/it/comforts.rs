//! Ways to say which database and with which password: names, files, variables, the terminal.

use crate::support::{Database, Place};

const TABLE: &str = "CREATE TABLE orders (id integer PRIMARY KEY)";
const FILES: &[(&str, &str)] = &[("orders.csv", "id\n1\n2\n")];

/// User, password and `host:port/database` of a place's URL.
fn parts(place: &Place) -> (String, String, String) {
    let url = place.url();
    let (_, rest) = url.split_once("://").expect("a URL");
    let (login, rest) = rest.split_once('@').expect("a login");
    let (user, password) = login.split_once(':').expect("a password");
    (user.to_owned(), password.to_owned(), rest.to_owned())
}

#[test]
fn a_name_stands_for_a_url_and_a_password() {
    let place = Place::with(Database::Postgres, TABLE, FILES);
    let (user, password, rest) = parts(&place);
    place.write(
        "targets.toml",
        format!("[shop]\nurl = \"postgresql://{user}@{rest}\"\npassword_env = \"SHOP_PASSWORD\"\n"),
    );
    let given = [("SHOP_PASSWORD", password.as_str())];
    let ran = place.run_with("load orders.csv @shop -t orders", &given, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(place.sql("SELECT count(*) FROM orders"), ["2"]);
    assert!(
        ran.stderr.starts_with("insert into postgresql://"),
        "{}",
        ran.stderr
    );
    assert!(!ran.stderr.contains(&password));
    let ran = place.run_with("runs @shop", &given, b"");
    assert_eq!(
        (ran.code, ran.stdout.lines().count()),
        (Some(0), 1),
        "{}",
        ran.stderr
    );

    let ran = place.run_with("runs @shop", &[("SHOP_PASSWORD", "s3cret")], b"");
    assert_eq!(ran.code, Some(2));
    assert!(
        ran.stderr
            .starts_with("error: @shop of targets.toml: password authentication failed for user \"tonnage\"")
            && ran.stderr.contains("(password from the variable SHOP_PASSWORD)")
            && !ran.stderr.contains("s3cret"),
        "{}",
        ran.stderr
    );
    let ran = place.run("load orders.csv @shpo -t orders");
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (
            Some(2),
            "error: there is no target @shpo in targets.toml\nhint: did you mean @shop?\n"
        )
    );
}

#[test]
fn a_name_may_stand_for_a_file() {
    let place = Place::with(Database::Sqlite, TABLE, FILES);
    place.write(".config/tonnage/targets.toml", "[shop]\nurl = 'shop.db'\n");
    let ran = place.run_with("load orders.csv @shop -t orders", &[("XDG_CONFIG_HOME", "")], b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(place.sql("SELECT count(*) FROM orders"), ["2"]);
}
