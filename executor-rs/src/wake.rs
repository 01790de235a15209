//! How handlers tell the session's thread that something of theirs waits to be sent.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::engine::Key;

/// The attempts with something to send. An attempt is in the list once at most, so the list is
/// bounded by the attempts held.
#[derive(Debug, Default)]
pub(crate) struct Wake {
    keys: Mutex<Vec<Key>>,
    urgent: AtomicBool,
    notify: Notify,
}

/// One attempt's way to be put on the list.
#[derive(Debug)]
pub(crate) struct Waker {
    key: Key,
    listed: AtomicBool,
    wake: std::sync::Arc<Wake>,
}

impl Wake {
    /// Waits until some attempt is listed.
    pub(crate) async fn wait(&self) {
        self.notify.notified().await;
    }

    /// Empties the list; true when one of the attempts asks for no delay.
    pub(crate) fn take(&self) -> (Vec<Key>, bool) {
        let keys = std::mem::take(&mut *self.keys.lock());
        (keys, self.urgent.swap(false, Ordering::AcqRel))
    }
}

impl Waker {
    pub(crate) fn new(key: Key, wake: std::sync::Arc<Wake>) -> Self {
        Self { key, listed: AtomicBool::new(false), wake }
    }

    /// Lists the attempt. `urgent` means now rather than with the next batch.
    pub(crate) fn list(&self, urgent: bool) {
        if !self.listed.swap(true, Ordering::AcqRel) {
            self.wake.keys.lock().push(self.key.clone());
            self.wake.notify.notify_one();
        }
        if urgent && !self.wake.urgent.swap(true, Ordering::AcqRel) {
            self.wake.notify.notify_one();
        }
    }

    /// The session's thread has taken the attempt from the list; what comes later lists it again.
    pub(crate) fn taken(&self) {
        self.listed.store(false, Ordering::Release);
    }
}
