//! The server's certificate, and the client's when it is asked for one.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use rustls_pki_types::{CertificateDer, DnsName, PrivateKeyDer, ServerName, pem::PemObject as _};
use webpki::EndEntityCert;

/// Where certificate and key lie, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, followed by those between it and the root.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Who signs the certificates of clients; when given, a client without one is turned away.
    pub client_ca: Option<PathBuf>,
}

/// A file that makes no TLS configuration; the text names the file and the fault.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

/// Reads the files.
///
/// # Errors
/// The first file that can't be read, or does not hold what it should.
pub fn server_config(files: &TlsFiles) -> Result<ServerConfig, TlsError> {
    let chain = certificates(&files.cert)?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| fault(&files.key, format!("holds no private key: {error}")))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError(error.to_string()))?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| fault(path, error.to_string()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|error| fault(path, error.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| {
        fault(&files.cert, format!("does not go with {}: {error}", files.key.display()))
    })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Whether the certificate is made out to the name, as one of its DNS names.
pub fn is_made_out_to(certificate: &CertificateDer<'_>, name: &str) -> bool {
    let Ok(certificate) = EndEntityCert::try_from(certificate) else { return false };
    let Ok(name) = DnsName::try_from(name) else { return false };
    certificate.verify_is_valid_for_subject_name(&ServerName::DnsName(name)).is_ok()
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| fault(path, error.to_string()))?;
    if found.is_empty() {
        return Err(fault(path, "holds no certificate in PEM form".to_owned()));
    }
    Ok(found)
}

fn fault(path: &Path, text: String) -> TlsError {
    TlsError(format!("{}: {text}", path.display()))
}
