//! Streams to clients: a bounded queue between a task and its reader.

use std::{sync::Arc, time::Duration};

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::{auth::Auth, caller::Caller, status::ApiResult};

/// How often a stream asks whether its caller's token still holds. Together with the time that a
/// token is believed it is less than a minute until a stream ends.
pub const RECHECK_INTERVAL: Duration = Duration::from_secs(15);

/// Messages that wait for a slow reader; then the task that makes them waits, too.
pub const STREAM_QUEUE_MAX: usize = 64;

/// Keeps asking whether a stream's caller may go on.
pub struct Watchdog {
    auth: Arc<Auth>,
    caller: Caller,
    next: Duration,
}

impl Watchdog {
    /// For a caller whose token was checked at `elapsed` on the monotonic clock.
    pub fn new(auth: Arc<Auth>, caller: Caller, elapsed: Duration) -> Self {
        Self { auth, caller, next: elapsed + RECHECK_INTERVAL }
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

/// The end that is filled and the stream that is sent. The filling task sees that its client has
/// gone by the closed queue.
pub fn event_stream<T>() -> (mpsc::Sender<Result<T, Status>>, EventStream<T>) {
    let (sender, receiver) = mpsc::channel(STREAM_QUEUE_MAX);
    (sender, ReceiverStream::new(receiver))
}
