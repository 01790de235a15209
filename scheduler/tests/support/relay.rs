//! A way between two ends that can be cut as a network is: without a word to either of them.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]

use std::net::SocketAddr;

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

/// Forwards connections to one address at a time until it is cut.
pub struct Relay {
    address: SocketAddr,
    target: watch::Sender<String>,
    state: watch::Sender<State>,
    accepting: JoinHandle<()>,
}

/// How many cuts there were, and whether what comes now passes.
#[derive(Clone, Copy, Default)]
struct State {
    cuts: u32,
    is_cut: bool,
}

impl Relay {
    /// To the host and port of a URL.
    pub async fn to(url: &str) -> Self {
        Self::to_host(url.strip_prefix("http://").expect("plain HTTP")).await
    }

    /// To `HOST:PORT`.
    pub async fn to_host(host: &str) -> Self {
        let (target, targets) = watch::channel(host.to_owned());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let state = watch::Sender::new(State::default());
        let watched = state.subscribe();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let target = targets.borrow().clone();
                tokio::spawn(forward(stream, target, watched.clone()));
            }
        });
        Self { address, target, state, accepting }
    }

    /// From now on new connections go to this `HOST:PORT`.
    pub fn lead_to(&self, host: &str) {
        self.target.send_replace(host.to_owned());
    }

    /// The port to dial on the loopback.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Where to dial.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on nothing passes, and nobody is told: neither end of any connection is closed.
    pub fn cut(&self) {
        self.state.send_modify(|state| *state = State { cuts: state.cuts + 1, is_cut: true });
    }

    /// New connections pass again; what was cut stays so.
    pub fn heal(&self) {
        self.state.send_modify(|state| state.is_cut = false);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn forward(mut near: TcpStream, target: String, mut state: watch::Receiver<State>) {
    let begun = *state.borrow_and_update();
    let far = async {
        if begun.is_cut {
            return;
        }
        let Ok(mut far) = TcpStream::connect(&target).await else { return };
        let _ = near.set_nodelay(true).and(far.set_nodelay(true));
        tokio::select! {
            _ = copy_bidirectional(&mut near, &mut far) => {}
            () = cut(state.clone(), begun.cuts) => hold(&mut state).await,
        }
    };
    far.await;
    if begun.is_cut {
        hold(&mut state).await;
    }
}

/// Returns at the next cut, or when the relay is gone.
async fn cut(mut state: watch::Receiver<State>, cuts: u32) {
    let _ = state.wait_for(|state| state.cuts > cuts).await;
}

/// Keeps what the caller has open until the relay is gone.
async fn hold(state: &mut watch::Receiver<State>) {
    while state.changed().await.is_ok() {}
}
