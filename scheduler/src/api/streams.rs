//! Streams to clients: a bounded queue between a task and its reader.

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

/// Messages that wait for a slow reader; then the task that makes them waits, too.
pub const STREAM_QUEUE_MAX: usize = 64;

/// What a streaming method returns.
pub type EventStream<T> = ReceiverStream<Result<T, Status>>;

/// The end that is filled and the stream that is sent. The filling task sees that its client has
/// gone by the closed queue.
pub fn event_stream<T>() -> (mpsc::Sender<Result<T, Status>>, EventStream<T>) {
    let (sender, receiver) = mpsc::channel(STREAM_QUEUE_MAX);
    (sender, ReceiverStream::new(receiver))
}
