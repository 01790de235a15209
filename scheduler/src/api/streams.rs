//! Streams to clients: a bounded queue between a task and its reader.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::{
    auth::Auth,
    caller::Caller,
    status::{ApiError, ApiResult},
};

/// How often a stream asks whether its caller's token still holds. Together with the time that a
/// token is believed it is less than a minute until a stream ends.
pub const RECHECK_INTERVAL: Duration = Duration::from_secs(15);

/// Messages that wait for a slow reader; then the task that makes them waits, too.
pub const STREAM_QUEUE_MAX: usize = 64;

/// Of messages that may each carry params and an output of 256 KiB only so many wait.
pub const FULL_STREAM_QUEUE_MAX: usize = 4;

/// Watches and log tails that one principal has open on a node. Each keeps messages for a reader
/// that may never come; people who share a console's user or a token stay far below.
pub const STREAMS_PER_PRINCIPAL_MAX: usize = 100;

/// When whoever has too many should try again.
const SEAT_AFTER: Duration = Duration::from_secs(5);

/// Who has how many streams open.
#[derive(Default)]
pub struct Seats {
    taken: Mutex<HashMap<String, usize>>,
}

/// One of them, until it is dropped.
pub struct Seat {
    seats: Arc<Seats>,
    principal: String,
}

impl Seats {
    /// One more for the principal.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED when it has [`STREAMS_PER_PRINCIPAL_MAX`].
    pub fn take(self: &Arc<Self>, principal: String) -> ApiResult<Seat> {
        let mut taken = self.taken.lock();
        let count = taken.entry(principal.clone()).or_default();
        if *count >= STREAMS_PER_PRINCIPAL_MAX {
            let text = format!(
                "{principal} has {STREAMS_PER_PRINCIPAL_MAX} watches and log tails open on this \
                 node; end some of them"
            );
            return Err(ApiError::exhausted("STREAMS_FULL", principal, text, SEAT_AFTER));
        }
        *count += 1;
        Ok(Seat { seats: self.clone(), principal })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken.lock();
        if let Some(count) = taken.get_mut(&self.principal) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.principal);
            }
        }
    }
}

/// Keeps asking whether a stream's caller may go on, and keeps its seat.
pub struct Watchdog {
    auth: Arc<Auth>,
    caller: Caller,
    next: Duration,
    _seat: Seat,
}

impl Watchdog {
    /// For a caller whose token was checked at `elapsed` on the monotonic clock.
    pub fn new(auth: Arc<Auth>, caller: Caller, seat: Seat, elapsed: Duration) -> Self {
        Self { auth, caller, next: elapsed + RECHECK_INTERVAL, _seat: seat }
    }

    /// Asks, if it is time to.
    ///
    /// # Errors
    /// UNAUTHENTICATED when the token does not hold any more: the stream must end.
    pub async fn check(&mut self, elapsed: Duration) -> ApiResult<()> {
        if elapsed < self.next {
            return Ok(());
        }
        self.next = elapsed + RECHECK_INTERVAL;
        self.auth.still_holds(&self.caller).await
    }
}

/// What a streaming method returns.
pub type EventStream<T> = ReceiverStream<Result<T, Status>>;

/// The end that is filled and the stream that is sent, with room for `queue` messages between them.
/// The filling task sees that its client has gone by the closed queue.
pub fn event_stream<T>(queue: usize) -> (mpsc::Sender<Result<T, Status>>, EventStream<T>) {
    let (sender, receiver) = mpsc::channel(queue);
    (sender, ReceiverStream::new(receiver))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_principal_has_so_many_streams_and_gets_one_back_when_it_ends() {
        let seats = Arc::new(Seats::default());
        let take = |who: &str| seats.take(who.to_owned());
        let mut held: Vec<Seat> =
            (0..STREAMS_PER_PRINCIPAL_MAX).map(|_| take("tokens/a").expect("a seat")).collect();
        let refused = take("tokens/a").map(drop).expect_err("one too many");
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
        let _other = take("tokens/b").expect("another one has seats of its own");
        held.pop();
        held.push(take("tokens/a").expect("the seat that is free again"));
        held.clear();
        assert_eq!(seats.taken.lock().len(), 1, "who has none is forgotten");
    }
}
