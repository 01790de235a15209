//! A way between two ends that can stand still as a suspended machine does.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Forwards connections to one address.
pub struct Relay {
    addr: SocketAddr,
    /// How often those that were open have been stopped.
    stops: watch::Sender<u32>,
    accepting: JoinHandle<()>,
}

impl Relay {
    /// A way to that address.
    pub async fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let stops = watch::Sender::new(0);
        let watched = stops.subscribe();
        let accepting = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(forward(near, target, watched.clone()));
            }
        });
        Self { addr, stops, accepting }
    }

    /// What to dial.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Whatever is open passes nothing on any more and stays open; new connections pass.
    pub fn stand_still(&self) {
        self.stops.send_modify(|stops| *stops += 1);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn forward(mut near: TcpStream, target: SocketAddr, mut stops: watch::Receiver<u32>) {
    stops.mark_unchanged();
    let Ok(mut far) = TcpStream::connect(target).await else { return };
    tokio::select! {
        _ = copy_bidirectional(&mut near, &mut far) => {}
        stopped = stops.changed() => if stopped.is_ok() {
            // Held open until the relay is gone.
            while stops.changed().await.is_ok() {}
        }
    }
}
