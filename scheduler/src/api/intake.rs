//! Request messages, each read whole within bounds of bytes and time, and all that are read or
//! answered at once within bounds of the process.
//!
//! Those of callers without a credential have a room of their own: what strangers fill leaves the
//! others as much as before.

use std::{sync::Arc, time::Duration};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    REQUEST_BYTES_MAX,
    gate::malformed,
    status::{ApiError, ApiResult},
};
use crate::clock::Clock;

/// How long the message of a unary call may take to arrive.
pub const REQUEST_READ_MAX: Duration = Duration::from_secs(30);
/// Bytes of a message that needs no credential: a sign-in is the largest of them.
pub const OPEN_REQUEST_BYTES_MAX: usize = 4 * 1024;
/// Bytes of all messages that are read or answered at once: sixteen of the largest.
pub const REQUESTS_BYTES_MAX: usize = 16 * REQUEST_BYTES_MAX;
/// The same for messages that need no credential: two thousand of the largest.
pub const OPEN_REQUESTS_BYTES_MAX: usize = 2_000 * OPEN_REQUEST_BYTES_MAX;
/// When a caller that found no room should try again.
const ROOM_AFTER: Duration = Duration::from_secs(1);

/// Who may send a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// Anybody.
    Anybody,
    /// A caller with a credential that holds.
    Known,
}

/// Reads request messages.
pub struct Intake {
    clock: Arc<dyn Clock>,
    known: Arc<Semaphore>,
    anybody: Arc<Semaphore>,
}

/// A message's part of the room, given back with the last copy of it.
#[derive(Clone)]
pub struct Share {
    _bytes: Arc<OwnedSemaphorePermit>,
}

impl Intake {
    /// With all its room.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let room = |bytes| Arc::new(Semaphore::new(bytes));
        Self { clock, known: room(REQUESTS_BYTES_MAX), anybody: room(OPEN_REQUESTS_BYTES_MAX) }
    }

    /// A whole body: a message with `envelope` bytes around it.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when it is longer than its sender's may be, breaks off or takes too long;
    /// RESOURCE_EXHAUSTED when there is no room for it.
    pub async fn read(
        &self,
        body: Body,
        sender: Sender,
        envelope: usize,
    ) -> ApiResult<(Bytes, Share)> {
        tokio::select! {
            read = self.gather(body, sender, envelope) => read,
            () = self.clock.wait(REQUEST_READ_MAX) => {
                let text = format!("the request did not arrive within {REQUEST_READ_MAX:?}");
                Err(malformed(&text))
            }
        }
    }

    async fn gather(
        &self,
        mut body: Body,
        sender: Sender,
        envelope: usize,
    ) -> ApiResult<(Bytes, Share)> {
        let (max, room) = match sender {
            Sender::Anybody => (OPEN_REQUEST_BYTES_MAX, &self.anybody),
            Sender::Known => (REQUEST_BYTES_MAX, &self.known),
        };
        let mut share = part_of(room, 0)?;
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| malformed("the request broke off"))?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > max + envelope {
                let text = format!("the request is larger than {max} bytes");
                return Err(ApiError::invalid("", "MESSAGE_TOO_LARGE", text));
            }
            share.merge(part_of(room, data.len())?);
            bytes.extend_from_slice(&data);
        }
        Ok((bytes.freeze(), Share { _bytes: Arc::new(share) }))
    }
}

fn part_of(room: &Arc<Semaphore>, bytes: usize) -> ApiResult<OwnedSemaphorePermit> {
    let part = u32::try_from(bytes).ok().and_then(|n| room.clone().try_acquire_many_owned(n).ok());
    part.ok_or_else(|| {
        let text = "too many bytes of requests are on their way to this node; try again later";
        ApiError::exhausted("REQUESTS_FULL", "request bytes", text, ROOM_AFTER)
    })
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use chrono::DateTime;
    use futures::{StreamExt as _, poll, stream};
    use tonic::Code;

    use super::*;
    use crate::clock::ManualClock;

    fn intake() -> (Intake, Arc<ManualClock>) {
        let clock = ManualClock::new(DateTime::UNIX_EPOCH);
        (Intake::new(clock.clone()), clock)
    }

    /// Sends so many bytes, and then neither more nor an end.
    fn stalled(bytes: usize) -> Body {
        let sent = stream::once(async move { Ok::<_, std::io::Error>(vec![b'x'; bytes]) });
        Body::from_stream(sent.chain(stream::pending()))
    }

    fn of(read: ApiResult<(Bytes, Share)>) -> (Code, &'static str) {
        let error = read.map(|(bytes, _)| bytes.len()).expect_err("refused");
        (error.code(), error.reason())
    }

    #[tokio::test]
    async fn what_is_on_its_way_at_once_is_bounded_and_makes_room_when_it_ends() {
        let (intake, _clock) = intake();
        let full = (Code::ResourceExhausted, "REQUESTS_FULL");
        for (sender, max, all) in [
            (Sender::Known, REQUEST_BYTES_MAX, REQUESTS_BYTES_MAX),
            (Sender::Anybody, OPEN_REQUEST_BYTES_MAX, OPEN_REQUESTS_BYTES_MAX),
        ] {
            let mut stuck = Vec::new();
            for _ in 0..all / max {
                let mut read = Box::pin(intake.read(stalled(max), sender, 0));
                assert!(poll!(&mut read).is_pending());
                stuck.push(read);
            }
            let read = intake.read(Body::from("x"), sender, 0).await;
            assert_eq!(of(read), full, "{sender:?}");
            drop(stuck.pop());
            let (bytes, share) =
                intake.read(Body::from(vec![0; max]), sender, 0).await.expect("fits");
            assert_eq!(bytes.len(), max);
            let read = intake.read(Body::from("x"), sender, 0).await;
            assert_eq!(of(read), full, "a message counts until it is answered");
            drop(share);
            intake.read(Body::from("x"), sender, 0).await.expect("has room again");
            let other = match sender {
                Sender::Known => Sender::Anybody,
                Sender::Anybody => Sender::Known,
            };
            intake.read(Body::from("x"), other, 0).await.expect("has a room of its own");
        }
    }

    #[tokio::test]
    async fn a_message_is_refused_as_soon_as_it_is_too_long_or_too_late() {
        let (intake, clock) = intake();
        for (sender, max) in
            [(Sender::Anybody, OPEN_REQUEST_BYTES_MAX), (Sender::Known, REQUEST_BYTES_MAX)]
        {
            intake.read(Body::from(vec![0; max + 5]), sender, 5).await.expect("at the bound");
            let read = intake.read(stalled(max + 6), sender, 5).await;
            assert_eq!(of(read), (Code::InvalidArgument, "MESSAGE_TOO_LARGE"));
        }
        let mut late = pin!(intake.read(stalled(1), Sender::Anybody, 0));
        assert!(poll!(&mut late).is_pending());
        clock.advance(REQUEST_READ_MAX);
        assert_eq!(of(late.await), (Code::InvalidArgument, "REQUEST_MALFORMED"));
    }
}
