//! Routes, and what every request passes before it comes to one.
//!
//! Invariants: nothing is looked at before the caller is known, but for `/livez` and `/readyz`; a request that is refused
//! leaves one line in the log; a browser that was sent here by another site is refused where no token protects the server.

use std::{
    io::Write,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use axum::{
    Json, Router,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::json;

use crate::{
    App,
    access::{Caller, Right},
    asked::Asked,
    listen::Peer,
    make, openapi, page, read,
    refusal::{Refusal, Refused},
    traces, write,
};

/// What somebody who is refused has for the rest of a small body.
const STRANGER_PATIENCE: Duration = Duration::from_secs(1);

/// What has to have room where journals are.
const PROBE_BYTES: usize = 64 << 10;

/// Every route: method, path, what it does, and whether it needs a token. The router and `/v1/openapi.json` are made
/// of the same.
pub const ROUTES: &[Route] = &[
    Route::new("GET", "/livez", "Whether the process works", false),
    Route::new("GET", "/readyz", "Whether rows can be taken", false),
    Route::new("GET", "/metrics", "Counters for Prometheus", true),
    Route::new("GET", "/", "The page", true),
    Route::new("GET", "/events", "What the page shows, as it changes", true),
    Route::new("GET", "/v1/openapi.json", "This description", true),
    Route::new(
        "GET",
        "/v1/tables",
        "The tables that the caller may read or write",
        true,
    ),
    Route::new("GET", "/v1/tables/{table}", "The columns of a table", true),
    Route::new("PUT", "/v1/tables/{table}", "Makes a table of rows", true),
    Route::new("POST", "/v1/tables/{table}/rows", "Puts rows", true),
    Route::new(
        "GET",
        "/v1/tables/{table}/rows",
        "Rows by the keys of the URL",
        true,
    ),
    Route::new(
        "POST",
        "/v1/tables/{table}/get",
        "Rows by the keys of the body",
        true,
    ),
    Route::new("GET", "/v1/tables/{table}/export", "All rows of one state", true),
    Route::new(
        "GET",
        "/v1/producers/{producer}",
        "Up to where a producer's rows are safe",
        true,
    ),
];

/// One of them.
#[derive(Debug)]
pub struct Route {
    /// The method.
    pub method: &'static str,
    /// The path.
    pub path: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// Whether it needs a token, where there are any.
    pub is_protected: bool,
}

impl Route {
    const fn new(
        method: &'static str,
        path: &'static str,
        summary: &'static str,
        is_protected: bool,
    ) -> Self {
        Self {
            method,
            path,
            summary,
            is_protected,
        }
    }
}

/// The routes, with what each request passes.
pub fn router(app: Arc<App>) -> Router {
    let router = Router::new()
        .route("/livez", get(async || "live\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/", get(page::page))
        .route("/events", get(page::events))
        .route("/v1/openapi.json", get(async || Json(openapi::document())))
        .route("/v1/tables", get(tables))
        .route("/v1/tables/{table}", get(table).put(make::table))
        .route("/v1/tables/{table}/rows", get(read::rows).post(write::rows))
        .route("/v1/tables/{table}/get", post(read::get))
        .route("/v1/tables/{table}/export", get(read::export))
        .route("/v1/producers/{producer}", get(write::producer))
        .fallback(async || {
            Refusal::new(StatusCode::NOT_FOUND, "no_route", "there is nothing at this path")
                .hint("GET /v1/openapi.json lists what there is")
        })
        .method_not_allowed_fallback(async || {
            Refusal::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "method",
                "this path has no such method",
            )
        });
    let router = router.with_state(app.clone()).merge(crate::flight::router(&app));
    router.layer(middleware::from_fn_with_state(app, guard))
}

/// The caller, or why there is none.
pub fn caller(app: &App, headers: &HeaderMap, peer: Option<&Peer>) -> Result<Caller, Refusal> {
    let access = app
        .access
        .read()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .clone();
    if access.is_open {
        own_site(headers, peer)?;
    }
    let token = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim());
    let basic = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.strip_prefix("Basic "))
        .and_then(page::password);
    access.caller(
        token.or(basic.as_deref()),
        peer.and_then(|peer| peer.certificate.as_deref()),
    )
}

/// Without tokens a browser is let in only by pages of this server under a name of this machine: what another site has it
/// send, or a name that was made to lead here, is refused.
fn own_site(headers: &HeaderMap, peer: Option<&Peer>) -> Result<(), Refusal> {
    let foreign = || {
        Refusal::new(
            StatusCode::FORBIDDEN,
            "foreign_site",
            "requests of other sites are refused",
        )
    };
    let text = |name| {
        headers
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
    };
    let host = text(header::HOST).unwrap_or_default();
    if let Some(origin) = text(header::ORIGIN) {
        let of_origin = origin.split_once("://").map_or("", |(_, host)| host);
        if of_origin != host || host.is_empty() {
            return Err(foreign());
        }
    }
    let is_loopback = peer.is_some_and(|peer| peer.is_loopback);
    if is_loopback && !host.is_empty() {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.chars().all(|c| c.is_ascii_digit()) => name,
            _ => host,
        };
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let is_here = name == "localhost"
            || name.ends_with(".localhost")
            || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
        if !is_here {
            return Err(foreign());
        }
    }
    Ok(())
}

/// Finds the caller, counts, and says what was refused.
async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let peer = request.extensions().get::<Peer>().cloned();
    let route = known(&method, &path);
    let is_protected = route.is_none_or(|route| route.is_protected);
    let span = app
        .traces
        .as_ref()
        .and_then(|traces| traces.begin(request.headers()));
    let found = caller(&app, request.headers(), peer.as_ref());
    let name = found.as_ref().map_or("-", |caller| caller.name()).to_owned();
    let patience = match &found {
        Ok(_) => app.config.limits.sender(),
        Err(_) => STRANGER_PATIENCE,
    };
    let request = whole(request, patience).await;
    let response = match (found, request) {
        (Ok(caller), Ok(mut request)) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        (Err(_), Ok(request)) if !is_protected => next.run(request).await,
        (Err(refusal), _) | (Ok(_), Err(refusal)) => refusal.into_response(),
    };
    let status = response.status();
    let shown = route.map_or("other", |route| route.path);
    let refused = response.extensions().get::<Refused>().map(|Refused(code)| *code);
    let refused = refused.or_else(|| refused_by_grpc(response.headers()));
    app.metrics.response(shown, status.as_u16(), started.elapsed());
    if let (Some(traces), Some(span)) = (&app.traces, span) {
        let outcome = traces::Outcome {
            route: shown,
            method: &method,
            status: status.as_u16(),
            code: refused,
        };
        traces.end(span, &outcome);
    }
    if let Some(code) = refused {
        app.metrics.refusal(code);
        let from = peer.map_or_else(|| "-".to_owned(), |peer| peer.address.to_string());
        tracing::info!(
            target: "tonnage::audit",
            code,
            status = status.as_u16(),
            from,
            token = name,
            "refused {method} {path:?}"
        );
    }
    response
}

/// A request with its body, where that is small: it is there before anything is refused. On HTTP/2 an answer that comes while
/// the body is still sent is lost by some clients (curl 7.88 ends with error 92).
async fn whole(request: Request, patience: Duration) -> Result<Request, Refusal> {
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if !length.is_some_and(|length| (1..=write::SMALL_BYTES).contains(&length)) {
        return Ok(request);
    }
    let (parts, body) = request.into_parts();
    let body = write::collected(body, patience).await?;
    Ok(Request::from_parts(parts, body.into()))
}

/// The code of a refusal by gRPC, whose status of HTTP is always 200: one that comes before any answer is in the headers.
fn refused_by_grpc(headers: &HeaderMap) -> Option<&'static str> {
    let code = headers.get("grpc-status")?.to_str().ok()?.parse().ok()?;
    Some(match tonic::Code::from_i32(code) {
        tonic::Code::Ok => return None,
        tonic::Code::PermissionDenied => "forbidden",
        tonic::Code::Unauthenticated => "unauthorized",
        tonic::Code::ResourceExhausted => "full",
        tonic::Code::Unavailable => "away",
        tonic::Code::InvalidArgument | tonic::Code::NotFound | tonic::Code::FailedPrecondition => {
            "bad_request"
        }
        tonic::Code::Unimplemented => "not_offered",
        _ => "failed",
    })
}

/// The route of a path.
fn known(method: &Method, path: &str) -> Option<&'static Route> {
    ROUTES.iter().find(|route| {
        let mut wanted = route.path.split('/');
        let mut given = path.split('/');
        let same = loop {
            match (wanted.next(), given.next()) {
                (None, None) => break true,
                (Some(wanted), Some(given)) if wanted == given || wanted.starts_with('{') => {}
                _ => break false,
            }
        };
        same && route.method == method.as_str()
    })
}

async fn tables(State(app): State<Arc<App>>, caller: Caller) -> Result<Response, Refusal> {
    let mut found = Vec::new();
    for database in app.tables.databases() {
        let names = database.connected().await?.target().table_names().await?;
        for name in names {
            let mut rights = Vec::new();
            for (right, word) in [(Right::Read, "read"), (Right::Write, "write")] {
                if app
                    .tables
                    .find(&caller, right, Some(&database.name), &name)
                    .await
                    .is_ok()
                {
                    rights.push(word);
                }
            }
            if !rights.is_empty() {
                found.push(json!({ "database": database.name, "table": name, "rights": rights }));
            }
        }
    }
    Ok(Json(json!({ "tables": found })).into_response())
}

async fn table(State(app): State<Arc<App>>, asked: Asked) -> Result<Response, Refusal> {
    let (database, name) = match asked.find(&app, Right::Read).await {
        Ok(found) => found,
        Err(_) => asked.find(&app, Right::Write).await?,
    };
    let table = database.table(&name.quoted()).await?;
    let table = table.ok_or_else(Refusal::forbidden)?;
    let columns = table.columns.iter().map(|column| {
        json!({
            "name": column.name,
            "type": column.declared,
            "nullable": column.nullable,
            "has_default": column.has_default,
        })
    });
    let key = table
        .primary_key()
        .map(|key| key.columns.clone())
        .unwrap_or_default();
    Ok(Json(json!({
        "database": database.name,
        "table": table.name.to_string(),
        "key": key,
        "columns": columns.collect::<Vec<_>>(),
    }))
    .into_response())
}

async fn metrics(State(app): State<Arc<App>>, caller: Caller) -> Result<Response, Refusal> {
    caller.admin()?;
    let text = app.metrics.text(&app.tables);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}

/// A journal that cannot be written is not ready; a database that is away is, while there is room.
async fn ready(State(app): State<Arc<App>>) -> Result<&'static str, Refusal> {
    if app.is_stopping.load(Ordering::Relaxed) {
        return Err(Refusal::stopping());
    }
    let not_ready = || {
        Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "not_ready",
            "rows cannot be taken",
        )
        .retry_after(5)
    };
    if app.tables.places().iter().any(|place| place.buffer.closed()) {
        return Err(not_ready());
    }
    let state = app.tables.state().to_owned();
    let written = tokio::task::spawn_blocking(move || {
        let file = tempfile::Builder::new().prefix(".ready-").tempfile_in(&state);
        // A disk that is full still takes an empty file.
        file.and_then(|mut file| file.write_all(&[0; PROBE_BYTES]))
            .is_ok()
    });
    match written.await {
        Ok(true) => Ok("ready\n"),
        _ => Err(not_ready()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_of_other_sites_are_refused() {
        let peer = Peer {
            address: "127.0.0.1:5".parse().expect("an address"),
            is_loopback: true,
            certificate: None,
        };
        for (host, origin, is_let_in) in [
            (Some("127.0.0.1:8432"), None, true),
            (Some("localhost:8432"), Some("http://localhost:8432"), true),
            (Some("[::1]:8432"), None, true),
            (None, None, true),
            (Some("evil.example:8432"), None, false),
            (Some("localhost:8432"), Some("https://evil.example"), false),
            (Some("localhost:8432"), Some("null"), false),
            (Some("localhost.evil.example"), None, false),
        ] {
            let mut headers = HeaderMap::new();
            host.map(|host| headers.insert(header::HOST, HeaderValue::from_static(host)));
            origin.map(|origin| headers.insert(header::ORIGIN, HeaderValue::from_static(origin)));
            assert_eq!(
                own_site(&headers, Some(&peer)).is_ok(),
                is_let_in,
                "{host:?} {origin:?}"
            );
        }
    }

    #[test]
    fn every_route_is_known_by_its_path() {
        for route in ROUTES {
            let path = route.path.replace("{table}", "a.b").replace("{producer}", "p");
            let method = route.method.parse().expect("a method");
            assert_eq!(known(&method, &path).map(|route| route.path), Some(route.path));
        }
        assert!(known(&Method::GET, "/v1/tables/a/b/c").is_none());
    }
}
