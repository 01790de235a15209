//! TLS to the database, by `sslmode` and `sslrootcert` of the connection string.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore, pki_types::CertificateDer, pki_types::pem::PemObject};
use tokio_postgres::{Config, config::SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::store::{Result, StoreError};

/// A connection string without what only libpq knows: the settings, and the file of trusted roots.
pub(super) struct Target {
    /// Where and as whom to connect.
    pub(super) config: Config,
    /// How to encrypt.
    pub(super) tls: MakeRustlsConnect,
}

/// Reads a connection string (URL or `key=value`). `sslmode` may be disable, prefer, require,
/// verify-ca or verify-full; whenever a connection is encrypted the certificate is checked.
pub(super) fn target(text: &str) -> Result<Target> {
    let (text, root_file) = take_option(text, "sslrootcert");
    let (text, mode) = take_option(&text, "sslmode");
    let mut config: Config = text.parse().map_err(|error: tokio_postgres::Error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        StoreError::Conflict(format!(
            "the Postgres connection string can't be read: {}; write it like \
             postgresql://USER:PASSWORD@HOST:5432/DATABASE",
            cause.unwrap_or_else(|| error.to_string())
        ))
    })?;
    let mode = match mode.as_deref() {
        None | Some("prefer" | "allow") => SslMode::Prefer,
        Some("disable") => SslMode::Disable,
        Some("require" | "verify-ca" | "verify-full") => SslMode::Require,
        Some(other) => {
            return Err(StoreError::Conflict(format!(
                "sslmode `{other}` of the Postgres connection string is unknown; use disable, \
                 prefer, require or verify-full"
            )));
        }
    };
    config.ssl_mode(mode);
    let roots = match mode {
        SslMode::Disable => RootCertStore::empty(),
        _ => roots(root_file.as_deref())?,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| StoreError::Internal(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Target { config, tls: MakeRustlsConnect::new(client) })
}

fn roots(file: Option<&str>) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let Some(file) = file else {
        // An incomplete system store is no fault by itself: the handshake tells.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    let bad = |fault: String| {
        StoreError::Conflict(format!(
            "sslrootcert file {file}: {fault}; it must hold PEM certificates"
        ))
    };
    for certificate in CertificateDer::pem_file_iter(file).map_err(|e| bad(e.to_string()))? {
        let certificate = certificate.map_err(|e| bad(e.to_string()))?;
        roots.add(certificate).map_err(|e| bad(e.to_string()))?;
    }
    if roots.is_empty() {
        return Err(bad("no certificate in it".to_owned()));
    }
    Ok(roots)
}

/// Takes `name=value` out of a connection string of either form.
fn take_option(text: &str, name: &str) -> (String, Option<String>) {
    let is_url = text.starts_with("postgres://") || text.starts_with("postgresql://");
    let (head, options, separator) = match text.split_once('?') {
        Some((head, query)) if is_url => (Some(head), query, '&'),
        _ if is_url => return (text.to_owned(), None),
        _ => (None, text, ' '),
    };
    let mut value = None;
    let mut kept = Vec::new();
    for option in options.split(separator) {
        match option.split_once('=') {
            Some((key, found)) if key.trim() == name => {
                value = Some(found.trim_matches('\'').replace("%2F", "/").replace("%2f", "/"));
            }
            _ => kept.push(option),
        }
    }
    let kept = kept.join(&separator.to_string());
    let text = match head {
        Some(head) if kept.is_empty() => head.to_owned(),
        Some(head) => format!("{head}?{kept}"),
        None => kept,
    };
    (text, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(text: &str) -> SslMode {
        target(text).map(|target| target.config.get_ssl_mode()).expect("is read")
    }

    #[test]
    fn every_sslmode_of_libpq_is_understood_in_both_forms() {
        assert_eq!(mode("postgresql://u@h/d?sslmode=disable"), SslMode::Disable);
        assert_eq!(mode("host=h user=u sslmode=verify-full"), SslMode::Require);
        assert_eq!(mode("postgres://u@h/d?application_name=x&sslmode=require"), SslMode::Require);
        assert_eq!(mode("postgres://u@h/d"), SslMode::Prefer);
    }

    #[test]
    fn faults_name_the_setting_and_the_remedy() {
        let unknown = target("postgres://u@h/d?sslmode=maybe").err().expect("refused");
        assert!(unknown.to_string().contains("`maybe`"), "{unknown}");
        let missing = target("postgres://u@h/d?sslrootcert=%2Fno%2Ffile").err().expect("refused");
        assert!(missing.to_string().contains("/no/file"), "{missing}");
        let garbled = target("postgres://u@h/d?colour=red").err().expect("refused");
        assert!(garbled.to_string().contains("colour"), "{garbled}");
    }

    #[test]
    fn other_options_survive_the_taking() {
        let (text, value) = take_option("postgres://u@h/d?a=1&sslmode=x&b=2", "sslmode");
        assert_eq!((text.as_str(), value.as_deref()), ("postgres://u@h/d?a=1&b=2", Some("x")));
        let (text, value) = take_option("postgres://u@h/d?sslmode=x", "sslmode");
        assert_eq!((text.as_str(), value.as_deref()), ("postgres://u@h/d", Some("x")));
    }
}
