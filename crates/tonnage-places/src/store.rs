//! From a URL to the store that it leads to. Stores are kept, so that connections are.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

use object_store::{
    BackoffConfig, ClientOptions, ObjectStore, ObjectStoreExt, RetryConfig, StaticCredentialProvider,
    aws::{AmazonS3Builder, S3ConditionalPut, resolve_bucket_region},
    azure::{AzureConfigKey, MicrosoftAzureBuilder},
    gcp::{GcpCredential, GoogleCloudStorageBuilder, GoogleConfigKey},
    list::PaginatedListStore,
    multipart::MultipartStore,
    path::Path,
};
use reqwest::header::{HeaderValue, IF_NONE_MATCH};
use tonnage_core::{
    error::{Error, Result},
    sync::Lock,
};

use super::{
    aws,
    error::{Doing, of_store},
    keys,
    named::{StoreSettings, resolved},
    runtime,
    url::{is_http, redacted},
};

/// The longest that a request may take with its body: at most 128 MiB.
const REQUEST_SECONDS_MAX: Duration = Duration::from_secs(120);
const CONNECT_SECONDS_MAX: Duration = Duration::from_secs(10);

/// How often a request is repeated after an answer that may be another one next time (5xx, 429, a lost connection), and
/// for how long at most.
const RETRIES_MAX: usize = 8;
const RETRY_SECONDS_MAX: Duration = Duration::from_secs(90);

/// Where machines of all clouds are told who they are.
const METADATA_ADDRESS: SocketAddr = SocketAddr::new(
    std::net::IpAddr::V4(std::net::Ipv4Addr::new(169, 254, 169, 254)),
    80,
);
const METADATA_SECONDS_MAX: Duration = Duration::from_secs(1);

/// How the objects of a bucket are spoken of: one client, or several of the same bucket.
#[derive(Clone)]
pub(crate) struct Store {
    pub objects: Arc<dyn ObjectStore>,
    /// Lists, page by page.
    pub lists: Arc<dyn PaginatedListStore>,
    /// Uploads in parts by their ids, where the store has ids for them: Azure has none.
    pub uploads: Option<Uploads>,
}

/// Uploads of S3 and Google.
#[derive(Clone)]
pub(crate) struct Uploads {
    /// Replaces what is there.
    pub replacing: Arc<dyn MultipartStore>,
    /// Completes with `If-None-Match: *`, where the store has conditions for it: S3 has, Google has none. For completing
    /// only: it says so with all of its requests.
    pub creating: Arc<dyn MultipartStore>,
}

impl Store {
    fn of<S: ObjectStore + PaginatedListStore>(store: S) -> Self {
        let store = Arc::new(store);
        Self {
            objects: store.clone(),
            lists: store,
            uploads: None,
        }
    }
}

/// What a URL names.
#[derive(Clone)]
pub(crate) struct Located {
    pub store: Arc<dyn ObjectStore>,
    pub lists: Arc<dyn PaginatedListStore>,
    pub uploads: Option<Uploads>,
    /// The bucket as a URL, without a slash at the end.
    pub root: Arc<str>,
    /// All behind the bucket, as written: a key, a prefix or a glob.
    pub key: String,
}

impl Located {
    /// The URL of an object of the same store.
    pub fn url(&self, path: &Path) -> String {
        format!("{}/{path}", self.root)
    }

    /// The key as the store's library has it. `Config` for keys that it has no path for.
    pub fn path(&self) -> Result<Path> {
        let path = Path::parse(&self.key).ok().filter(|_| keys::has_path(&self.key));
        path.ok_or_else(|| keys::no_path(&self.root, &self.key))
    }
}

static STORES: LazyLock<Mutex<HashMap<String, Store>>> = LazyLock::new(Mutex::default);

/// The store that a URL (not of HTTP) leads to. `Config` where the URL or the environment does not say which.
pub(crate) async fn locate(url: &str) -> Result<Located> {
    let named = resolved(url)?;
    // Stores of one bucket may be spoken to in several ways.
    let name = url
        .split('/')
        .next()
        .filter(|_| named.is_some())
        .unwrap_or_default();
    let (url, settings) = match &named {
        Some((url, settings)) => (url.as_str(), settings.clone()),
        None => (url, StoreSettings::default()),
    };
    let cannot = |what: &str| {
        Error::config(format!("'{url}' {what}"))
            .hint("s3://bucket/key, gs://bucket/key, az://container/key, https://host/path")
    };
    let (scheme, rest) = url.split_once("://").ok_or_else(|| cannot("is no URL"))?;
    let scheme = scheme.to_ascii_lowercase();
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    if bucket.is_empty() {
        return Err(cannot("names no bucket"));
    }
    let root = format!("{scheme}://{bucket}");
    let known_as = format!("{name} {root}");
    let known = STORES.locked().get(&known_as).cloned();
    let store = match known {
        Some(store) => store,
        None => {
            let store = connect(&scheme, bucket, &root, &settings).await?;
            STORES.locked().entry(known_as).or_insert(store).clone()
        }
    };
    Ok(Located {
        store: store.objects,
        lists: store.lists,
        uploads: store.uploads,
        root: root.into(),
        key: key.to_owned(),
    })
}

async fn connect(scheme: &str, bucket: &str, root: &str, settings: &StoreSettings) -> Result<Store> {
    let wrong = |cause: object_store::Error| of_store(Doing::Read, root, &cause);
    Ok(match scheme {
        "s3" | "s3a" => {
            let mut builder = aws::builder(bucket, settings).await?;
            let value = |builder: &AmazonS3Builder, key: &str| builder.get_config_value(&key.parse().ok()?);
            let is_set = |key: &str| value(&builder, key).is_some();
            let has_endpoint = is_set("aws_endpoint") || is_set("aws_endpoint_url_s3");
            if !has_endpoint && !is_set("aws_region") && !is_set("aws_default_region") {
                let plain = ClientOptions::default();
                let region = resolve_bucket_region(bucket, &plain).await;
                builder = builder.with_region(region.map_err(wrong)?);
            }
            let allow_http = value(&builder, "aws_allow_http").is_some_and(|said| said == "true");
            let connector = keys::Connector::default();
            let builder = builder
                .with_client_options(options().with_allow_http(allow_http))
                .with_retry(retries())
                .with_conditional_put(S3ConditionalPut::ETagMatch);
            let store = builder
                .clone()
                .with_http_connector(connector.clone())
                .build()
                .map_err(wrong)?;
            // The library has no condition for this request. The header is not among those that are signed.
            let header = (IF_NONE_MATCH, HeaderValue::from_static("*"));
            let creating = builder
                .with_http_connector(keys::SameWithHeader::of(&connector, header))
                .with_credentials(store.credentials().clone())
                .build()
                .map_err(wrong)?;
            let store = Arc::new(store);
            Store {
                objects: store.clone(),
                lists: store.clone(),
                uploads: Some(Uploads {
                    replacing: store,
                    creating: Arc::new(creating),
                }),
            }
        }
        "gs" | "gcs" => {
            let mut builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket);
            // As Google's own tools have it; it speaks http unless it says otherwise.
            let emulator = env("STORAGE_EMULATOR_HOST");
            if let Some(host) = &emulator {
                let url = match host.contains("://") {
                    true => host.clone(),
                    false => format!("http://{host}"),
                };
                // Nobody looks at it, but the library does not write without one.
                let nobody = GcpCredential {
                    bearer: "emulator".to_owned(),
                };
                builder = builder
                    .with_config(GoogleConfigKey::BaseUrl, url)
                    .with_credentials(Arc::new(StaticCredentialProvider::new(nobody)));
            }
            if let Some(endpoint) = &settings.endpoint {
                builder = builder.with_config(GoogleConfigKey::BaseUrl, endpoint);
            }
            if let Some(path) = &settings.credentials_file {
                builder = builder.with_service_account_path(path.display().to_string());
            }
            if settings.anonymous {
                builder = builder.with_skip_signature(true);
            }
            let is_told = settings.credentials_file.is_some() || settings.anonymous;
            let adc = env("HOME").is_some_and(|home| {
                std::path::Path::new(&home)
                    .join(".config/gcloud/application_default_credentials.json")
                    .is_file()
            });
            let named = [
                "GOOGLE_SERVICE_ACCOUNT",
                "GOOGLE_SERVICE_ACCOUNT_PATH",
                "GOOGLE_SERVICE_ACCOUNT_KEY",
                "GOOGLE_APPLICATION_CREDENTIALS",
                "GOOGLE_SKIP_SIGNATURE",
            ];
            let named = named.iter().any(|variable| env(variable).is_some());
            // As Google's own tools have it.
            let metadata = ["GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP"];
            let metadata = metadata.iter().any(|variable| env(variable).is_some());
            if !(is_told || named || adc || metadata || emulator.is_some() || metadata_answers().await) {
                return Err(none_found(
                    root,
                    "GOOGLE_APPLICATION_CREDENTIALS to a key file, or run gcloud auth application-default login; for a public bucket GOOGLE_SKIP_SIGNATURE=true",
                ));
            }
            if let Some(endpoint) = builder.get_config_value(&GoogleConfigKey::BaseUrl) {
                check_endpoint(root, &endpoint)?;
            }
            let allow_http = emulator.is_some() || is_http_endpoint(settings);
            let builder = builder
                .with_http_connector(keys::Connector::default())
                .with_client_options(options().with_allow_http(allow_http))
                .with_retry(retries());
            let store = Arc::new(builder.build().map_err(wrong)?);
            Store {
                objects: store.clone(),
                lists: store.clone(),
                uploads: Some(Uploads {
                    replacing: store.clone(),
                    creating: store,
                }),
            }
        }
        _ => {
            let mut builder = MicrosoftAzureBuilder::from_env();
            // As Azure's own tools call them.
            for (variable, key) in [
                ("AZURE_STORAGE_ACCOUNT", AzureConfigKey::AccountName),
                ("AZURE_STORAGE_KEY", AzureConfigKey::AccessKey),
                ("AZURE_STORAGE_SAS_TOKEN", AzureConfigKey::SasKey),
            ] {
                if let Some(value) = env(variable) {
                    builder = builder.with_config(key, value);
                }
            }
            for (value, key) in [
                (&settings.user, AzureConfigKey::AccountName),
                (&settings.secret, AzureConfigKey::AccessKey),
                (&settings.endpoint, AzureConfigKey::Endpoint),
            ] {
                if let Some(value) = value {
                    builder = builder.with_config(key, value);
                }
            }
            if settings.anonymous {
                builder = builder.with_skip_signature(true);
            }
            let mut allow_http = is_http_endpoint(settings)
                || env("AZURE_ALLOW_HTTP").is_some()
                || env("AZURE_STORAGE_USE_EMULATOR").is_some();
            for (name, value) in env("AZURE_STORAGE_CONNECTION_STRING")
                .iter()
                .flat_map(|text| text.split(';').filter_map(|part| part.split_once('=')))
            {
                let key = match name.trim() {
                    "AccountName" => AzureConfigKey::AccountName,
                    "AccountKey" => AzureConfigKey::AccessKey,
                    "SharedAccessSignature" => AzureConfigKey::SasKey,
                    "BlobEndpoint" => {
                        allow_http |= value.starts_with("http://");
                        AzureConfigKey::Endpoint
                    }
                    _ => continue,
                };
                builder = builder.with_config(key, value);
            }
            if let Some(endpoint) = builder.get_config_value(&AzureConfigKey::Endpoint) {
                check_endpoint(root, &endpoint)?;
            }
            builder = match bucket.contains('@') {
                true => builder.with_url(root),
                false => builder.with_container_name(bucket),
            };
            let has = |key: AzureConfigKey| builder.get_config_value(&key).is_some();
            if !has(AzureConfigKey::AccountName) && !bucket.contains('@') && !allow_http {
                return Err(Error::config(format!("{root}: no storage account is named"))
                    .hint("set AZURE_STORAGE_ACCOUNT, or name it in the URL: abfss://container@account.dfs.core.windows.net/key"));
            }
            let keys = [
                AzureConfigKey::AccessKey,
                AzureConfigKey::SasKey,
                AzureConfigKey::Token,
                AzureConfigKey::ClientSecret,
                AzureConfigKey::FederatedTokenFile,
                // Of a managed identity, where it is not that of a machine.
                AzureConfigKey::MsiEndpoint,
            ];
            let known = keys.into_iter().any(has)
                || settings.anonymous
                || env("AZURE_SKIP_SIGNATURE").is_some()
                || env("AZURE_USE_AZURE_CLI").is_some()
                || env("AZURE_STORAGE_USE_EMULATOR").is_some();
            if !(known || metadata_answers().await) {
                return Err(none_found(
                    root,
                    "AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_CONNECTION_STRING, or AZURE_USE_AZURE_CLI=true after az login; for a public container AZURE_SKIP_SIGNATURE=true",
                ));
            }
            let builder = builder
                .with_http_connector(keys::Connector::default())
                .with_client_options(options().with_allow_http(allow_http))
                .with_retry(retries());
            Store::of(builder.build().map_err(wrong)?)
        }
    })
}

/// That an endpoint is a URL with a host: without one the library would panic. `Config` where it is not.
pub(crate) fn check_endpoint(root: &str, endpoint: &str) -> Result<()> {
    let url = reqwest::Url::parse(endpoint);
    if url.is_ok_and(|url| is_http(url.as_str()) && url.has_host()) {
        return Ok(());
    }
    let shown = redacted(endpoint);
    Err(Error::config(format!(
        "{root}: the store's endpoint '{shown}' is no URL of a server"
    ))
    .hint(format!(
        "it begins with https:// or http://: http://{}",
        shown.trim_start_matches("http:/")
    )))
}

/// Who names an endpoint of HTTP means it.
fn is_http_endpoint(settings: &StoreSettings) -> bool {
    settings
        .endpoint
        .as_deref()
        .is_some_and(|endpoint| endpoint.starts_with("http://"))
}

fn none_found(root: &str, set: &str) -> Error {
    Error::config(format!("{root}: no credentials were found")).hint(format!("set {set}"))
}

fn options() -> ClientOptions {
    ClientOptions::default()
        .with_timeout(REQUEST_SECONDS_MAX)
        .with_connect_timeout(CONNECT_SECONDS_MAX)
}

fn retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig::default(),
        max_retries: RETRIES_MAX,
        retry_timeout: RETRY_SECONDS_MAX,
    }
}

/// A variable that is set to something.
pub(crate) fn env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Whether this is a machine of a cloud. Without asking, a request for credentials would take a minute to fail.
pub(crate) async fn metadata_answers() -> bool {
    let connect = tokio::net::TcpStream::connect(METADATA_ADDRESS);
    matches!(
        tokio::time::timeout(METADATA_SECONDS_MAX, connect).await,
        Ok(Ok(_))
    )
}

/// Whether there is an object with this URL. `Config` for HTTP, to which nothing is written.
pub fn exists(url: &str) -> Result<bool> {
    refuse_http(url)?;
    let (owned, shown) = (url.to_owned(), redacted(url));
    let asked = runtime::wait(async move {
        let located = locate(&owned).await?;
        match located.store.head(&located.path()?).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(cause) => Err(of_store(Doing::Write, &shown, &cause)),
        }
    });
    asked.map_err(Error::bug)?
}

/// Removes an object that was written; one that is not there is no error.
pub fn remove(url: &str) -> Result<()> {
    refuse_http(url)?;
    let (owned, shown) = (url.to_owned(), redacted(url));
    let asked = runtime::wait(async move {
        let located = locate(&owned).await?;
        match located.store.delete(&located.path()?).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(cause) => Err(of_store(Doing::Write, &shown, &cause)),
        }
    });
    asked.map_err(Error::bug)?
}

/// Nothing is written over HTTP: there is no common way to ask a server for it.
pub(crate) fn refuse_http(url: &str) -> Result<()> {
    match is_http(url) {
        true => Err(
            Error::config(format!("{}: nothing can be written over HTTP", redacted(url)))
                .hint("write to s3://, gs:// or az://, or to a file"),
        ),
        false => Ok(()),
    }
}
