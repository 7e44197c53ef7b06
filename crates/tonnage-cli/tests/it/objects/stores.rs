//! Two stores that speak the protocol of S3, written by others: s3s over a directory, and moto.

use std::{
    fs,
    net::TcpListener,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, http::request::Builder};
use hyper_util::{
    client::legacy::Client as HttpClient,
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use s3s::{auth::SimpleAuth, service::S3ServiceBuilder};
use s3s_fs::FileSystem;
use tempfile::TempDir;

use super::faulty::url_of;
use crate::database::variable;

pub const KEY: &str = "tester";
pub const SECRET: &str = "of-a-secret-nobody-may-see";

/// A bucket of its own on a store.
pub struct Bucket {
    pub name: String,
    pub endpoint: String,
    /// Of s3s, where objects are files.
    files: Option<TempDir>,
}

impl Bucket {
    /// On each of the stores.
    pub fn everywhere() -> Vec<Self> {
        vec![Self::of_s3s(), Self::of_moto()]
    }

    /// On s3s, which checks signatures.
    pub fn of_s3s() -> Self {
        let files = tempfile::tempdir().expect("a directory");
        let name = name();
        fs::create_dir(files.path().join(&name)).expect("a bucket");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let endpoint = url_of(listener.local_addr().expect("an address"));
        let store = FileSystem::new(files.path()).expect("a store");
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(serve(listener, store));
        });
        Self {
            name,
            endpoint,
            files: Some(files),
        }
    }

    /// On moto, which lets everybody in.
    pub fn of_moto() -> Self {
        let this = Self {
            name: name(),
            endpoint: variable("TONNAGE_TEST_S3_URL"),
            files: None,
        };
        let (status, _) = this.ask("PUT", "", Vec::new());
        assert_eq!(status, 200, "a bucket is made");
        this
    }

    /// Whether objects are files: what is a prefix of others is then a directory, and no missing object.
    pub fn is_directory(&self) -> bool {
        self.files.is_some()
    }

    pub fn url(&self, key: &str) -> String {
        format!("s3://{}/{key}", self.name)
    }

    /// The environment of a process that is to use it by way of `endpoint`.
    pub fn environment_by<'a>(&self, endpoint: &'a str) -> Vec<(&'static str, &'a str)> {
        vec![
            ("AWS_ENDPOINT_URL", endpoint),
            ("AWS_ACCESS_KEY_ID", KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET),
            ("AWS_REGION", "us-east-1"),
        ]
    }

    pub fn environment(&self) -> Vec<(&'static str, &str)> {
        self.environment_by(&self.endpoint)
    }

    pub fn put(&self, key: &str, bytes: impl Into<Vec<u8>>) {
        match &self.files {
            Some(_) => {
                let path = self.path(key);
                fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
                fs::write(path, bytes.into()).expect("an object");
            }
            None => assert_eq!(self.ask("PUT", key, bytes.into()).0, 200, "{key} is put"),
        }
    }

    /// Puts an object that everybody may read. Of moto only: the other one has nothing that is public.
    pub fn publish(&self, key: &str, bytes: &str) {
        let uri = format!("{}/{}/{key}", self.endpoint, self.name);
        let request = Request::builder().method("PUT").uri(uri);
        let request = request.header("x-amz-acl", "public-read");
        assert_eq!(sent(request, bytes.as_bytes().to_vec()).0, 200, "{key} is put");
    }

    /// The bytes of an object; none where there is none.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        match &self.files {
            Some(_) => fs::read(self.path(key)).ok(),
            None => Some(self.ask("GET", key, Vec::new()))
                .filter(|(status, _)| *status == 200)
                .map(|(_, bytes)| bytes),
        }
    }

    pub fn remove(&self, key: &str) {
        match &self.files {
            Some(_) => fs::remove_file(self.path(key)).expect("an object"),
            None => assert_eq!(self.ask("DELETE", key, Vec::new()).0, 204, "{key} is removed"),
        }
    }

    /// The keys of all objects, sorted.
    pub fn keys(&self) -> Vec<String> {
        let mut keys = match &self.files {
            Some(files) => {
                let root = files.path().join(&self.name);
                let mut keys = Vec::new();
                let mut directories = vec![root.clone()];
                while let Some(directory) = directories.pop() {
                    for entry in fs::read_dir(directory).expect("a directory").flatten() {
                        match entry.path().is_dir() {
                            true => directories.push(entry.path()),
                            false => {
                                let path = entry.path();
                                let key = path.strip_prefix(&root).expect("below it");
                                keys.push(key.display().to_string());
                            }
                        }
                    }
                }
                keys
            }
            None => {
                let (_, list) = self.ask("GET", "?list-type=2", Vec::new());
                elements(&list, "Key")
            }
        };
        keys.sort();
        keys
    }

    /// Uploads that were begun and neither completed nor taken back.
    pub fn uploads(&self) -> usize {
        match &self.files {
            // Parts lie beside the buckets.
            Some(files) => fs::read_dir(files.path())
                .expect("a directory")
                .flatten()
                .filter(|entry| entry.file_name().to_string_lossy().starts_with(".upload"))
                .count(),
            None => {
                let (_, list) = self.ask("GET", "?uploads", Vec::new());
                elements(&list, "UploadId").len()
            }
        }
    }

    fn path(&self, key: &str) -> PathBuf {
        let root = self.files.as_ref().expect("a store over a directory").path();
        root.join(&self.name).join(key)
    }

    fn ask(&self, method: &str, key: &str, bytes: Vec<u8>) -> (u16, Vec<u8>) {
        let uri = format!("{}/{}/{key}", self.endpoint, self.name);
        asked(method, &uri, bytes)
    }
}

/// What a server answers.
pub fn asked(method: &str, uri: &str, bytes: Vec<u8>) -> (u16, Vec<u8>) {
    sent(Request::builder().method(method).uri(uri), bytes)
}

fn sent(request: Builder, bytes: Vec<u8>) -> (u16, Vec<u8>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let client = HttpClient::builder(TokioExecutor::new()).build_http();
        // Whoever says nothing of himself sees of S3 what is public only; Azure would take it for a signature.
        let is_azure = request
            .uri_ref()
            .is_some_and(|uri| uri.to_string().contains("comp=list"));
        let request = match is_azure {
            true => request,
            false => request.header(
                "authorization",
                format!("AWS4-HMAC-SHA256 Credential={KEY}/20260101/us-east-1/s3/aws4_request, Signature=0"),
            ),
        };
        let request = request.body(Full::new(Bytes::from(bytes))).expect("a request");
        let answer = client.request(request).await.expect("an answer");
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.expect("a body");
        (status, body.to_bytes().to_vec())
    })
}

/// Letters and digits only: as Google's, `object_store` writes a hyphen as `%2D`, which moto does not take for one.
fn name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("lake{}x{number}", std::process::id())
}

/// What stands within the elements of XML that have this name.
fn elements(xml: &[u8], name: &str) -> Vec<String> {
    let xml = String::from_utf8_lossy(xml);
    let begins = format!("<{name}>");
    let parts = xml.split(&begins).skip(1);
    parts
        .filter_map(|part| Some(part.split_once('<')?.0.to_owned()))
        .collect()
}

async fn serve(listener: TcpListener, store: FileSystem) {
    let mut builder = S3ServiceBuilder::new(store);
    builder.set_auth(SimpleAuth::from_single(KEY, SECRET));
    let service = builder.build();
    let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
    while let Ok((connection, _)) = listener.accept().await {
        let service = service.clone();
        tokio::spawn(async move {
            let http = auto::Builder::new(TokioExecutor::new());
            // A client may go when it likes.
            let _ = http.serve_connection(TokioIo::new(connection), service).await;
        });
    }
}
