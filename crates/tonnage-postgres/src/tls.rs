//! TLS as libpq does it: what is verified depends on the mode, and nothing is trusted but what was given.

use std::{path::Path, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, InconsistentKeys, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    sign::{CertifiedKey, SingleCertAndKey},
};
use tokio_postgres_rustls::MakeRustlsConnect;
use tonnage_core::error::{Error, Result};
use tonnage_sql::settings::TlsMode;

use super::settings::{ClientCertificate, Settings};

/// The connector for these settings.
pub(super) fn connector(settings: &Settings) -> Result<MakeRustlsConnect> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::bug("no TLS version is available").caused_by(e))?;
    let authority = match (settings.tls, &settings.root_certificate) {
        (TlsMode::VerifyAuthority | TlsMode::VerifyFull, None) => {
            return Err(
                Error::config("sslmode verify-ca and verify-full need the authority's certificate")
                    .hint("add sslrootcert=PATH to the URL or set PGSSLROOTCERT"),
            );
        }
        (TlsMode::VerifyAuthority | TlsMode::VerifyFull, Some(path)) => Some(read_authority(path)?),
        // As libpq: with an authority at hand, `require` verifies as verify-ca does.
        (TlsMode::Require, Some(path)) => Some(read_authority(path)?),
        _ => None,
    };
    let client = provider.clone();
    let strict = match authority {
        None => None,
        Some(roots) => Some(
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                .build()
                .map_err(|e| Error::config("the certificate in sslrootcert cannot be used").caused_by(e))?,
        ),
    };
    let verifier: Arc<dyn ServerCertVerifier> = match strict {
        Some(strict) if settings.tls == TlsMode::VerifyFull => strict,
        chain => Arc::new(AnyName { provider, chain }),
    };
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let config = match &settings.client_certificate {
        None => builder.with_no_client_auth(),
        Some(files) => {
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified(files, &client)?)))
        }
    };
    Ok(MakeRustlsConnect::new(config))
}

/// The client's certificate with its key. Only the server judges it: rustls's own look at it would refuse certificates
/// of X.509 version 1, which `openssl x509` makes.
fn certified(files: &ClientCertificate, provider: &CryptoProvider) -> Result<CertifiedKey> {
    let chain = read_certificates(&files.certificate, "sslcert")?;
    let (certificate, key) = (files.certificate.display(), files.key.display());
    let loaded = provider.key_provider.load_private_key(read_key(&files.key)?);
    let loaded = loaded.map_err(|e| Error::config(format!("the private key {key} cannot be used: {e}")))?;
    let certified = CertifiedKey::new(chain, loaded);
    match certified.keys_match() {
        Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => Err(Error::config(format!(
            "the private key {key} is not that of the certificate {certificate}"
        ))
        .hint("check sslcert and sslkey")),
        _ => Ok(certified),
    }
}

fn read_authority(path: &Path) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates(path, "sslrootcert")? {
        roots
            .add(certificate)
            .map_err(|e| unreadable(path, "sslrootcert", e))?;
    }
    Ok(roots)
}

fn read_certificates(path: &Path, option: &str) -> Result<Vec<CertificateDer<'static>>> {
    let certificates: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(|iterator| iterator.collect::<std::result::Result<Vec<_>, _>>())
        .map_err(|e| unreadable(path, option, e))?;
    if certificates.is_empty() {
        return Err(unreadable(path, option, "it holds none"));
    }
    Ok(certificates)
}

fn unreadable(path: &Path, option: &str, why: impl std::fmt::Display) -> Error {
    Error::config(format!("cannot read the certificate {}: {why}", path.display()))
        .hint(format!("{option} names a file of PEM certificates"))
}

/// As libpq: a key that others may read is not used.
fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    let shown = path.display();
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        // A key of root's may be read by its group, so that a program of that group can use it.
        let open = |m: std::fs::Metadata| m.mode() & if m.uid() == 0 { 0o027 } else { 0o077 } != 0;
        if std::fs::metadata(path).is_ok_and(open) {
            return Err(
                Error::config(format!("the private key {shown} can be read by group or others"))
                    .hint(format!("chmod 0600 {shown}")),
            );
        }
    }
    PrivateKeyDer::from_pem_file(path).map_err(|e| {
        Error::config(format!("cannot read the private key {shown}: {e}"))
            .hint("sslkey names a file with one PEM key that is not encrypted")
    })
}

/// Does not look at the name: verifies the chain (`verify-ca`), or with no authority at hand encrypts without asking
/// whom it talks to (`prefer`, `allow`, `require`).
#[derive(Debug)]
struct AnyName {
    provider: Arc<CryptoProvider>,
    chain: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(chain) = &self.chain else {
            return Ok(ServerCertVerified::assertion());
        };
        // The name is looked at last, so this failure means that everything else was found good.
        match chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
