//! The server's certificate, which follows its files, and the client's when it is asked for one.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;
use rustls::{RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use rustls_pki_types::{CertificateDer, DnsName, PrivateKeyDer, ServerName, pem::PemObject as _};
use tokio_rustls::TlsAcceptor;
use webpki::EndEntityCert;

use crate::clock::Clock;

/// How often it is looked whether the files have changed.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(30);

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

/// Of each file, when it changed and how long it is; `None` for one that is not there just now.
type Stamps = Vec<Option<(SystemTime, u64)>>;

/// What new connections are accepted with: the files as they were last found good.
pub struct Certificates {
    files: TlsFiles,
    acceptor: Mutex<TlsAcceptor>,
    seen: Mutex<Stamps>,
}

impl Certificates {
    /// Reads the files.
    ///
    /// # Errors
    /// As [`server_config`].
    pub fn load(files: &TlsFiles) -> Result<Self, TlsError> {
        // Before the files themselves: a change in between is found by the next look.
        let seen = Mutex::new(stamps(files));
        let acceptor = Mutex::new(TlsAcceptor::from(Arc::new(server_config(files)?)));
        Ok(Self { files: files.clone(), acceptor, seen })
    }

    /// For the next connection.
    pub fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.lock().clone()
    }

    /// Keeps looking for changes of the files. What does not go together, say a certificate whose
    /// key is still to be written, is passed over until the files change again.
    pub async fn follow(&self, clock: &dyn Clock) {
        loop {
            clock.wait(CHECK_INTERVAL).await;
            let now = stamps(&self.files);
            if *self.seen.lock() == now {
                continue;
            }
            *self.seen.lock() = now;
            match server_config(&self.files) {
                Ok(config) => {
                    *self.acceptor.lock() = TlsAcceptor::from(Arc::new(config));
                    tracing::info!("new TLS files are in use");
                }
                Err(error) => {
                    tracing::warn!(%error, "new TLS files can't be used; the old ones stay")
                }
            }
        }
    }
}

fn stamps(files: &TlsFiles) -> Stamps {
    let stamp = |path: &Path| {
        let found = std::fs::metadata(path).ok()?;
        Some((found.modified().ok()?, found.len()))
    };
    let paths = [Some(&files.cert), Some(&files.key), files.client_ca.as_ref()];
    paths.into_iter().flatten().map(|path| stamp(path)).collect()
}

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
