//! Frames on their way to one executor: a bounded queue that never makes its sender wait.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use clawjob_proto::v1::SessionResponse;
use futures::Stream;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::settings::{SESSION_RUN_QUEUE_MAX, SESSION_SEND_QUEUE_HARD_MAX, SESSION_SEND_QUEUE_MAX};

/// Frames for which an empty queue keeps its room.
const ROOM_KEPT: usize = 8;

/// Frames on their way to one executor.
#[derive(Debug)]
pub struct Outbox {
    inner: Mutex<Inner>,
    /// Told when there is room for runs again.
    capacity: Arc<Notify>,
    /// Told when the queue falls under its bound, and when the reading side is gone.
    pub(super) drained: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    queue: VecDeque<SessionResponse>,
    full_since: Option<Duration>,
    finished: bool,
    abandoned: bool,
    reader: Option<Waker>,
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It is on its way.
    Sent,
    /// The queue is at its hard bound, or finished: the frame is gone.
    Dropped,
}

impl Outbox {
    /// An empty one that tells `capacity` when there is room for runs again.
    pub fn new(capacity: Arc<Notify>) -> Self {
        Self { inner: Mutex::default(), capacity, drained: Notify::new() }
    }

    /// Queues a frame. `elapsed` notes since when the queue is full.
    pub fn push(&self, frame: SessionResponse, elapsed: Duration) -> Pushed {
        let mut inner = self.inner.lock();
        if inner.finished || inner.abandoned || inner.queue.len() >= SESSION_SEND_QUEUE_HARD_MAX {
            return Pushed::Dropped;
        }
        inner.queue.push_back(frame);
        if inner.queue.len() >= SESSION_SEND_QUEUE_MAX && inner.full_since.is_none() {
            inner.full_since = Some(elapsed);
        }
        if let Some(reader) = inner.reader.take() {
            reader.wake();
        }
        Pushed::Sent
    }

    /// Ends the stream after `last`, which is sent whatever waits before it.
    pub fn finish(&self, last: Option<SessionResponse>) {
        let mut inner = self.inner.lock();
        if !inner.finished {
            inner.queue.extend(last);
            inner.finished = true;
        }
        if let Some(reader) = inner.reader.take() {
            reader.wake();
        }
    }

    /// How many RunCommands it can take now.
    pub fn room_for_runs(&self) -> usize {
        let inner = self.inner.lock();
        if inner.finished || inner.abandoned {
            return 0;
        }
        SESSION_RUN_QUEUE_MAX.saturating_sub(inner.queue.len())
    }

    /// Since when the queue has been full without a break.
    pub fn full_since(&self) -> Option<Duration> {
        self.inner.lock().full_since
    }

    /// Nothing more is read from it: finished and empty, or the connection is gone.
    pub fn is_over(&self) -> bool {
        let inner = self.inner.lock();
        inner.abandoned || (inner.finished && inner.queue.is_empty())
    }

    /// Returns when nothing more will be read from it.
    pub async fn over(&self) {
        loop {
            let told = self.drained.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            if self.is_over() {
                return;
            }
            told.await;
        }
    }

    /// Returns when the queue is under its bound, or nothing more will be read from it.
    pub async fn has_room(&self) {
        loop {
            let told = self.drained.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            if self.full_since().is_none() || self.is_over() {
                return;
            }
            told.await;
        }
    }

    /// Takes all that waits, as a reader without a socket does.
    pub fn take(&self) -> Vec<SessionResponse> {
        let frames = {
            let mut inner = self.inner.lock();
            inner.full_since = None;
            std::mem::take(&mut inner.queue)
        };
        self.drained.notify_waiters();
        self.capacity.notify_one();
        frames.into()
    }

    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<SessionResponse>> {
        let mut inner = self.inner.lock();
        let Some(frame) = inner.queue.pop_front() else {
            inner.queue.shrink_to(ROOM_KEPT);
            if inner.finished {
                drop(inner);
                self.drained.notify_waiters();
                return Poll::Ready(None);
            }
            inner.reader = Some(cx.waker().clone());
            return Poll::Pending;
        };
        // Wake senders once there is real room, not for every frame.
        let tell = inner.queue.len() == SESSION_RUN_QUEUE_MAX / 2
            || (inner.full_since.is_some() && inner.queue.len() < SESSION_SEND_QUEUE_MAX);
        if inner.queue.len() < SESSION_SEND_QUEUE_MAX {
            inner.full_since = None;
        }
        drop(inner);
        if tell {
            self.drained.notify_waiters();
            self.capacity.notify_one();
        }
        Poll::Ready(Some(frame))
    }

    fn abandon(&self) {
        {
            let mut inner = self.inner.lock();
            inner.abandoned = true;
            inner.queue.clear();
        }
        self.drained.notify_waiters();
    }
}

/// The one reader of an outbox; dropping it says that the connection is gone.
#[derive(Debug)]
pub struct OutboxStream(pub Arc<Outbox>);

impl Stream for OutboxStream {
    type Item = SessionResponse;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<SessionResponse>> {
        self.0.poll_next(cx)
    }
}

impl Drop for OutboxStream {
    fn drop(&mut self) {
        self.0.abandon();
    }
}
