//! Frames on their way up, in two lanes: control frames go ahead of logs and results.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use clawjob_proto::v1::{SessionRequest, session_request::Frame};
use futures::Stream;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Control frames that wait at most; one more ends the session.
const CONTROL_FRAMES_MAX: usize = 4096;
/// Log chunks and results that wait at most; what does not fit stays where it is.
const DATA_FRAMES_MAX: usize = 64;

/// The queue of one session; it ends with it. What has to outlive it is kept elsewhere and queued
/// anew on the next one.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    lanes: Mutex<Lanes>,
    /// Told when a frame has left the data lane.
    space: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Lanes {
    control: VecDeque<Frame>,
    data: VecDeque<Frame>,
    closed: bool,
    waker: Option<Waker>,
}

impl Outbox {
    pub(super) fn new(space: Arc<Notify>) -> Arc<Self> {
        Arc::new(Self { lanes: Mutex::default(), space })
    }

    /// Queues a control frame; false when the lane is full, that is when the peer does not read.
    pub(super) fn control(&self, frame: Frame) -> bool {
        let mut lanes = self.lanes.lock();
        if lanes.control.len() >= CONTROL_FRAMES_MAX {
            return false;
        }
        lanes.control.push_back(frame);
        lanes.wake();
        true
    }

    /// True when the data lane takes another frame.
    pub(super) fn has_space(&self) -> bool {
        self.lanes.lock().data.len() < DATA_FRAMES_MAX
    }

    /// Queues a log chunk or a result; ask [`Outbox::has_space`] before.
    pub(super) fn data(&self, frame: Frame) {
        let mut lanes = self.lanes.lock();
        lanes.data.push_back(frame);
        lanes.wake();
    }

    /// Queues the last frame and ends the stream behind it.
    pub(super) fn close(&self, last: Option<Frame>) {
        let mut lanes = self.lanes.lock();
        lanes.data.extend(last);
        lanes.closed = true;
        lanes.wake();
    }

    /// The stream for the call; made once per outbox.
    pub(super) fn stream(self: &Arc<Self>) -> OutboxStream {
        OutboxStream(self.clone())
    }
}

impl Lanes {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Yields the frames in order of their lanes.
pub(super) struct OutboxStream(Arc<Outbox>);

impl Stream for OutboxStream {
    type Item = SessionRequest;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<SessionRequest>> {
        let mut lanes = self.0.lanes.lock();
        let frame = match lanes.control.pop_front() {
            Some(frame) => frame,
            None => match lanes.data.pop_front() {
                Some(frame) => {
                    self.0.space.notify_one();
                    frame
                }
                None if lanes.closed => return Poll::Ready(None),
                None => {
                    lanes.waker = Some(cx.waker().clone());
                    return Poll::Pending;
                }
            },
        };
        Poll::Ready(Some(SessionRequest { frame: Some(frame) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawjob_proto::v1;
    use futures::StreamExt as _;

    #[tokio::test]
    async fn control_goes_ahead_of_data_and_the_last_frame_comes_last() {
        let outbox = Outbox::new(Arc::default());
        outbox.data(Frame::LogChunk(v1::LogChunk::default()));
        outbox.control(Frame::Heartbeat(v1::Heartbeat::default()));
        outbox.close(Some(Frame::Goodbye(v1::Goodbye::default())));
        let frames: Vec<Frame> =
            outbox.stream().filter_map(|request| async { request.frame }).collect().await;
        assert!(matches!(frames[..], [Frame::Heartbeat(_), Frame::LogChunk(_), Frame::Goodbye(_)]));
    }

    #[test]
    fn both_lanes_are_bounded() {
        let outbox = Outbox::new(Arc::default());
        for _ in 0..CONTROL_FRAMES_MAX {
            assert!(outbox.control(Frame::Heartbeat(v1::Heartbeat::default())));
        }
        assert!(!outbox.control(Frame::Heartbeat(v1::Heartbeat::default())));
        for _ in 0..DATA_FRAMES_MAX {
            assert!(outbox.has_space());
            outbox.data(Frame::LogChunk(v1::LogChunk::default()));
        }
        assert!(!outbox.has_space());
    }
}
