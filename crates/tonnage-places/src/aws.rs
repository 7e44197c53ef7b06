//! Credentials for S3 where people have them: variables, roles, and the profiles of `~/.aws`.
//!
//! Source of names and order: the AWS SDKs and Tools Reference Guide, "Standardized credential providers". `object_store`
//! knows variables, web identity, container and instance roles; profiles are read here.

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
    store::{env, metadata_answers},
};

/// How long before their end credentials of a process are asked for anew.
const RENEWED_BEFORE: Duration = Duration::from_secs(300);

/// The longest that a `credential_process` may take.
const PROCESS_SECONDS_MAX: Duration = Duration::from_secs(60);

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
        return Ok(builder);
    }
    if let Some(credentials) = profile.credentials()? {
        return Ok(builder.with_credentials(Arc::new(credentials)));
    }
    let asks_metadata =
        env("AWS_EC2_METADATA_DISABLED").is_none_or(|said| !said.eq_ignore_ascii_case("true"));
    if asks_metadata && (env("AWS_METADATA_ENDPOINT").is_some() || metadata_answers().await) {
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
            return Ok(Some(Credentials::Process {
                command: command.to_owned(),
                last: Mutex::new(None),
            }));
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

/// Credentials of a profile.
enum Credentials {
    Static(Arc<AwsCredential>),
    /// Of a program that prints them.
    Process {
        command: String,
        last: Mutex<Option<(Arc<AwsCredential>, Option<Timestamp>)>>,
    },
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credentials")
    }
}

/// What a `credential_process` prints.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Printed {
    access_key_id: String,
    secret_access_key: String,
    session_token: Option<String>,
    expiration: Option<Timestamp>,
}

#[async_trait]
impl CredentialProvider for Credentials {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let (command, last) = match self {
            Self::Static(credential) => return Ok(credential.clone()),
            Self::Process { command, last } => (command, last),
        };
        let mut last = last.lock().await;
        if let Some((credential, end)) = &*last
            && end.is_none_or(|end| {
                end.duration_since(Timestamp::now()) > RENEWED_BEFORE.try_into().unwrap_or_default()
            })
        {
            return Ok(credential.clone());
        }
        let printed = printed(command)
            .await
            .map_err(|why| object_store::Error::Generic {
                store: "S3",
                source: format!("credential_process of the profile {why}").into(),
            })?;
        let credential = Arc::new(AwsCredential {
            key_id: printed.access_key_id,
            secret_key: printed.secret_access_key,
            token: printed.session_token,
        });
        *last = Some((credential.clone(), printed.expiration));
        Ok(credential)
    }
}

async fn printed(command: &str) -> std::result::Result<Printed, String> {
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
