//! The report of a bench in a real browser: nothing to complain of, and every chart with marks that can be seen.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

use crate::support::{Database, TestDatabase};

/// Writes what the page looks like into itself: of each chart the heading that it stands below, its size, the marks that lie
/// within it, the dashed lines within it and what the paragraph below it says; and whether the page is wider than its window.
const LOOK: &str = "<script>\
    const within = (a, b) => a.width > 0 && a.height > 0 && a.left >= b.left - 1 && a.right <= b.right + 1 && \
        a.top >= b.top - 1 && a.bottom <= b.bottom + 1;\
    let heading = '';\
    const charts = [...document.querySelectorAll('h2,svg')].flatMap(svg => {\
        if (svg.tagName == 'H2') { heading = svg.textContent; return []; }\
        const box = svg.getBoundingClientRect();\
        const all = selector => [...svg.querySelectorAll(selector)].map(one => one.getBoundingClientRect());\
        const dashed = [...svg.querySelectorAll('polyline')].filter(one =>\
            getComputedStyle(one).strokeDasharray != 'none' && within(one.getBoundingClientRect(), box));\
        return {label: svg.getAttribute('aria-label'), heading, width: box.width, height: box.height,\
            dashed: dashed.length, below: (svg.nextElementSibling || {}).textContent || '',\
            marks: all('circle,rect').filter(one => within(one, box)).length,\
            cut: all('text').filter(one => one.right > box.right + 1 || one.left < box.left - 1).length};\
    });\
    const looked = document.createElement('pre');\
    looked.id = 'looked';\
    looked.textContent = JSON.stringify({charts, wide: document.documentElement.scrollWidth > innerWidth});\
    document.body.append(looked);\
    </script></body>";

fn chromium() -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/chromium");
    let ran = Command::new(script).output().expect("the script runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).expect("a path").trim().into()
}

/// The page as the browser has it in the end, and what it logs.
fn seen(browser: &Path, place: &TestDatabase, page: &str) -> Output {
    let profile = format!("--user-data-dir={}", place.path("profile").display());
    let ran = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
        ])
        .args([
            "--enable-logging=stderr",
            "--window-size=1100,1400",
            "--dump-dom",
            &profile,
        ])
        .arg(format!("file://{}", place.path(page).display()))
        .output()
        .expect("the browser runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    ran
}

/// What the page has said on its console.
fn console(ran: &Output) -> Vec<String> {
    let log = String::from_utf8_lossy(&ran.stderr);
    let lines = log.lines().filter(|line| line.contains("CONSOLE"));
    lines.map(str::to_owned).collect()
}

#[test]
fn a_report_is_seen_whole_and_without_an_error() {
    let browser = chromium();
    let place = TestDatabase::new(Database::Postgres);
    let lists = "--method single,array,native --batch-rows 50,100 --jobs 1,2 --durability relaxed,durable --rtt 0,1ms";
    let ran = place.run(&format!(
        "bench {{db}} --rows 100 --duration 10m --repeat 1 --yes {lists} -o out"
    ));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);

    let page = place.read("out/report.html");
    place.write(
        "broken.html",
        page.replace("</body>", "<script>missing()</script></body>"),
    );
    let told = console(&seen(&browser, &place, "broken.html"));
    assert!(
        told.iter().any(|line| line.contains("missing is not defined")),
        "{told:?}"
    );
    // Over rows of a write and over jobs, of two promises.
    assert_whole(&browser, &place, "out/report.html", 4);

    let lists = "--method single,array --batch-rows 10,50 --jobs 2 --reads 0,50 --tables 1,2";
    let ran = place.run(&format!(
        "bench {{db}} --rows 100 --duration 10m --repeat 1 --yes {lists} -o mixed"
    ));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_whole(&browser, &place, "mixed/report.html", 1);
}

/// A page with many charts, all of which are to be seen, so many of them with a published curve; and nothing on its
/// console.
fn assert_whole(browser: &Path, place: &TestDatabase, path: &str, curves: usize) {
    let page = place.read(path);
    assert_eq!(console(&seen(browser, place, path)), [] as [&str; 0]);
    place.write("looked.html", page.replace("</body>", LOOK));
    let looked = seen(browser, place, "looked.html");
    assert_eq!(console(&looked), [] as [&str; 0]);
    let text = String::from_utf8_lossy(&looked.stdout);
    let (_, after) = text
        .split_once("<pre id=\"looked\">")
        .expect("the script has run");
    let (found, _) = after.split_once("</pre>").expect("it ends");
    let found: Value = serde_json::from_str(
        &found
            .replace("&amp;", "&")
            .replace("&lt;", "<")
            .replace("&gt;", ">"),
    )
    .expect("JSON");
    let charts = found["charts"].as_array().expect("charts");
    assert!(charts.len() >= 20, "{path}: {} charts", charts.len());
    for chart in charts {
        assert!(chart["width"].as_f64() > Some(300.0), "{chart}");
        assert!(chart["height"].as_f64() > Some(20.0), "{chart}");
        assert!(
            chart["marks"].as_u64() > Some(0),
            "nothing is to be seen: {chart}"
        );
        assert_eq!(chart["cut"], 0, "text is cut off: {chart}");
    }
    assert_eq!(found["wide"], false, "the page is wider than its window");

    // Inserts of sbtest into one table have published curves, but none over a longer way.
    let mut laid = 0;
    for chart in charts {
        let told = |name: &str| chart[name].as_str().expect("text").to_owned();
        let is_of = ["sbtest insert, relaxed", "sbtest insert, durable"].contains(&told("heading").as_str());
        let label = told("label");
        let is_curve =
            label.starts_with("Rows a second over rows of a write") || label == "Rows a second over jobs";
        let has_curve = is_of && is_curve;
        laid += usize::from(has_curve);
        assert_eq!(chart["dashed"], u64::from(has_curve), "{chart}");
        assert_eq!(told("below").contains("E4: PolarDB-X"), has_curve, "{chart}");
    }
    assert_eq!(laid, curves, "{path}");
}
