//! A way between two ends that can be cut as a network is: without a word to either of them. What
//! was on its way meanwhile arrives once the cut has healed, as from a kernel that sends again.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Result;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinHandle,
};

/// Bytes carried at once.
const BUFFER_BYTES: usize = 32 * 1024;

/// Which directions are cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Nothing from who dialed arrives.
    pub to_target: bool,
    /// Nothing for who dialed arrives.
    pub from_target: bool,
}

/// Forwards connections to one address.
pub struct Relay {
    address: SocketAddr,
    cut: Arc<watch::Sender<Cut>>,
    accepting: JoinHandle<()>,
}

impl Relay {
    /// To the given address, `HOST:PORT`.
    ///
    /// # Errors
    /// No port is free.
    pub async fn to(target: &str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let cut = Arc::new(watch::Sender::new(Cut::default()));
        let (target, watched) = (target.to_owned(), cut.clone());
        let accepting = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(carry(near, target.clone(), watched.clone()));
            }
        });
        Ok(Self { address, cut, accepting })
    }

    /// Where to dial.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts, or heals.
    pub fn set(&self, cut: Cut) {
        self.cut.send_replace(cut);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn carry(near: TcpStream, target: String, cut: Arc<watch::Sender<Cut>>) {
    // Who dials through a cut hears nothing.
    let mut state = cut.subscribe();
    if state.wait_for(|cut| !cut.to_target && !cut.from_target).await.is_err() {
        return;
    }
    let Ok(far) = TcpStream::connect(&target).await else { return };
    if near.set_nodelay(true).and(far.set_nodelay(true)).is_err() {
        return;
    }
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = far.into_split();
    let there = pump(near_read, far_write, cut.subscribe(), |cut| cut.to_target);
    let back = pump(far_read, near_write, cut.subscribe(), |cut| cut.from_target);
    // The end of either ends both.
    tokio::select! {
        () = there => {}
        () = back => {}
    }
}

/// Carries bytes while the way is whole; while it is cut even the end of the other side is not
/// told.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut state: watch::Receiver<Cut>,
    is_cut: impl Fn(&Cut) -> bool,
) {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = from.read(&mut buffer).await.unwrap_or(0);
        if state.wait_for(|cut| !is_cut(cut)).await.is_err() || read == 0 {
            return;
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const QUICK: Duration = Duration::from_millis(100);
    const LONG: Duration = Duration::from_secs(30);

    async fn echo() -> Result<SocketAddr> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    tokio::io::copy(&mut from, &mut to).await
                });
            }
        });
        Ok(address)
    }

    #[tokio::test]
    async fn what_is_said_during_a_cut_arrives_when_it_has_healed() {
        let relay = Relay::to(&echo().await.unwrap().to_string()).await.unwrap();
        let mut stream = TcpStream::connect(relay.address()).await.unwrap();
        let mut byte = [0];
        stream.write_all(&[1]).await.unwrap();
        stream.read_exact(&mut byte).await.unwrap();
        for cut in [
            Cut { to_target: true, from_target: false },
            Cut { to_target: false, from_target: true },
        ] {
            relay.set(cut);
            stream.write_all(&[2]).await.unwrap();
            let silent = tokio::time::timeout(QUICK, stream.read_exact(&mut byte)).await;
            assert!(silent.is_err(), "it came through {cut:?}");
            relay.set(Cut::default());
            let healed = tokio::time::timeout(LONG, stream.read_exact(&mut byte)).await;
            healed.unwrap().unwrap();
            assert_eq!(byte, [2]);
        }
    }
}
