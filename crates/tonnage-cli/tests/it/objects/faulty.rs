//! An HTTP server that stands before another one and does to its answers what real networks and stores do.

use std::{
    convert::Infallible,
    io,
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt, stream};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    Request, Response,
    body::{Frame, Incoming},
    header::{CONTENT_LENGTH, ETAG, HeaderValue, RANGE},
    service::service_fn,
};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use tokio::sync::Semaphore;

type Body = UnsyncBoxBody<Bytes, io::Error>;

/// What is done to an answer.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Another answer is given, and the request goes nowhere.
    Status(u16, &'static str),
    /// The connection breaks off behind so many bytes of the body.
    Cut(usize),
    /// The body has only so many bytes, and its head says so.
    Short(usize),
    /// The version has another name.
    Etag(&'static str),
    /// The body comes in pieces of so many bytes, with a pause before each.
    Slow(usize, Duration),
    /// The request goes on with this behind its query.
    Query(&'static str),
    /// The request waits before it goes on.
    Wait(Duration),
    /// The request waits until [`Faulty::release`] lets it go on.
    Held,
    /// The answer comes whole, and the request never hears of it.
    Unheard,
}

/// Requests to which a fault is done.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Pieces of `METHOD /path?query range`, with blanks between them.
    pub part: &'static str,
    /// So many of them are let through first.
    pub after: usize,
    /// So many are met.
    pub times: usize,
    pub fault: Fault,
}

#[derive(Default)]
struct State {
    rules: Vec<Rule>,
    requests: Vec<String>,
    signed: Vec<String>,
    delay: Duration,
}

/// The server; it ends with the process.
pub struct Faulty {
    pub url: String,
    state: Arc<Mutex<State>>,
    held: Arc<Semaphore>,
}

impl Faulty {
    /// Before the server at `url`.
    pub fn before(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let address = listener.local_addr().expect("an address");
        let state: Arc<Mutex<State>> = Arc::default();
        let to = url.trim_start_matches("http://").to_owned();
        let held = Arc::new(Semaphore::new(0));
        let (shared, gate) = (state.clone(), held.clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(serve(listener, to, shared, gate));
        });
        Self {
            url: url_of(address),
            state,
            held,
        }
    }

    /// Puts rules in the place of those there were, and forgets what was asked.
    pub fn set(&self, rules: &[Rule]) {
        let mut state = self.state.lock().expect("a lock");
        state.rules = rules.to_vec();
        state.requests.clear();
        state.signed.clear();
    }

    /// Requests that are held go on, and none is held from now on.
    pub fn release(&self) {
        self.held.close();
    }

    /// Every answer waits so long.
    pub fn delay(&self, delay: Duration) {
        self.state.lock().expect("a lock").delay = delay;
    }

    /// What was asked, `METHOD /path?query` each, and the range behind it.
    pub fn requests(&self) -> Vec<String> {
        self.state.lock().expect("a lock").requests.clone()
    }

    /// The keys with which requests to S3 were signed, and the tokens behind them; of other stores the tokens.
    pub fn signed(&self) -> Vec<String> {
        self.state.lock().expect("a lock").signed.clone()
    }

    /// Where the ranges begin that were asked for of a path that ends in `name`.
    pub fn starts_asked(&self, name: &str) -> Vec<u64> {
        let requests = self.requests().into_iter().filter(|line| line.contains(name));
        let starts = requests.filter_map(|line| {
            let (from, _) = line.split_once(" bytes=")?.1.split_once('-')?;
            from.parse().ok()
        });
        starts.collect()
    }

    /// How many faults are still to be done.
    pub fn left(&self) -> usize {
        let state = self.state.lock().expect("a lock");
        state.rules.iter().map(|rule| rule.times).sum()
    }
}

pub fn url_of(address: SocketAddr) -> String {
    format!("http://{address}")
}

/// The fault that meets a request, if one does.
fn met(state: &Mutex<State>, line: &str) -> (Option<Fault>, Duration) {
    let mut state = state.lock().expect("a lock");
    state.requests.push(line.to_owned());
    let delay = state.delay;
    for rule in &mut state.rules {
        if rule.times == 0 || !rule.part.split(' ').all(|piece| line.contains(piece)) {
            continue;
        }
        if rule.after > 0 {
            rule.after -= 1;
            continue;
        }
        rule.times -= 1;
        return (Some(rule.fault.clone()), delay);
    }
    (None, delay)
}

async fn serve(listener: TcpListener, to: String, state: Arc<Mutex<State>>, held: Arc<Semaphore>) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
    let client: Client<HttpConnector, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    while let Ok((connection, _)) = listener.accept().await {
        let (client, to, state, held) = (client.clone(), to.clone(), state.clone(), held.clone());
        tokio::spawn(async move {
            let answer = service_fn(move |request: Request<Incoming>| {
                let (client, to, state, held) = (client.clone(), to.clone(), state.clone(), held.clone());
                async move { answer(request, client, to, state, held).await }
            });
            let served =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(connection), answer);
            // Connections that break off are what this is for.
            let _ = served.await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    client: Client<HttpConnector, Full<Bytes>>,
    to: String,
    state: Arc<Mutex<State>>,
    held: Arc<Semaphore>,
) -> Result<Response<Body>, io::Error> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let range = request.headers().get(RANGE).and_then(|range| range.to_str().ok());
    let line = format!("{} {path} {}", request.method(), range.unwrap_or_default());
    let uri = format!("http://{to}{path}");
    let (fault, delay) = met(&state, &line);
    let header = |name: &str| request.headers().get(name)?.to_str().ok();
    let authorization = header("authorization").unwrap_or_default();
    let key = authorization.split_once("Credential=");
    let key = key.and_then(|(_, signed)| signed.split('/').next());
    let token = header("x-amz-security-token").unwrap_or_default();
    let signed = match (key, authorization.strip_prefix("Bearer ")) {
        (Some(key), _) => Some(format!("{key} {token}")),
        (None, Some(bearer)) => Some(bearer.to_owned()),
        (None, None) => None,
    };
    state.lock().expect("a lock").signed.extend(signed);
    let (mut parts, body) = request.into_parts();
    // What is uploaded is taken first: a server that answers before may reset the connection.
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    tokio::time::sleep(delay).await;
    if let Some(Fault::Status(status, text)) = fault {
        let whole =
            Full::new(Bytes::from_static(text.as_bytes())).map_err(|never: Infallible| match never {});
        let response = Response::builder()
            .status(status)
            .header(CONTENT_LENGTH, text.len());
        return response.body(whole.boxed_unsync()).map_err(io::Error::other);
    }
    if let Some(Fault::Wait(time)) = fault {
        tokio::time::sleep(time).await;
    }
    if let Some(Fault::Held) = fault {
        // It ends by an error: nothing is ever acquired, the semaphore is closed.
        let _ = held.acquire().await;
    }
    let uri = match fault {
        Some(Fault::Query(more)) => format!("{uri}{more}"),
        _ => uri,
    };
    parts.uri = uri.parse().map_err(io::Error::other)?;
    let answered = client.request(Request::from_parts(parts, Full::new(body))).await;
    let (mut head, body) = answered.map_err(io::Error::other)?.into_parts();
    let body = body
        .into_data_stream()
        .map(|chunk| chunk.map_err(io::Error::other));
    let body: futures::stream::BoxStream<'static, Result<Bytes, io::Error>> = match fault {
        None | Some(Fault::Status(..) | Fault::Query(_) | Fault::Wait(_) | Fault::Held) => body.boxed(),
        Some(Fault::Unheard) => return Err(io::Error::other("the connection breaks off")),
        Some(Fault::Cut(bytes)) => {
            let whole = collected(body).await?;
            let begin = whole.slice(..bytes.min(whole.len()));
            let end = async {
                // What was sent arrives before the connection goes.
                tokio::time::sleep(Duration::from_millis(50)).await;
                Err(io::Error::other("the connection breaks off"))
            };
            stream::iter([Ok(begin)]).chain(stream::once(end)).boxed()
        }
        Some(Fault::Short(bytes)) => {
            let whole = collected(body).await?;
            let begin = whole.slice(..bytes.min(whole.len()));
            head.headers
                .insert(CONTENT_LENGTH, HeaderValue::from(begin.len()));
            stream::iter([Ok(begin)]).boxed()
        }
        Some(Fault::Etag(etag)) => {
            head.headers.insert(ETAG, HeaderValue::from_static(etag));
            body.boxed()
        }
        Some(Fault::Slow(bytes, pause)) => {
            let whole = collected(body).await?;
            let pieces: Vec<Bytes> = whole.chunks(bytes).map(Bytes::copy_from_slice).collect();
            let piece = move |piece| async move {
                tokio::time::sleep(pause).await;
                Ok(piece)
            };
            stream::iter(pieces).then(piece).boxed()
        }
    };
    let body = StreamBody::new(body.map(|chunk| chunk.map(Frame::data)));
    Ok(Response::from_parts(head, BodyExt::boxed_unsync(body)))
}

async fn collected(body: impl futures::Stream<Item = Result<Bytes, io::Error>>) -> Result<Bytes, io::Error> {
    let mut body = std::pin::pin!(body);
    let mut all = Vec::new();
    while let Some(chunk) = body.next().await {
        all.extend_from_slice(&chunk?);
    }
    Ok(all.into())
}
