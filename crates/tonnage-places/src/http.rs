//! Files behind HTTP: by ranges where the server has them, else as one stream.

use std::{sync::LazyLock, time::Duration};

use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use reqwest::{
    Client, RequestBuilder, Response, StatusCode,
    header::{
        CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName, IF_MATCH, IF_UNMODIFIED_SINCE, LAST_MODIFIED, RANGE,
    },
    redirect::Policy,
};
use tonnage_core::error::{Error, Result};

use super::{
    error::{Doing, chain, changed, denied},
    kept::BEGINNING_BYTES,
    object::{Asked, Body, STALLED_SECONDS, Version},
    store::env,
    url::redacted,
};

/// Redirects that are followed; none leads from https to http.
const REDIRECTS_MAX: usize = 10;
const CONNECT_SECONDS_MAX: Duration = Duration::from_secs(10);

/// How often the first request for a file is made, and the pause before the second; each further one is twice as long.
const ATTEMPTS_MAX: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// Proxies are those of the environment: HTTPS_PROXY, HTTP_PROXY, NO_PROXY.
static CLIENT: LazyLock<reqwest::Result<Client>> = LazyLock::new(|| {
    let follow = Policy::custom(|attempt| {
        let leaves_https = attempt
            .previous()
            .last()
            .is_some_and(|from| from.scheme() == "https")
            && attempt.url().scheme() != "https";
        if leaves_https {
            return attempt.error("it redirects from https to http");
        }
        match attempt.previous().len() > REDIRECTS_MAX {
            true => attempt.error("it redirects too often"),
            false => attempt.follow(),
        }
    });
    Client::builder()
        .redirect(follow)
        .connect_timeout(CONNECT_SECONDS_MAX)
        .read_timeout(STALLED_SECONDS)
        .user_agent(concat!("tonnage/", env!("CARGO_PKG_VERSION")))
        .build()
});

/// What a server says of a file.
pub(crate) struct Looked {
    pub version: Version,
    /// Whether it can be read by ranges.
    pub has_ranges: bool,
    /// Its first [`BEGINNING_BYTES`] of this version, where they came.
    pub beginning: Option<Bytes>,
}

/// A URL with what it takes to ask for it.
#[derive(Clone)]
pub(crate) struct HttpUrl {
    url: reqwest::Url,
    login: Option<(String, String)>,
    pub shown: String,
}

impl HttpUrl {
    /// `Config` for what is no URL. Names and passwords come from the URL, else from `.netrc`.
    pub fn parse(url: &str) -> Result<Self> {
        let shown = redacted(url);
        let parsed = reqwest::Url::parse(url).map_err(|cause| {
            Error::config(format!("'{shown}' is no URL: {cause}")).hint("https://host/path")
        })?;
        let has_login = !parsed.username().is_empty();
        let login = match (has_login, parsed.host_str()) {
            (false, Some(host)) => of_netrc(host)?,
            _ => None,
        };
        Ok(Self {
            url: parsed,
            login,
            shown,
        })
    }

    fn get(&self) -> Result<RequestBuilder> {
        let client = match &*CLIENT {
            Ok(client) => client,
            Err(cause) => return Err(Error::input(format!("HTTP cannot be spoken: {}", chain(cause)))),
        };
        let request = client.get(self.url.clone());
        Ok(match &self.login {
            Some((name, password)) => request.basic_auth(name, Some(password)),
            None => request,
        })
    }

    /// Looks what is there.
    pub async fn look(&self) -> Result<Looked> {
        let mut pause = FIRST_PAUSE;
        let beginning = format!("bytes=0-{}", BEGINNING_BYTES - 1);
        for attempt in 1.. {
            let asked = match self.get()?.header(RANGE, &beginning).send().await {
                Ok(answer) => self.looked(answer).await,
                Err(cause) => Err(self.unsent(&cause)),
            };
            match asked {
                Ok(found) => return Ok(found),
                Err(Asked::Again(error)) if attempt >= ATTEMPTS_MAX => return Err(error),
                Err(Asked::Failed(error)) => return Err(error),
                Err(Asked::Again(_)) => tokio::time::sleep(pause).await,
            }
            pause *= 2;
        }
        Err(Error::bug("attempts have ended without a result"))
    }

    async fn looked(&self, answer: Response) -> std::result::Result<Looked, Asked> {
        let header = |name: HeaderName| answer.headers().get(name)?.to_str().ok();
        let in_range = header(CONTENT_RANGE).and_then(|range| range.rsplit('/').next()?.parse().ok());
        let bytes = match (answer.status(), in_range) {
            (StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE, Some(bytes)) => Some(bytes),
            (StatusCode::OK, _) => None,
            _ => return Err(self.refused(answer.status())),
        };
        let is_page = header(CONTENT_TYPE).is_some_and(|kind| kind.trim_start().starts_with("text/html"));
        let shown = &self.shown;
        if is_page && !shown.to_ascii_lowercase().ends_with(".html") {
            return Err(Asked::Failed(
                Error::input(format!("{shown}: the server answers with a web page and not with a file")).hint(
                    "it may be a page to log in or a list of files: open the URL in a browser and copy the link to the \
                     file itself",
                ),
            ));
        }
        let version = Version {
            bytes: bytes.or_else(|| {
                answer
                    .content_length()
                    .filter(|_| answer.status() == StatusCode::OK)
            }),
            etag: header(ETAG).map(str::to_owned),
            modified: header(LAST_MODIFIED).map(str::to_owned),
        };
        // What has no name for its version may be another one when it is read.
        let is_kept = answer.status() == StatusCode::PARTIAL_CONTENT
            && version.etag.as_ref().is_some_and(|etag| !etag.starts_with("W/"))
            && header(CONTENT_RANGE).is_some_and(|range| range.starts_with("bytes 0-"));
        let beginning = match is_kept {
            // Where it breaks off it is asked for again by who reads it.
            true => answer.bytes().await.ok(),
            false => None,
        };
        let length = bytes.map(|bytes: u64| bytes.min(BEGINNING_BYTES));
        Ok(Looked {
            version,
            has_ranges: bytes.is_some(),
            beginning: beginning.filter(|beginning| Some(beginning.len() as u64) == length),
        })
    }

    /// Asks for bytes `from..to` of one version.
    pub async fn range(&self, version: &Version, from: u64, to: u64) -> std::result::Result<Body, Asked> {
        let mut request = self
            .get()
            .map_err(Asked::Failed)?
            .header(RANGE, format!("bytes={from}-{}", to.saturating_sub(1)));
        match (&version.etag, &version.modified) {
            // A weak one never matches, by RFC 9110; it is compared below.
            (Some(etag), _) if !etag.starts_with("W/") => request = request.header(IF_MATCH, etag),
            (_, Some(modified)) => request = request.header(IF_UNMODIFIED_SINCE, modified),
            _ => {}
        }
        let answer = request.send().await.map_err(|cause| self.unsent(&cause))?;
        if answer.status() != StatusCode::PARTIAL_CONTENT {
            return Err(match answer.status() {
                StatusCode::OK => Asked::Failed(changed(&self.shown)),
                status => self.refused(status),
            });
        }
        let header = |name: HeaderName| answer.headers().get(name)?.to_str().ok();
        let range = header(CONTENT_RANGE).and_then(|range| range.strip_prefix("bytes ")?.split_once('/'));
        let total = range.and_then(|(_, total)| total.parse().ok());
        let begins = range.and_then(|(range, _)| range.split_once('-')?.0.parse::<u64>().ok());
        let other = |one: &Option<String>, now: Option<&str>| {
            one.as_deref().zip(now).is_some_and(|(one, now)| one != now)
        };
        if begins != Some(from)
            || (total.is_some() && total != version.bytes)
            || other(&version.etag, header(ETAG))
        {
            return Err(Asked::Failed(changed(&self.shown)));
        }
        Ok(body(answer))
    }

    /// Asks for the whole file, which the server gives from its beginning only.
    pub async fn whole(&self) -> std::result::Result<Body, Asked> {
        let answer = self.get().map_err(Asked::Failed)?.send().await;
        let answer = answer.map_err(|cause| self.unsent(&cause))?;
        match answer.status() {
            StatusCode::OK => Ok(body(answer)),
            status => Err(self.refused(status)),
        }
    }

    fn refused(&self, status: StatusCode) -> Asked {
        let shown = &self.shown;
        match status {
            StatusCode::NOT_FOUND | StatusCode::GONE => Asked::Failed(
                Error::input(format!("{shown}: there is no such file ({status})"))
                    .hint("look at the URL; open it in a browser"),
            ),
            StatusCode::UNAUTHORIZED => Asked::Failed(
                Error::input(format!(
                    "{shown}: the server wants a name and a password ({status})"
                ))
                .hint("put them into ~/.netrc: machine HOST login NAME password PASSWORD"),
            ),
            StatusCode::FORBIDDEN => Asked::Failed(denied(Doing::Read, shown)),
            StatusCode::PRECONDITION_FAILED => Asked::Failed(changed(shown)),
            status => {
                let error = Error::input(format!("{shown}: the server answers {status}"));
                match status.is_server_error()
                    || status == StatusCode::TOO_MANY_REQUESTS
                    || status == StatusCode::REQUEST_TIMEOUT
                {
                    true => Asked::Again(error.hint("it was asked several times; try again later")),
                    false => Asked::Failed(error.hint("look at the URL; open it in a browser")),
                }
            }
        }
    }

    fn unsent(&self, cause: &reqwest::Error) -> Asked {
        let text = chain(cause);
        let error = super::error::of_store(
            Doing::Read,
            &self.shown,
            &object_store::Error::Generic {
                store: "HTTP",
                source: text.clone().into(),
            },
        );
        match cause.is_redirect() || cause.is_builder() || text.contains("certificate") {
            true => Asked::Failed(error),
            false => Asked::Again(error),
        }
    }
}

fn body(answer: Response) -> Body {
    let stream: BoxStream<'static, _> = answer
        .bytes_stream()
        .map(|chunk| chunk.map_err(|cause| chain(&cause)))
        .boxed();
    stream
}

/// The login for a host, where the user's `.netrc` (or the file that NETRC names) has one.
fn of_netrc(host: &str) -> Result<Option<(String, String)>> {
    let file = match env("NETRC") {
        Some(named) => Some(named.into()),
        None => netrc::Netrc::get_file(),
    };
    let Some(file) = file.filter(|file| file.is_file()) else {
        return Ok(None);
    };
    let read = netrc::Netrc::from_file(&file).map_err(|_| {
        // What is wrong with it may show a password.
        Error::config(format!("{}: cannot be read", file.display()))
            .hint("its lines are: machine HOST login NAME password PASSWORD")
    })?;
    let login = read.hosts.get(host).or_else(|| read.hosts.get("default"));
    Ok(login.map(|login| (login.login.clone(), login.password.clone())))
}
