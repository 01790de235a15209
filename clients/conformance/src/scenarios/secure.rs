//! Sessions over TLS.

use std::io::Write as _;

use clawjob_conformance::Fake;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair,
};
use tempfile::NamedTempFile;
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

use crate::judge::{Scenario, scenarios};
use crate::program::{Launch, Subject};

pub(super) const SCENARIOS: &[Scenario<Subject>] = scenarios![c58_tls_and_mtls];

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = named("authority", Vec::new());
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Certificate and key for a name, in PEM.
    fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = named(name, vec![name.to_owned()]);
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }

    fn file(&self) -> NamedTempFile {
        file(&self.0.pem())
    }

    async fn server(&self, asks_for_clients: bool) -> Fake {
        let (certificate, key) = self.issue("localhost");
        let mut tls = ServerTlsConfig::new().identity(Identity::from_pem(certificate, key));
        if asks_for_clients {
            tls = tls.client_ca_root(Certificate::from_pem(self.0.pem()));
        }
        Fake::start_tls(tls).await
    }
}

/// A name of its own, so that no certificate looks as if it had signed itself.
fn named(name: &str, hosts: Vec<String>) -> CertificateParams {
    let mut params = CertificateParams::new(hosts).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

async fn c58_tls_and_mtls(subject: Subject) {
    let (authority, other) = (Authority::new(), Authority::new().file());
    let ca = authority.file();
    let (certificate, key) = authority.issue("tester");
    let (certificate, key) = (file(&certificate), file(&key));
    let trusting = |fake: &Fake, ca: &NamedTempFile| -> Launch {
        subject.dialing(fake.url()).env("CLAWJOB_CA_FILE", ca.path())
    };

    let mut plain = authority.server(false).await;
    let program = trusting(&plain, &ca).start();
    plain.open().await.heartbeat().await;
    drop(program);

    let mut mutual = authority.server(true).await;
    let program = trusting(&mutual, &ca)
        .env("CLAWJOB_CONFORMANCE_CLIENT_CERT", certificate.path())
        .env("CLAWJOB_CONFORMANCE_CLIENT_KEY", key.path())
        .start();
    mutual.open().await.heartbeat().await;
    drop(program);

    // A server that the program does not trust, and one that asks for a certificate it has not got.
    for (asks_for_clients, ca) in [(false, &other), (true, &ca)] {
        let mut fake = authority.server(asks_for_clients).await;
        let _program = trusting(&fake, ca).start();
        fake.connections(3).await;
        assert_eq!(fake.dials(), 0);
        assert!(fake.has_no_session());
    }
}
