//! Sessions over TLS.

use std::io::Write as _;

use clawjob_executor::{ClientIdentity, Executor};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::NamedTempFile;
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

use crate::fake::Fake;
use crate::handlers::{Gate, Running, executor};

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Certificate and key for a name, in PEM.
    fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    fn file(&self) -> NamedTempFile {
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(self.pem().as_bytes()).unwrap();
        file
    }
}

async fn server(authority: &Authority, asks_for_clients: bool) -> Fake {
    let (certificate, key) = authority.issue("localhost");
    let mut tls = ServerTlsConfig::new().identity(Identity::from_pem(certificate, key));
    if asks_for_clients {
        tls = tls.client_ca_root(Certificate::from_pem(authority.pem()));
    }
    Fake::start_tls(tls).await
}

fn dialing(fake: &Fake, gate: &Gate) -> Executor {
    executor(&[format!("https://localhost:{}", fake.addr.port())], gate)
}

#[tokio::test]
async fn c58_a_session_over_tls() {
    let authority = Authority::new();
    let (mut fake, ca, gate) = (server(&authority, false).await, authority.file(), Gate::new());
    let _running = Running::of(dialing(&fake, &gate).ca_file(ca.path()), gate);
    fake.open().await.heartbeat().await;
}

#[tokio::test]
async fn c58_a_session_over_mutual_tls() {
    let authority = Authority::new();
    let (mut fake, ca, gate) = (server(&authority, true).await, authority.file(), Gate::new());
    let (certificate, key) = authority.issue("tester");
    let identity = ClientIdentity { certificate: certificate.into(), key: key.into() };
    let executor = dialing(&fake, &gate).ca_file(ca.path()).client_identity(identity);
    let _running = Running::of(executor, gate);
    fake.open().await.heartbeat().await;
}

#[tokio::test]
async fn c58_strangers_get_no_session() {
    let authority = Authority::new();
    let (other, ca) = (Authority::new().file(), authority.file());
    // A server that the client does not trust, and one that asks for a certificate it has not got.
    for (asks_for_clients, ca) in [(false, other), (true, ca)] {
        let (mut fake, gate) = (server(&authority, asks_for_clients).await, Gate::new());
        let _running = Running::of(dialing(&fake, &gate).ca_file(ca.path()), gate);
        fake.connections(3).await;
        assert_eq!(fake.dials(), 0);
        assert!(fake.has_no_session());
    }
}
