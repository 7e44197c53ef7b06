//! Who may do what: each cell of the table, allowed and refused.

use super::{Serve, state, url};
use crate::{
    process::tonnage,
    support::{BOTH, TestDatabase},
};

/// A new token, and its hash.
pub fn token() -> (String, String) {
    let ran = tonnage()
        .args(["serve", "--new-token"])
        .output()
        .expect("it runs");
    assert!(ran.status.success());
    let text = String::from_utf8(ran.stdout).expect("text");
    let token = text.lines().next().expect("a token").to_owned();
    let hash = text
        .lines()
        .find_map(|line| line.strip_prefix("sha256 = \""))
        .expect("a hash");
    (token, hash.trim_end_matches('"').to_owned())
}

#[test]
fn each_token_may_what_it_says_and_nothing_else() {
    for database in BOTH {
        let place = TestDatabase::with(
            *database,
            "CREATE TABLE a (id integer PRIMARY KEY); CREATE TABLE b (id integer PRIMARY KEY)",
            &[],
        );
        let holders = ["writer", "reader", "admin", "everything", "expired", "other"];
        let tokens: Vec<_> = holders.iter().map(|_| token()).collect();
        let rights = [
            "write = [\"a\"]",
            "read = [\"a\"]",
            "admin = true",
            "write = [\"*\"]\nread = [\"*\"]\nadmin = true",
            "write = [\"*\"]\nread = [\"*\"]\nadmin = true\nexpires = \"2001-01-01T00:00:00Z\"",
            "write = [\"elsewhere/*\"]\nread = [\"b\"]",
        ];
        let mut text = format!(
            "state = {:?}\n[databases.d]\nurl = {:?}\n[[listen]]\naddress = \"127.0.0.1:0\"\n",
            state(&place).display().to_string(),
            url(&place)
        );
        for ((holder, rights), (_, hash)) in holders.iter().zip(rights).zip(&tokens) {
            text.push_str(&format!("[tokens.{holder}]\nsha256 = \"{hash}\"\n{rights}\n"));
        }
        place.write("serve.toml", &text);
        let server = Serve::start(&["-v", "--config", &place.path("serve.toml").display().to_string()]);
        let json = "Content-Type: application/json";
        // The status for: writer, reader, admin, everything, expired, other, nobody, a wrong token.
        let cells: &[(&str, &str, [u16; 8])] = &[
            (
                "POST",
                "/v1/tables/a/rows",
                [200, 403, 403, 200, 401, 403, 401, 401],
            ),
            (
                "POST",
                "/v1/tables/b/rows",
                [403, 403, 403, 200, 401, 403, 401, 401],
            ),
            (
                "GET",
                "/v1/tables/a/rows?id=1",
                [403, 200, 403, 200, 401, 403, 401, 401],
            ),
            (
                "GET",
                "/v1/tables/b/rows?id=1",
                [403, 403, 403, 200, 401, 200, 401, 401],
            ),
            (
                "POST",
                "/v1/tables/a/get",
                [403, 200, 403, 200, 401, 403, 401, 401],
            ),
            (
                "GET",
                "/v1/tables/a/export",
                [403, 200, 403, 200, 401, 403, 401, 401],
            ),
            // Nobody, since the configuration has no `create`.
            ("PUT", "/v1/tables/a", [403, 403, 403, 403, 401, 403, 401, 401]),
            ("GET", "/v1/tables/a", [200, 200, 403, 200, 401, 403, 401, 401]),
            (
                "GET",
                "/v1/tables/nothing/export",
                [403, 403, 403, 403, 401, 403, 401, 401],
            ),
            (
                "GET",
                "/v1/tables/a/export?database=x",
                [403, 403, 403, 403, 401, 403, 401, 401],
            ),
            ("GET", "/metrics", [403, 403, 200, 200, 401, 403, 401, 401]),
            ("GET", "/", [403, 403, 200, 200, 401, 403, 401, 401]),
            ("GET", "/events", [403, 403, 0, 0, 401, 403, 401, 401]),
            ("GET", "/v1/producers/p", [404, 404, 404, 404, 401, 404, 401, 401]),
            (
                "GET",
                "/v1/openapi.json",
                [200, 200, 200, 200, 401, 200, 401, 401],
            ),
            ("GET", "/v1/tables", [200, 200, 200, 200, 401, 200, 401, 401]),
            ("GET", "/nothing", [404, 404, 404, 404, 401, 404, 401, 401]),
            ("GET", "/livez", [200; 8]),
            ("GET", "/readyz", [200; 8]),
        ];
        let shown = tokens.iter().map(|(token, _)| Some(token.clone()));
        let shown: Vec<_> = shown.chain([None, Some("tng_00".to_owned())]).collect();
        for (method, path, statuses) in cells {
            for (at, (token, status)) in shown.iter().zip(statuses).enumerate() {
                if *status == 0 {
                    continue;
                }
                let token = token
                    .as_ref()
                    .map(|token| format!("Authorization: Bearer {token}"));
                let headers: Vec<&str> = token.as_deref().into_iter().chain([json]).collect();
                let body = format!("{{\"id\":{}}}", 100 + at);
                let answer = server.send(method, path, &headers, body.as_bytes());
                assert_eq!(
                    answer.status,
                    *status,
                    "{method} {path} by {at}: {}",
                    answer.text()
                );
                // Strangers hear nothing of what there is.
                if answer.status == 401 {
                    for word in [place.name(), "sqlite", "postgres", "table"] {
                        assert!(!answer.text().contains(word), "{}", answer.text());
                    }
                }
            }
        }
        let said = server.said();
        assert!(
            said.contains("code=\"unauthorized\" status=401 from=\"127.0.0.1:"),
            "{said}"
        );
        for (token, _) in &tokens {
            assert!(!said.contains(token.as_str()), "no token comes into the log");
        }
        // Replaced tokens count from the signal on.
        let (fresh, hash) = token();
        place.write("serve.toml", text.replace(&tokens[0].1, &hash));
        server.signal(1);
        let by = |token: &str| {
            let header = format!("Authorization: Bearer {token}");
            server
                .send("POST", "/v1/tables/a/rows", &[&header, json], b"{\"id\":7}")
                .status
        };
        while by(&fresh) != 200 {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!(by(&tokens[0].0), 401);
        server.stop().expect(0);
    }
}

#[test]
fn the_log_is_for_programs_where_it_is_asked_for() {
    let place = TestDatabase::with(BOTH[0], "CREATE TABLE a (id integer PRIMARY KEY)", &[]);
    let state = state(&place).display().to_string();
    let server = Serve::start(&[
        &url(&place),
        "--listen",
        "127.0.0.1:0",
        "--state",
        &state,
        "--log-format",
        "json",
    ]);
    server.get("/v1/tables/nothing").expect(404);
    let ended = server.stop();
    ended.expect(0);
    let lines = ended.stderr.lines();
    let lines: Vec<serde_json::Value> = lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let refused = lines
        .iter()
        .find(|line| line["code"] == "no_table")
        .expect("a line");
    assert_eq!(
        (&refused["status"], &refused["token"], &refused["level"]),
        (&404.into(), &"anybody".into(), &"INFO".into()),
        "{refused}"
    );
    let said = |text: &str| {
        let message = |line: &serde_json::Value| {
            line["message"]
                .as_str()
                .is_some_and(|line| line.starts_with(text))
        };
        assert!(lines.iter().any(message), "{text}: {lines:?}");
    };
    ["listening on http://", "stopping", "stopped"]
        .into_iter()
        .for_each(said);
}
