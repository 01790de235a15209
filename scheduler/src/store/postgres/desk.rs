//! Work that is handed to a task of its own, which takes together what came together.

use tokio::sync::{mpsc, oneshot};

use crate::store::{Result, StoreError};

/// What is asked for, and whom to tell what became of it. Whoever stopped waiting need not know.
pub(super) struct Order<T, A> {
    pub(super) what: T,
    pub(super) done: oneshot::Sender<Result<A>>,
}

/// Takes orders.
pub(super) struct Desk<T, A>(mpsc::Sender<Order<T, A>>);

impl<T, A> Desk<T, A> {
    /// Hands out the desk and what its task needs. Beyond `waiting_max` orders further callers wait for
    /// room.
    pub(super) fn new(waiting_max: usize) -> (Self, mpsc::Receiver<Order<T, A>>) {
        let (orders, taken) = mpsc::channel(waiting_max);
        (Self(orders), taken)
    }

    /// Returns what became of it.
    ///
    /// # Errors
    /// The task's; `Unavailable` once the store is closed.
    pub(super) async fn ask(&self, what: T) -> Result<A> {
        let closed = || StoreError::Unavailable("the store is closed".to_owned());
        let (done, answer) = oneshot::channel();
        self.0.send(Order { what, done }).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }
}
