//! Sockets: TLS, connections and their bounds.
//!
//! One port takes HTTP/1.1, HTTP/2 and gRPC. A connection that does not send its headers, or its handshake, in time is
//! closed. Certificates are read again on request; connections that are open keep theirs.

use std::{
    fs::File,
    io::BufReader,
    net::SocketAddr,
    path::Path,
    sync::{Arc, RwLock, atomic::Ordering},
    time::Duration,
};

use axum::{Router, body::Body};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{
        conn::auto,
        graceful::{GracefulShutdown, Watcher},
    },
};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tonnage::{Error, Result};
use tower::ServiceExt;

use crate::{
    App,
    config::{Limits, Listen},
};

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// HTTP/2 as ALPN names it.
const HTTP_2: &[u8] = b"h2";

/// What a client sends first on a connection of HTTP/2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The other end of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// Whether it came in by loopback.
    pub is_loopback: bool,
    /// The certificate that it has shown and that was verified (DER).
    pub certificate: Option<Arc<[u8]>>,
}

/// A listener with its certificates.
pub struct Listener {
    socket: TcpListener,
    config: Listen,
    tls: Option<RwLock<Arc<ServerConfig>>>,
}

impl Listener {
    /// Binds the address and reads the certificates.
    pub async fn bind(config: &Listen) -> Result<Self> {
        let address = config.address;
        let socket = TcpListener::bind(address).await.map_err(|error| {
            Error::config(format!("{address}: {error}"))
                .hint("another process may have this port: --listen ADDRESS names another")
        })?;
        Ok(Self {
            socket,
            tls: tls(config)?.map(RwLock::new),
            config: config.clone(),
        })
    }

    /// The address, with the port that was given.
    pub fn address(&self) -> Result<SocketAddr> {
        self.socket
            .local_addr()
            .map_err(|error| Error::config(format!("{}: {error}", self.config.address)))
    }

    /// `http://` or `https://` with the address.
    pub fn url(&self) -> Result<String> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        Ok(format!("{scheme}://{}", self.address()?))
    }

    /// Reads the certificates again.
    pub fn reload(&self) -> Result<()> {
        if let (Some(held), Some(read)) = (&self.tls, tls(&self.config)?) {
            *held.write().unwrap_or_else(std::sync::PoisonError::into_inner) = read;
        }
        Ok(())
    }

    /// Takes connections until the server stops; returns once those that are open have ended, or `patience` is over.
    pub async fn run(self: Arc<Self>, app: Arc<App>, router: Router, patience: Duration) {
        let connections = Arc::new(Semaphore::new(app.config.limits.connections));
        let graceful = GracefulShutdown::new();
        loop {
            let Ok(permit) = connections.clone().acquire_owned().await else {
                break;
            };
            let accepted = tokio::select! {
                accepted = self.socket.accept() => accepted,
                () = app.stopped() => break,
            };
            let (stream, address) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // As there are no more files, say: those that are open go on.
                    tracing::warn!("a connection cannot be taken: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let _ = stream.set_nodelay(true);
            let (this, app, router, watcher) =
                (self.clone(), app.clone(), router.clone(), graceful.watcher());
            tokio::spawn(async move {
                app.metrics.connections.fetch_add(1, Ordering::Relaxed);
                this.serve(stream, address, &app, router, watcher).await;
                app.metrics.connections.fetch_sub(1, Ordering::Relaxed);
                drop(permit);
            });
        }
        let _ = timeout(patience, graceful.shutdown()).await;
    }

    async fn serve(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        app: &Arc<App>,
        router: Router,
        watcher: Watcher,
    ) {
        let is_loopback = stream.local_addr().is_ok_and(|local| local.ip().is_loopback());
        let mut peer = Peer {
            address,
            is_loopback,
            certificate: None,
        };
        let limits = &app.config.limits;
        let refused = |code: &'static str, why: &str| {
            app.metrics.refusal(code);
            tracing::info!(target: "tonnage::audit", code, from = %address, "refused a connection: {why}");
        };
        let Some(config) = &self.tls else {
            let begun = tokio::select! {
                begun = timeout(limits.sender(), begins_http2(&stream)) => begun,
                // A silent connection is not waited for.
                () = app.stopped() => return,
            };
            match begun {
                Ok(Ok(is_http2)) => speak(stream, is_http2, limits, router, peer, watcher).await,
                Ok(Err(error)) => tracing::debug!("{address}: {error}"),
                Err(_) => refused("slow", "nothing was sent"),
            }
            return;
        };
        let config = config
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone();
        let accepted = tokio::select! {
            accepted = timeout(HANDSHAKE, TlsAcceptor::from(config).accept(stream)) => accepted,
            () = app.stopped() => return,
        };
        let stream = match accepted {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return refused("handshake", &format!("handshake: {error}")),
            Err(_) => return refused("handshake", "the handshake took too long"),
        };
        let shown = stream.get_ref().1.peer_certificates().and_then(|all| all.first());
        peer.certificate = shown.map(|der| Arc::from(der.as_ref()));
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(HTTP_2);
        speak(stream, is_http2, limits, router, peer, watcher).await;
    }
}

/// Whether a connection without TLS begins as one of HTTP/2 does. It is looked at and not taken, so that nothing has to be
/// put back; hyper's own look at it has no end, and held a connection for as long as its client was silent.
async fn begins_http2(stream: &TcpStream) -> std::io::Result<bool> {
    let mut seen = [0; PREFACE.len()];
    loop {
        let count = stream.peek(&mut seen).await?;
        if count == 0 || seen[..count] != PREFACE[..count] {
            return Ok(false);
        }
        if count == PREFACE.len() {
            return Ok(true);
        }
        // What has been seen is seen again at once.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Serves a connection to its end.
async fn speak<I>(io: I, is_http2: bool, limits: &Limits, router: Router, peer: Peer, watcher: Watcher)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.sender())
        .max_buf_size((limits.header.0 as usize).max(8 << 10))
        .max_headers(100);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(limits.header.0.min(u64::from(u32::MAX)) as u32)
        .max_concurrent_streams(128)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(limits.sender());
    let builder = match is_http2 {
        true => builder.http2_only(),
        false => builder.http1_only(),
    };
    let connection = builder.serve_connection(TokioIo::new(io), service(router, peer));
    if let Err(error) = watcher.watch(connection.into_owned()).await {
        tracing::debug!("a connection ended: {error}");
    }
}

/// The router for requests of one connection.
fn service(
    router: Router,
    peer: Peer,
) -> impl hyper::service::Service<
    hyper::Request<Incoming>,
    Response = axum::response::Response,
    Error = std::convert::Infallible,
    Future = impl Future<Output = Result<axum::response::Response, std::convert::Infallible>> + Send,
> + Clone {
    service_fn(move |request: hyper::Request<Incoming>| {
        let (router, peer) = (router.clone(), peer.clone());
        async move {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(peer);
            router.oneshot(request).await
        }
    })
}

fn tls(listen: &Listen) -> Result<Option<Arc<ServerConfig>>> {
    let (Some(certificate), Some(key)) = (&listen.certificate, &listen.key) else {
        return Ok(None);
    };
    let wrong =
        |path: &Path, error: &dyn std::fmt::Display| Error::config(format!("{}: {error}", path.display()));
    let certificates = certificates(certificate)?;
    let read = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::config(format!("TLS: {error}")))?;
    let builder = match &listen.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in self::certificates(path)? {
                roots.add(certificate).map_err(|error| wrong(path, &error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|error| wrong(path, &error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder
        .with_single_cert(certificates, read)
        .map_err(|error| wrong(certificate, &error).hint("is the key that of the certificate?"))?;
    config.alpn_protocols = vec![HTTP_2.to_vec(), b"http/1.1".to_vec()];
    Ok(Some(Arc::new(config)))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let wrong = |error: &dyn std::fmt::Display| Error::config(format!("{}: {error}", path.display()));
    let file = File::open(path).map_err(|error| wrong(&error))?;
    let read = CertificateDer::pem_reader_iter(BufReader::new(file)).collect::<Result<Vec<_>, _>>();
    let read = read.map_err(|error| wrong(&error))?;
    match read.is_empty() {
        true => Err(wrong(&"there is no certificate in it")),
        false => Ok(read),
    }
}

/// Reads what a listener needs, to see whether it can be read.
pub fn check(listen: &Listen) -> Result<()> {
    tls(listen).map(|_| ())
}
