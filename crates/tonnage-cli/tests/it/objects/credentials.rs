//! Credentials as people have them. s3s checks each signature, so what is read proves that the right key was used. Servers of
//! containers' and instances' roles are scripted: they are plain HTTP with answers that never vary.

use std::process::Command;

use super::{
    clouds::Google,
    faulty::{Fault, Faulty, Rule},
    stores::{Bucket, KEY, SECRET},
};
use crate::{
    database::variable,
    support::{Database, Ran, TestDatabase},
};

const GIVEN: &str = r#"{"Version": 1, "AccessKeyId": "tester", "SecretAccessKey": "of-a-secret-nobody-may-see",
    "Code": "Success", "Type": "AWS-HMAC", "LastUpdated": "2026-01-01T00:00:00Z",
    "Token": "of-a-session", "SessionToken": "of-a-session", "Expiration": "2099-01-01T00:00:00Z"}"#;

/// A bucket with an object, before which requests are looked at, and a table.
struct Stage {
    place: TestDatabase,
    bucket: Bucket,
    proxy: Faulty,
}

impl Stage {
    fn on(bucket: Bucket) -> Self {
        bucket.put("r.csv", "a\n1\n");
        Self {
            place: TestDatabase::with(Database::Sqlite, "CREATE TABLE t (a TEXT)", &[]),
            proxy: Faulty::before(&bucket.endpoint),
            bucket,
        }
    }

    /// Loads the object with these variables beside the store's address.
    fn load(&self, variables: &[(&str, &str)]) -> Ran {
        self.proxy.set(&[]);
        let mut environment = vec![
            ("AWS_ENDPOINT_URL", self.proxy.url.as_str()),
            ("AWS_REGION", "us-east-1"),
        ];
        environment.extend(variables);
        let load = format!(
            "load {} {{db}} -t t --report report.json -vv",
            self.bucket.url("r.csv")
        );
        let ran = self.place.run_with(&load, &environment, b"");
        let ledger = self
            .place
            .sql("SELECT count(*) FROM sqlite_master WHERE name = 'tonnage_runs'");
        let ledger = match ledger[0].as_str() {
            "1" => self.place.sql("SELECT * FROM tonnage_runs").concat(),
            _ => String::new(),
        };
        let report = std::fs::read_to_string(self.place.path("report.json")).unwrap_or_default();
        for text in [&ran.stdout, &ran.stderr, &ledger, &report] {
            for secret in [SECRET, "of-a-session", "of-the-server"] {
                assert!(!text.contains(secret), "{text}");
            }
        }
        ran
    }

    /// The same, and the rows must be there, got by requests that were signed so.
    #[track_caller]
    fn loads(&self, what: &str, variables: &[(&str, &str)], signed: &str) {
        self.place
            .sql("DROP TABLE IF EXISTS tonnage_runs; DROP TABLE IF EXISTS tonnage_slots; DELETE FROM t");
        let ran = self.load(variables);
        assert_eq!(ran.code, Some(0), "{what}: {}", ran.stderr);
        assert_eq!(self.place.sql("SELECT a FROM t"), ["1"], "{what}");
        let found = self.proxy.signed();
        assert!(found.iter().all(|found| found == signed), "{what}: {found:?}");
    }
}

fn answer(part: &'static str, text: &'static str) -> Rule {
    Rule {
        part,
        after: 0,
        times: 1_000,
        fault: Fault::Status(200, text),
    }
}

#[test]
fn profiles_and_roles_give_credentials() {
    let stage = Stage::on(Bucket::of_s3s());
    let (plain, session) = (format!("{KEY} "), format!("{KEY} of-a-session"));
    let config = stage.place.path(".aws");
    std::fs::create_dir(&config).expect("a directory");
    stage.place.write(".aws/given.json", GIVEN);
    stage.place.write(
        ".aws/config",
        "[default]\nregion = us-east-1\n[profile asks]\ncredential_process = cat .aws/given.json\n",
    );
    stage.place.write(
        ".aws/credentials",
        format!("[default]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n"),
    );
    stage.loads("the default profile", &[], &plain);
    stage.loads("credential_process", &[("AWS_PROFILE", "asks")], &session);
    stage.loads(
        "variables",
        &[("AWS_ACCESS_KEY_ID", KEY), ("AWS_SECRET_ACCESS_KEY", SECRET)],
        &plain,
    );
    std::fs::remove_dir_all(&config).expect("a directory");

    // The one for S3 alone goes first.
    let keys = [("AWS_ACCESS_KEY_ID", KEY), ("AWS_SECRET_ACCESS_KEY", SECRET)];
    let [one, other] = keys;
    let for_s3 = ("AWS_ENDPOINT_URL_S3", stage.proxy.url.as_str());
    let nowhere = ("AWS_ENDPOINT_URL", "http://127.0.0.1:1");
    stage.loads("AWS_ENDPOINT_URL_S3", &[one, other, for_s3, nowhere], &plain);

    // A container: with a token, with one in a file, and with none.
    let roles = Faulty::before(&stage.bucket.endpoint);
    roles.set(&[answer("GET /role", GIVEN)]);
    let uri = format!("{}/role", roles.url);
    stage.place.write("token", "of-the-server\n");
    let token = stage.place.path("token").display().to_string();
    let uri = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri.as_str());
    for further in [
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "of-the-server"),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token.as_str()),
        ("TZ", "UTC"),
    ] {
        stage.loads("a container", &[uri, further], &session);
    }

    // An instance.
    roles.set(&[
        answer("PUT /latest/api/token", "of-the-server"),
        answer("GET /latest/meta-data/iam/security-credentials/reader", GIVEN),
        answer("GET /latest/meta-data/iam/security-credentials/", "reader"),
    ]);
    let endpoint = ("AWS_EC2_METADATA_SERVICE_ENDPOINT", roles.url.as_str());
    stage.loads("an instance", &[endpoint], &session);
    assert!(roles.requests()[0].starts_with("PUT /latest/api/token"));
}

#[test]
fn a_web_identity_takes_a_role() {
    let stage = Stage::on(Bucket::of_moto());
    stage.place.write("token", "of-the-server");
    let token = stage.place.path("token").display().to_string();
    let sts = format!("{}/sts/", variable("TONNAGE_TEST_HTTPS_URL"));
    let authority = variable("TONNAGE_TEST_POSTGRES_CA");
    let ran = stage.load(&[
        ("AWS_WEB_IDENTITY_TOKEN_FILE", &token),
        ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/reader"),
        ("AWS_ENDPOINT_URL_STS", &sts),
        ("SSL_CERT_FILE", &authority),
    ]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(stage.place.sql("SELECT a FROM t"), ["1"]);
    let signed = stage.proxy.signed();
    let by_role = |signed: &String| signed.starts_with("ASIA") && !signed.ends_with(' ');
    assert!(!signed.is_empty() && signed.iter().all(by_role), "{signed:?}");
}

#[test]
fn credentials_that_cannot_be_got_are_said_with_what_to_do() {
    let stage = Stage::on(Bucket::of_s3s());
    std::fs::create_dir(stage.place.path(".aws")).expect("a directory");
    stage.place.write(
        ".aws/config",
        concat!(
            "[profile single]\nsso_session = company\nsso_account_id = 1\n",
            "[profile role]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = default\n",
            "[profile fails]\ncredential_process = echo of-the-server; exit 7\n",
            "[profile odd]\ncredential_process = echo of-the-server\n",
        ),
    );
    let roles = Faulty::before(&stage.bucket.endpoint);
    roles.set(&[
        Rule {
            part: "/denied",
            after: 0,
            times: 1_000,
            fault: Fault::Status(403, "no"),
        },
        answer("/odd", "of-the-server"),
    ]);
    let at = |path: &str| format!("{}{path}", roles.url);
    let (denied, odd) = (at("/denied"), at("/odd"));
    let profile = |name| vec![("AWS_PROFILE", name)];
    let container = |uri| vec![("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri)];
    for (variables, error, hint) in [
        (
            profile("single"),
            "'single' has sso_session",
            "aws configure export-credentials",
        ),
        (profile("role"), "'role' has role_arn", "credential_process"),
        (profile("none"), "names 'none'", "aws configure list-profiles"),
        (
            profile("fails"),
            "credential_process of the profile failed",
            "hint: ",
        ),
        (profile("odd"), "printed no credentials", "hint: "),
        (container(denied.as_str()), "answers 403", "hint: "),
        (container(odd.as_str()), "answers without credentials", "hint: "),
        (container("http://example.org/role"), "without TLS", "https://"),
        (
            vec![("AWS_WEB_IDENTITY_TOKEN_FILE", "token")],
            "AWS_ROLE_ARN is not",
            "hint: ",
        ),
        (
            vec![("AWS_EC2_METADATA_DISABLED", "true")],
            "no credentials were found",
            "AWS_PROFILE",
        ),
    ] {
        let ran = stage.load(&variables);
        assert!(matches!(ran.code, Some(1 | 2)), "{error}: {}", ran.stderr);
        let says = ran.stderr.contains(error) && ran.stderr.contains(hint) && ran.stderr.contains("hint: ");
        assert!(says, "{error}: {}", ran.stderr);
    }
    assert_eq!(stage.place.sql("SELECT count(*) FROM t"), ["0"]);
}

#[test]
fn what_everybody_may_read_needs_no_credentials() {
    let place = TestDatabase::with(Database::Sqlite, "CREATE TABLE t (a TEXT)", &[]);
    let bucket = Bucket::of_moto();
    bucket.publish("open.csv", "a\n1\n");
    bucket.put("closed.csv", "a\n2\n");
    let proxy = Faulty::before(&bucket.endpoint);
    let variables = [
        ("AWS_ENDPOINT_URL", proxy.url.as_str()),
        ("AWS_REGION", "us-east-1"),
    ];
    let anonymous = [&variables[..], &[("AWS_SKIP_SIGNATURE", "true")]].concat();
    place.write(
        "targets.toml",
        format!("[lake]\nurl = \"{}\"\nanonymous = true\n", bucket.url("")),
    );
    for (input, variables) in [
        (bucket.url("open.csv"), anonymous.as_slice()),
        (bucket.url("o*.csv"), anonymous.as_slice()),
        ("@lake/open.csv".to_owned(), variables.as_slice()),
    ] {
        let ran = place.run_with(&format!("load '{input}' {{db}} -t t"), variables, b"");
        assert_eq!(ran.code, Some(0), "{input}: {}", ran.stderr);
        assert_eq!(place.sql("SELECT a FROM t; DELETE FROM t"), ["1"], "{input}");
    }
    assert_eq!(proxy.signed(), Vec::<String>::new());
    let closed = format!("load {} {{db}} -t t", bucket.url("closed.csv"));
    let ran = place.run_with(&closed, &anonymous, b"");
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let says = ran.stderr.contains("access is denied") && ran.stderr.contains("hint: ");
    assert!(says, "{}", ran.stderr);
}

#[test]
fn google_gives_tokens_to_machines_and_takes_those_of_service_accounts() {
    let place = TestDatabase::with(Database::Sqlite, "CREATE TABLE t (a TEXT)", &[]);
    let google = Google::start();
    google.put("r.csv", b"a\n1\n".to_vec());
    place.write(
        "targets.toml",
        format!(
            "[lake]\nurl = \"gs://lake\"\nendpoint = \"{}\"\n",
            google.proxy.url
        ),
    );
    let loads = |variable: (&str, &str)| {
        google.proxy.set(&[]);
        let ran = place.run_with("load @lake/r.csv {db} -t t -vv", &[variable], b"");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert_eq!(place.sql("SELECT a FROM t; DELETE FROM t"), ["1"]);
        let tokens = google.proxy.signed();
        assert!(!tokens.is_empty(), "each request has a token");
        for token in &tokens {
            assert!(
                !ran.stderr.contains(token) && !ran.stdout.contains(token),
                "{}",
                ran.stderr
            );
        }
        tokens
    };
    // A machine's.
    let roles = Faulty::before(&google.proxy.url);
    roles.set(&[answer(
        "GET /computeMetadata/v1/instance/service-accounts/default/token",
        r#"{"access_token": "of-a-machine", "expires_in": 3600, "token_type": "Bearer"}"#,
    )]);
    let host = roles.url.trim_start_matches("http://");
    let tokens = loads(("GCE_METADATA_HOST", host));
    assert!(tokens.iter().all(|token| token == "of-a-machine"), "{tokens:?}");
    // A service account signs its own: three parts in base64.
    let key = Command::new("openssl")
        .args(["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"])
        .output()
        .expect("openssl runs");
    let key = String::from_utf8(key.stdout).expect("text");
    let account = serde_json::json!({
        "type": "service_account", "project_id": "p", "private_key_id": "1", "private_key": key,
        "client_email": "reader@p.iam.gserviceaccount.com", "client_id": "1",
    });
    place.write("account.json", account.to_string());
    let path = place.path("account.json").display().to_string();
    let tokens = loads(("GOOGLE_APPLICATION_CREDENTIALS", &path));
    assert!(
        tokens
            .iter()
            .all(|token| token.starts_with("ey") && token.split('.').count() == 3),
        "{tokens:?}"
    );
}

/// Azurite takes tokens over TLS only and checks none of them, so that all that can be seen is that the right one was got
/// and sent.
#[test]
fn azure_is_shown_the_token_of_an_identity() {
    let place = TestDatabase::with(Database::Sqlite, "CREATE TABLE t (a TEXT)", &[]);
    let azure = variable("TONNAGE_TEST_AZURE_URL");
    let (server, account) = azure.rsplit_once('/').expect("the account is in the URL");
    let (proxy, roles) = (Faulty::before(server), Faulty::before(server));
    place.write(
        "targets.toml",
        format!(
            "[lake]\nurl = \"az://lake\"\nendpoint = \"{}/{account}\"\naccount = \"{account}\"\n",
            proxy.url
        ),
    );
    roles.set(&[
        answer(
            "GET /identity resource=https",
            r#"{"access_token": "of-an-identity", "expires_on": "4102444800", "expires_in": "3600", "not_before": "0",
                "resource": "https://storage.azure.com", "token_type": "Bearer"}"#,
        ),
        answer(
            "POST /tenant/oauth2/v2.0/token",
            r#"{"access_token": "of-an-application", "expires_in": 3600, "token_type": "Bearer"}"#,
        ),
    ]);
    let identity = format!("{}/identity", roles.url);
    for (variables, token) in [
        (
            vec![
                ("IDENTITY_ENDPOINT", identity.as_str()),
                ("IDENTITY_HEADER", "of-the-server"),
            ],
            "of-an-identity",
        ),
        (
            vec![
                ("AZURE_CLIENT_ID", "reader"),
                ("AZURE_CLIENT_SECRET", "of-a-client"),
                ("AZURE_TENANT_ID", "tenant"),
                ("AZURE_AUTHORITY_HOST", roles.url.as_str()),
            ],
            "of-an-application",
        ),
    ] {
        proxy.set(&[]);
        let ran = place.run_with("load @lake/r.csv {db} -t t -vv", &variables, b"");
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(ran.stderr.contains("hint: "), "{}", ran.stderr);
        let sent = proxy.signed();
        assert!(
            !sent.is_empty() && sent.iter().all(|sent| sent == token),
            "{sent:?}: {}",
            ran.stderr
        );
        for secret in [token, "of-the-server", "of-a-client"] {
            assert!(!ran.stderr.contains(secret), "{}", ran.stderr);
        }
    }
}
