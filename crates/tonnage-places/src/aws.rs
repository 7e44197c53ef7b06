//! Credentials for S3 where people have them: variables, roles, and the profiles of `~/.aws`.
//!
//! Source of names and order: the AWS SDKs and Tools Reference Guide, "Standardized credential providers". `object_store`
//! knows variables, web identity, roles of ECS and of instances; profiles and other containers' credentials are read
//! here.

use std::{collections::HashMap, path::PathBuf, process::Stdio, sync::Arc, time::Duration};

use async_trait::async_trait;
use ini::Ini;
use jiff::Timestamp;
use object_store::{
    CredentialProvider, StaticCredentialProvider,
    aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsCredential},
};
use serde::Deserialize;
use tokio::sync::Mutex;
use tonnage_core::error::{Error, Result};

use super::{
    named::StoreSettings,
    store::{check_endpoint, env, metadata_answers},
};

/// How long before their end credentials of a process are asked for anew.
const RENEWED_BEFORE: Duration = Duration::from_secs(300);

/// The longest that a `credential_process` may take, and that a container's credentials may.
const PROCESS_SECONDS_MAX: Duration = Duration::from_secs(60);
const CONTAINER_SECONDS_MAX: Duration = Duration::from_secs(5);

/// Hosts that may give credentials without TLS beside this machine: those of ECS and of EKS.
const CONTAINER_HOSTS: &[&str] = &["169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"];

/// A store as the environment and the profile say. `Config` where no credentials can be found.
pub(crate) async fn builder(bucket: &str, settings: &StoreSettings) -> Result<AmazonS3Builder> {
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
    let profile = Profile::read(settings.profile.as_deref())?;
    if let Some(region) = &settings.region {
        builder = builder.with_region(region);
    } else if env("AWS_REGION").is_none()
        && env("AWS_DEFAULT_REGION").is_none()
        && let Some(region) = profile.get("region")
    {
        builder = builder.with_region(region);
    }
    // The one for S3 alone goes first, as in all tools.
    let endpoint = settings
        .endpoint
        .clone()
        .or_else(|| env("AWS_ENDPOINT_URL_S3"))
        .or_else(|| env("AWS_ENDPOINT_URL"))
        .or_else(|| env("AWS_ENDPOINT"))
        .or_else(|| profile.get("endpoint_url").map(str::to_owned));
    if let Some(endpoint) = &endpoint {
        check_endpoint(&format!("s3://{bucket}"), endpoint)?;
        // Who names an http endpoint means it.
        builder = builder
            .with_config(AmazonS3ConfigKey::S3Endpoint, endpoint)
            .with_endpoint(endpoint)
            .with_allow_http(endpoint.starts_with("http://"));
    }
    let anonymous =
        env("AWS_SKIP_SIGNATURE").is_some_and(|said| said.eq_ignore_ascii_case("true") || said == "1");
    let by_variables = env("AWS_ACCESS_KEY_ID").is_some()
        || env("AWS_WEB_IDENTITY_TOKEN_FILE").is_some()
        || env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI").is_some()
        || env("AWS_CONTAINER_CREDENTIALS_FULL_URI").is_some();
    if let (Some(user), Some(secret)) = (&settings.user, &settings.secret) {
        // A session token of the environment belongs to other keys.
        let credential = AwsCredential {
            key_id: user.clone(),
            secret_key: secret.clone(),
            token: None,
        };
        return Ok(builder.with_credentials(Arc::new(StaticCredentialProvider::new(credential))));
    }
    if settings.anonymous {
        return Ok(builder.with_skip_signature(true));
    }
    if settings.profile.is_none() && (anonymous || by_variables) {
        let is_set = |name: &str| env(name).is_some();
        if anonymous || is_set("AWS_ACCESS_KEY_ID") {
            return Ok(builder);
        }
        if is_set("AWS_WEB_IDENTITY_TOKEN_FILE") {
            // Without it the library would look for another role.
            return match is_set("AWS_ROLE_ARN") {
                true => Ok(builder),
                false => Err(Error::config(
                    "AWS_WEB_IDENTITY_TOKEN_FILE is set, and AWS_ROLE_ARN is not: no role can be taken",
                )
                .hint("set AWS_ROLE_ARN to the role that trusts the token, or unset both")),
            };
        }
        if !is_set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
            && let Some(uri) = env("AWS_CONTAINER_CREDENTIALS_FULL_URI")
        {
            return Ok(builder.with_credentials(Arc::new(Credentials::renewed(Giver::container(&uri)?))));
        }
        return Ok(builder);
    }
    if let Some(credentials) = profile.credentials()? {
        return Ok(builder.with_credentials(Arc::new(credentials)));
    }
    // Called so by the tools of AWS; the library has a name of its own.
    let metadata = env("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    if let Some(endpoint) = &metadata {
        builder = builder.with_metadata_endpoint(endpoint.trim_end_matches('/'));
    }
    let is_named = metadata.is_some() || env("AWS_METADATA_ENDPOINT").is_some();
    let asks_metadata =
        env("AWS_EC2_METADATA_DISABLED").is_none_or(|said| !said.eq_ignore_ascii_case("true"));
    if asks_metadata && (is_named || metadata_answers().await) {
        return Ok(builder);
    }
    Err(
        Error::config(format!("s3://{bucket}: no credentials were found")).hint(
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; for a public bucket \
             AWS_SKIP_SIGNATURE=true",
        ),
    )
}

/// What `~/.aws/config` and `~/.aws/credentials` say of one profile.
struct Profile {
    name: String,
    settings: HashMap<String, String>,
}

impl Profile {
    /// The one that is asked for, or that AWS_PROFILE names, else the default one, which need not be there.
    fn read(asked: Option<&str>) -> Result<Self> {
        let named = asked
            .map(str::to_owned)
            .or_else(|| env("AWS_PROFILE"))
            .or_else(|| env("AWS_DEFAULT_PROFILE"));
        let name = named.clone().unwrap_or_else(|| "default".to_owned());
        let file = |variable: &str, default: &str| {
            let home = || Some(PathBuf::from(env("HOME")?).join(".aws").join(default));
            env(variable).map(PathBuf::from).or_else(home)
        };
        let mut settings = HashMap::new();
        let in_config = match name.as_str() {
            "default" => "default".to_owned(),
            name => format!("profile {name}"),
        };
        let mut found = false;
        for (path, section) in [
            (file("AWS_CONFIG_FILE", "config"), in_config.as_str()),
            (file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), name.as_str()),
        ] {
            let Some(path) = path.filter(|path| path.is_file()) else {
                continue;
            };
            // A value may hold # and quotes, and means them.
            let options = ini::ParseOption {
                enabled_quote: false,
                enabled_escape: false,
                ..ini::ParseOption::default()
            };
            let read = Ini::load_from_file_opt(&path, options).map_err(|cause| {
                Error::config(format!("{}: cannot be read: {cause}", path.display()))
                    .hint("it has sections in brackets, and lines of NAME = VALUE")
            })?;
            if let Some(section) = read.section(Some(section)) {
                found = true;
                settings.extend(
                    section
                        .iter()
                        .map(|(key, value)| (key.to_owned(), value.to_owned())),
                );
            }
        }
        if !found && let Some(name) = &named {
            return Err(Error::config(format!(
                "AWS_PROFILE names '{name}', of which ~/.aws says nothing"
            ))
            .hint("aws configure list-profiles shows those that there are"));
        }
        Ok(Self { name, settings })
    }

    fn get(&self, setting: &str) -> Option<&str> {
        self.settings.get(setting).map(String::as_str)
    }

    /// Its credentials, if it has any. `Config` where only the AWS tools can get them.
    fn credentials(&self) -> Result<Option<Credentials>> {
        let name = &self.name;
        if let (Some(key_id), Some(secret_key)) =
            (self.get("aws_access_key_id"), self.get("aws_secret_access_key"))
        {
            return Ok(Some(Credentials::Static(Arc::new(AwsCredential {
                key_id: key_id.to_owned(),
                secret_key: secret_key.to_owned(),
                token: self.get("aws_session_token").map(str::to_owned),
            }))));
        }
        if let Some(command) = self.get("credential_process") {
            return Ok(Some(Credentials::renewed(Giver::Process(command.to_owned()))));
        }
        let elsewhere = ["sso_session", "sso_start_url", "role_arn"];
        if let Some(setting) = elsewhere.iter().find(|setting| self.get(setting).is_some()) {
            return Err(Error::config(format!(
                "the profile '{name}' has {setting}, which only the tools of AWS can turn into credentials"
            ))
            .hint(format!(
                "eval \"$(aws configure export-credentials --profile {name} --format env)\", or put the same command \
                 with --format process behind credential_process"
            )));
        }
        Ok(None)
    }
}

/// Credentials that are not the library's own to get.
enum Credentials {
    Static(Arc<AwsCredential>),
    /// They end, and are asked for anew before.
    Renewed {
        giver: Giver,
        last: Mutex<Option<(Arc<AwsCredential>, Option<Timestamp>)>>,
    },
}

/// Who gives credentials.
enum Giver {
    /// A program that prints them: `credential_process` of a profile.
    Process(String),
    /// A server beside a container.
    Container(reqwest::Url),
}

impl Giver {
    /// `Config` for what is no URL, and for a host that anybody could be.
    fn container(uri: &str) -> Result<Self> {
        let named = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
        let url = reqwest::Url::parse(uri).map_err(|cause| {
            Error::config(format!("{named} is no URL: {cause}")).hint("the container's runtime sets it")
        })?;
        let host = url.host_str().unwrap_or_default();
        let is_here = host == "localhost" || host.starts_with("127.") || host == "[::1]";
        match url.scheme() == "https" || is_here || CONTAINER_HOSTS.contains(&host) {
            true => Ok(Self::Container(url)),
            false => Err(Error::config(format!(
                "{named} names {host}, which would send credentials without TLS"
            ))
            .hint("name an https:// address, or one of this machine, of ECS or of EKS")),
        }
    }

    async fn give(&self) -> std::result::Result<Given, String> {
        match self {
            Self::Process(command) => printed(command)
                .await
                .map_err(|why| format!("credential_process of the profile {why}")),
            Self::Container(url) => answered(url)
                .await
                .map_err(|why| format!("the server of the container's credentials {why}")),
        }
    }
}

impl Credentials {
    fn renewed(giver: Giver) -> Self {
        Self::Renewed {
            giver,
            last: Mutex::new(None),
        }
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credentials")
    }
}

/// What a `credential_process` prints, or the server of a container answers.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Given {
    access_key_id: String,
    secret_access_key: String,
    session_token: Option<String>,
    /// What servers of containers call it.
    token: Option<String>,
    expiration: Option<Timestamp>,
}

#[async_trait]
impl CredentialProvider for Credentials {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let (giver, last) = match self {
            Self::Static(credential) => return Ok(credential.clone()),
            Self::Renewed { giver, last } => (giver, last),
        };
        let mut last = last.lock().await;
        if let Some((credential, end)) = &*last
            && end.is_none_or(|end| {
                end.duration_since(Timestamp::now()) > RENEWED_BEFORE.try_into().unwrap_or_default()
            })
        {
            return Ok(credential.clone());
        }
        let given = giver.give().await.map_err(|why| object_store::Error::Generic {
            store: "S3",
            source: why.into(),
        })?;
        let credential = Arc::new(AwsCredential {
            key_id: given.access_key_id,
            secret_key: given.secret_access_key,
            token: given.session_token.or(given.token),
        });
        *last = Some((credential.clone(), given.expiration));
        Ok(credential)
    }
}

async fn printed(command: &str) -> std::result::Result<Given, String> {
    let run = tokio::process::Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output();
    let ran = tokio::time::timeout(PROCESS_SECONDS_MAX, run).await;
    let ran = ran.map_err(|_| format!("took more than {} s", PROCESS_SECONDS_MAX.as_secs()))?;
    let ran = ran.map_err(|cause| format!("cannot be run: {cause}"))?;
    if !ran.status.success() {
        return Err(format!("failed: {}", ran.status));
    }
    // What it printed may be a secret, so no part of it is shown.
    serde_json::from_slice(&ran.stdout).map_err(|_| "printed no credentials".to_owned())
}

async fn answered(url: &reqwest::Url) -> std::result::Result<Given, String> {
    // It is near, and no proxy has to hear of it.
    let client = reqwest::Client::builder()
        .no_proxy()
        .timeout(CONTAINER_SECONDS_MAX);
    let client = client.build().map_err(|cause| super::error::chain(&cause))?;
    let mut request = client.get(url.clone());
    let token = match env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
        // It may be another one each time.
        Some(path) => {
            let read = std::fs::read_to_string(&path);
            Some(read.map_err(|cause| format!("needs the token in {path}, which cannot be read: {cause}"))?)
        }
        None => env("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
    };
    if let Some(token) = token {
        request = request.header(reqwest::header::AUTHORIZATION, token.trim());
    }
    let answer = request.send().await;
    let answer = answer.map_err(|cause| format!("cannot be asked: {}", super::error::chain(&cause)))?;
    if !answer.status().is_success() {
        return Err(format!("answers {}", answer.status()));
    }
    let body = answer
        .bytes()
        .await
        .map_err(|cause| super::error::chain(&cause))?;
    // What it answered may be a secret, so no part of it is shown.
    serde_json::from_slice(&body).map_err(|_| "answers without credentials".to_owned())
}
