//! The clients of docs/serve.md: what a page shows in a language is run by that language.

use std::{fs, path::Path, process::Command};

use super::{Serve, state, url};
use crate::support::{Database, TestDatabase};

/// The address in the page.
const SHOWN: &str = "127.0.0.1:8432";

/// The blocks of a language in the page, with the server's address.
fn blocks(language: &str, address: &str) -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/serve.md");
    let page = fs::read_to_string(page).expect("the page");
    let mut blocks = page.split("\n```").skip(1).step_by(2);
    let found: Vec<String> = blocks
        .by_ref()
        .filter_map(|block| block.strip_prefix(&format!("{language}\n")))
        .map(|block| block.replace(SHOWN, address))
        .collect();
    assert!(!found.is_empty(), "the page shows something in {language}");
    found
}

fn run(place: &TestDatabase, program: &str, arguments: &[&str]) -> String {
    let ran = Command::new(program)
        .args(arguments)
        .current_dir(place.path(""))
        .env("GOCACHE", std::env::temp_dir().join("tonnage-test-go"))
        .env("GOFLAGS", "-mod=mod")
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{program} {arguments:?}: {said}");
    String::from_utf8(ran.stdout).expect("text")
}

const READINGS: &str = "CREATE TABLE readings (id integer PRIMARY KEY, device text, value double precision)";

#[test]
fn what_the_page_shows_in_four_languages_puts_rows() {
    let place = TestDatabase::with(Database::Sqlite, READINGS, &[]);
    let server = Serve::of(&url(&place), &state(&place));
    let block = |language: &str| {
        let all = blocks(language, server.address());
        let numbered = all.into_iter().find(|block| block.contains("Tonnage-Sequence"));
        numbered.expect("a block that numbers its rows")
    };
    let producer = |name: &str, block: String| block.replace("gate-7", name);
    let python = producer("python", block("python"))
        + "\nprint(put([{'id': 1}, {'id': 2}], 1))\nprint(put([{'id': 1}, {'id': 2}], 1)['known'])\n";
    place.write("a.py", python);
    assert!(run(&place, "python3", &["a.py"]).ends_with("\n2\n"));

    let (go, java) = (block("go"), block("java"));
    let go = format!(
        "package main\nimport (\"bytes\"; \"io\"; \"net/http\"; \"os\"; \"strconv\")\nfunc main() {{\n\
         lines := []byte(\"{{\\\"id\\\":3}}\\n\")\nvar first int64 = 1\n{}\nif err != nil {{ panic(err) }}\n\
         io.Copy(os.Stdout, resp.Body)\n}}\n",
        producer("go", go)
    );
    place.write("a.go", go);
    assert!(run(&place, "go", &["run", "a.go"]).contains("\"next\":2"));

    let java = format!(
        "import java.net.URI; import java.net.http.*;\npublic class A {{ public static void main(String[] all) throws Exception {{\n\
         var lines = \"{{\\\"id\\\":4}}\\n\"; long first = 1;\n{}\nSystem.out.println(answer.body());\n}} }}\n",
        producer("java", java)
    );
    place.write("A.java", java);
    assert!(run(&place, "java", &["A.java"]).contains("\"next\":2"));

    let script = format!(
        "const rows = [{{ id: 5 }}, {{ id: 6 }}], first = 1;\n{}\nconsole.log(await answer.text());\n",
        producer("js", block("js"))
    );
    place.write("a.mjs", script);
    assert!(run(&place, "node", &["a.mjs"]).contains("\"next\":3"));
    server.until_committed(6);
    assert_eq!(
        place.sql("SELECT id FROM readings ORDER BY id"),
        ["1", "2", "3", "4", "5", "6"]
    );
}

#[test]
fn the_lines_of_curl_on_the_page_work() {
    let place = TestDatabase::with(
        Database::Sqlite,
        READINGS,
        &[
            ("readings.jsonl", "{\"id\":1}\n{\"id\":17}\n"),
            ("first.jsonl", "{\"id\":42}\n"),
            ("keys.csv", "id\n17\n"),
            ("devices.csv", "id,name\n1,gate\n"),
        ],
    );
    let server = Serve::of(&url(&place), &state(&place));
    let mut count = 0;
    for block in blocks("sh", server.address()) {
        if block.starts_with("curl ") {
            let script = block.replace("curl ", "curl -sS --fail-with-body ");
            let said = run(&place, "sh", &["-ec", &script]);
            assert!(!said.contains("\"error\""), "{script}: {said}");
            count += 1;
        }
    }
    assert!(count >= 3, "the page has lines of curl");
    server.until_drained();
    assert_eq!(
        place.sql("SELECT id FROM readings ORDER BY id"),
        ["1", "17", "42"]
    );
}
