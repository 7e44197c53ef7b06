//! The page at `/`: made by the server, kept up to date by server-sent events, with nothing to build.
//!
//! Every value on it is escaped; it loads nothing from anywhere else.

use std::{convert::Infallible, fmt::Write, sync::Arc, sync::atomic::Ordering, time::Duration};

use axum::{
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{
        Html, IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::stream;

use crate::{App, access::Caller, refusal::Refusal};

/// How often the page is told what has changed.
const EVERY: Duration = Duration::from_secs(1);
/// Bad rows that it shows, a table.
const REJECTS_SHOWN: usize = 5;

const HEAD: &str = r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>tonnage serve</title><style>
:root{color-scheme:light dark;--line:#d0d7de;--soft:#57606a;--good:#1a7f37;--bad:#b42318;--card:#f6f8fa}
@media(prefers-color-scheme:dark){:root{--line:#30363d;--soft:#9198a1;--good:#3fb950;--bad:#ff7b72;--card:#161b22}}
body{font:15px/1.45 system-ui,sans-serif;margin:0 auto;max-width:72rem;padding:1rem}
h1{font-size:1.25rem;margin:0 0 .25rem}p{margin:.25rem 0 1rem;color:var(--soft)}
section{border:1px solid var(--line);background:var(--card);border-radius:.5rem;padding:.75rem 1rem;margin:0 0 1rem;overflow-wrap:anywhere}
h2{font-size:1rem;margin:0 0 .5rem}dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(9.5rem,1fr));gap:.5rem 1rem;margin:0}
dt{color:var(--soft);font-size:.8rem}dd{margin:0;font-variant-numeric:tabular-nums;font-size:1.05rem}
ul{margin:.75rem 0 0;padding:0;list-style:none;font-size:.85rem}li{border-top:1px solid var(--line);padding:.25rem 0}
.good{color:var(--good)}.bad{color:var(--bad)}code{font-family:ui-monospace,monospace}
</style></head><body><h1>tonnage serve</h1>"#;

const TAIL: &str = r##"<script>
const main=document.querySelector("main"),source=new EventSource("events");
source.onmessage=event=>{main.innerHTML=JSON.parse(event.data)};
source.onerror=()=>{document.querySelector("#state").textContent="the server does not answer"};
source.onopen=()=>{document.querySelector("#state").textContent="live"};
</script></body></html>"##;

/// The password of HTTP's basic authentication: a browser asks for a token so.
pub fn password(encoded: &str) -> Option<String> {
    let mut bits = 0u32;
    let mut count = 0;
    let mut bytes = Vec::new();
    for byte in encoded.trim().bytes().filter(|byte| *byte != b'=') {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    let text = String::from_utf8(bytes).ok()?;
    text.split_once(':').map(|(_, password)| password.to_owned())
}

/// The page as it is now.
pub async fn page(State(app): State<Arc<App>>, caller: Caller) -> Result<Response, Refusal> {
    caller.admin()?;
    let page = format!(
        "{HEAD}<p><span id=\"state\">as of now</span>; docs: <code>/v1/openapi.json</code></p><main>{}</main>{TAIL}",
        tables(&app)
    );
    let mut response = (StatusCode::OK, Html(page)).into_response();
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    Ok(response)
}

/// What the page shows, once a second.
pub async fn events(State(app): State<Arc<App>>, caller: Caller) -> Result<Response, Refusal> {
    caller.admin()?;
    let events = stream::unfold(app, |app| async move {
        if app.is_stopping.load(Ordering::Relaxed) {
            return None;
        }
        tokio::time::sleep(EVERY).await;
        let data = serde_json::Value::from(tables(&app)).to_string();
        Some((Ok::<_, Infallible>(Event::default().data(data)), app))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()).into_response())
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

fn tables(app: &App) -> String {
    let mut out = String::new();
    let places = app.tables.places();
    // Writing to a string does not fail.
    let _ = write!(
        out,
        "<p>connections: {}, tables in use: {}</p>",
        app.metrics.connections.load(Ordering::Relaxed),
        places.len()
    );
    if places.is_empty() {
        out.push_str(
            "<section><h2>No rows yet</h2>POST them to <code>/v1/tables/TABLE/rows</code></section>",
        );
    }
    for place in places {
        let metrics = place.buffer.metrics();
        let state = match (place.buffer.closed(), place.is_away()) {
            (true, _) => ("bad", "ended"),
            (_, true) => ("bad", "the database is away"),
            _ if metrics.depth_bytes * 10 >= app.config.table_memory.0 * 9 => {
                ("bad", "bound by the database: the buffer is full")
            }
            _ if metrics.depth_rows > 0 => ("good", "draining"),
            _ => ("good", "idle"),
        };
        let _ = write!(
            out,
            "<section><h2>{} <small>{}</small> <small class=\"{}\">{}</small></h2><dl>",
            escape(&place.shown()),
            place.mode,
            state.0,
            state.1
        );
        for (name, value) in [
            ("rows/s in", format!("{:.0}", metrics.rows_in_per_second)),
            ("rows/s out", format!("{:.0}", metrics.rows_out_per_second)),
            ("rows waiting", metrics.depth_rows.to_string()),
            ("oldest", format!("{:.1} s", metrics.oldest_seconds)),
            ("accepted", metrics.mark_accepted.to_string()),
            ("journaled", metrics.mark_journaled.to_string()),
            ("committed", metrics.mark_committed.to_string()),
            ("known", metrics.duplicates.to_string()),
            ("rejected", metrics.rejected.to_string()),
            ("refused", metrics.refused.to_string()),
            ("memory", format!("{} KiB", metrics.depth_bytes >> 10)),
            ("journal", format!("{} KiB", metrics.journal_bytes >> 10)),
        ] {
            let _ = write!(out, "<div><dt>{name}</dt><dd>{value}</dd></div>");
        }
        out.push_str("</dl>");
        let rejects = place
            .rejects
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut last = rejects.last(REJECTS_SHOWN).peekable();
        if last.peek().is_some() {
            out.push_str("<ul>");
            for (sequence, bad) in last {
                let column = bad
                    .column
                    .as_deref()
                    .map(|name| format!("{name}: "))
                    .unwrap_or_default();
                let _ = write!(
                    out,
                    "<li>row {sequence} <code>{}</code> {}</li>",
                    escape(&bad.code),
                    escape(&format!("{column}{}", bad.message))
                );
            }
            out.push_str("</ul>");
        }
        out.push_str("</section>");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_shows_its_token_as_a_password() {
        assert_eq!(password("YTpi").as_deref(), Some("b"));
        assert_eq!(password("dG9rZW46dG5nXzE=").as_deref(), Some("tng_1"));
        assert_eq!(password("not base64!"), None);
        assert_eq!(password("YWI="), None);
    }

    #[test]
    fn what_stands_on_the_page_is_escaped() {
        assert_eq!(escape("<a href='\"&\">"), "&lt;a href=&#39;&quot;&amp;&quot;&gt;");
    }
}
