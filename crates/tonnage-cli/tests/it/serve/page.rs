//! The page in a real browser. With `TONNAGE_SAMPLES=write` the picture in the docs is what it shows.

use std::{path::Path, process::Command};

use super::{Serve, state, url};
use crate::support::{Database, TestDatabase};

#[test]
fn the_page_is_live_and_fits_a_phone() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/chromium");
    let ran = Command::new(script).output().expect("the script runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let browser = String::from_utf8(ran.stdout).expect("a path").trim().to_owned();
    let place = TestDatabase::with(
        Database::Sqlite,
        "CREATE TABLE readings (id integer PRIMARY KEY, v text); CREATE TABLE orders (id integer PRIMARY KEY, v text)",
        &[],
    );
    let server = Serve::of(&url(&place), &state(&place));
    for first in 0..40 {
        let rows = first * 500 + 1_000..first * 500 + 1_500;
        let lines: String = rows
            .map(|id| format!("{{\"id\":{id},\"v\":\"an order\"}}\n"))
            .collect();
        server.put("/v1/tables/orders/rows", &lines).expect(200);
    }
    server
        .put(
            "/v1/tables/readings/rows?ack=committed",
            "{\"id\":1}\n{\"id\":\"<b>two\"}\n",
        )
        .expect(207);
    for (name, size) in [("phone.png", "400,900"), ("wide.png", "1000,640")] {
        let picture = place.path(name);
        let ran = Command::new(&browser)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--hide-scrollbars",
            ])
            .args([
                "--enable-logging=stderr",
                "--timeout=2000",
                &format!("--window-size={size}"),
            ])
            .arg(format!("--user-data-dir={}", place.path("profile").display()))
            .arg(format!("--screenshot={}", picture.display()))
            .arg(format!("http://{}/", server.address()))
            .output()
            .expect("the browser runs");
        let log = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{log}");
        assert!(!log.lines().any(|line| line.contains("CONSOLE")), "{log}");
        assert!(std::fs::metadata(&picture).expect("a picture").len() > 5_000);
        if name == "wide.png" && std::env::var("TONNAGE_SAMPLES").is_ok_and(|wish| wish == "write") {
            let shown = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/serve.png");
            std::fs::copy(&picture, shown).expect("a copy");
        }
    }
    let page = server.get("/").expect(200).text();
    assert!(page.contains("readings") && page.contains("22P02"), "{page}");
    assert!(!page.contains("<b>two"), "{page}");
}
