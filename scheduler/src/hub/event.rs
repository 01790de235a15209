//! What sessions tell the rest of the scheduler, and the bounded channel it goes through.

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::settings::{EVENT_QUEUE_KIB_MAX, EVENT_QUEUE_MAX};
use crate::model::{
    Payload,
    executor::ExecutorRef,
    ids::{AppId, AttemptRef},
    log::LogRecord,
    run::{Failure, Outcome},
};

/// The session an event came from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Its app.
    pub app: AppId,
    /// The executor's name.
    pub executor: Arc<str>,
    /// The executor's row.
    pub row: i64,
    /// The session's epoch.
    pub epoch: u64,
}

impl Origin {
    /// The executor, whichever session of it.
    pub fn executor_ref(&self) -> ExecutorRef {
        ExecutorRef { app: self.app, name: self.executor.clone() }
    }
}

/// What a RunResult said, cut to the limits and cleaned.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptResult {
    /// How it ended.
    pub outcome: Outcome,
    /// What the handler returned.
    pub output: Option<Payload>,
    /// The output was cut, here or by the executor.
    pub output_truncated: bool,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// Handler's begin on the executor's clock.
    pub started_at: Option<DateTime<Utc>>,
    /// Measured by the executor.
    pub duration: Option<Duration>,
    /// Number of its last log record.
    pub last_log_seq: u64,
}

/// Why an executor did not take a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Decline {
    /// No slot free, or an earlier attempt has not stopped yet.
    Busy {
        /// Try again then.
        retry_after: Option<Duration>,
    },
    /// It is about to leave.
    Draining,
    /// It can't run this.
    Rejected(Failure),
}

/// Something a session found out about an attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum EventKind {
    /// The executor has it (RunAck, or a frame that implies it).
    Acked {
        /// When that was received.
        at: DateTime<Utc>,
    },
    /// The executor did not take it.
    Declined {
        /// The handler it was for, when known.
        handler: Option<Arc<str>>,
        /// Why.
        why: Decline,
    },
    /// Evidence that it never began there (R3).
    NotHeld,
    /// It had begun there and is gone without a result.
    Lost {
        /// In one line, for the run's page.
        why: &'static str,
    },
    /// Its end.
    Finished {
        /// The ack of this attempt, when this node received it.
        acked_at: Option<DateTime<Utc>>,
        /// When this node received the result.
        received_at: DateTime<Utc>,
        /// What was said.
        result: Box<AttemptResult>,
    },
    /// KillAck NOT_FOUND.
    KillNotFound,
    /// How far it is.
    Progress {
        /// 0..1.
        fraction: Option<f32>,
        /// In words.
        message: String,
        /// For the next attempt.
        checkpoint: Option<Payload>,
    },
    /// Log records.
    Logs {
        /// Numbered.
        records: Vec<LogRecord>,
        /// Dropped just before by the executor.
        dropped: u64,
    },
    /// The executor runs it and this session knows nothing of it: is it still wanted?
    Unknown,
}

/// An event of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionEvent {
    /// Where it came from.
    pub origin: Arc<Origin>,
    /// The attempt it is about.
    pub attempt: AttemptRef,
    /// What happened.
    pub kind: EventKind,
}

impl SessionEvent {
    /// Memory it holds, in KiB and at least 1.
    fn cost_kib(&self) -> u32 {
        let payload = |payload: &Option<Payload>| payload.as_ref().map_or(0, |p| p.data.len());
        let bytes = match &self.kind {
            EventKind::Finished { result, .. } => {
                payload(&result.output)
                    + result.failure.as_ref().map_or(0, |f| f.message.len() + f.stack.len())
            }
            EventKind::Progress { message, checkpoint, .. } => message.len() + payload(checkpoint),
            EventKind::Logs { records, .. } => records.iter().map(record_bytes).sum(),
            _ => 0,
        };
        u32::try_from(bytes / 1024).unwrap_or(u32::MAX).clamp(1, EVENT_QUEUE_KIB_MAX / 4)
    }
}

fn record_bytes(record: &LogRecord) -> usize {
    64 + record.message.len() + record.fields.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>()
}

/// An event with its share of the channel's memory, given back when this is dropped.
#[derive(Debug)]
pub struct Charged {
    event: SessionEvent,
    share: OwnedSemaphorePermit,
}

impl Charged {
    /// The event, and its share of the memory to be held for as long as the event is.
    pub fn into_parts(self) -> (SessionEvent, OwnedSemaphorePermit) {
        (self.event, self.share)
    }
}

/// The sending side. Bounded in events and in bytes: whoever can't send waits, and stops reading
/// its executor for so long.
#[derive(Clone, Debug)]
pub struct EventSender {
    queue: mpsc::Sender<Charged>,
    memory: Arc<Semaphore>,
}

/// The receiving side.
pub type EventReceiver = mpsc::Receiver<Charged>;

/// Makes the channel.
pub fn channel() -> (EventSender, EventReceiver) {
    let (queue, receiver) = mpsc::channel(EVENT_QUEUE_MAX);
    let memory = Arc::new(Semaphore::new(EVENT_QUEUE_KIB_MAX as usize));
    (EventSender { queue, memory }, receiver)
}

impl EventSender {
    /// Sends without waiting; gives the event back when there is no room.
    ///
    /// # Errors
    /// The event itself.
    pub fn try_send(&self, event: SessionEvent) -> Result<(), SessionEvent> {
        let Ok(share) = self.memory.clone().try_acquire_many_owned(event.cost_kib()) else {
            return Err(event);
        };
        self.queue.try_send(Charged { event, share }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(charged)
            | mpsc::error::TrySendError::Closed(charged) => charged.event,
        })
    }

    /// Sends, waiting for room. False: the receiver is gone, the process ends.
    pub async fn send(&self, event: SessionEvent) -> bool {
        let Ok(share) = self.memory.clone().acquire_many_owned(event.cost_kib()).await else {
            return false;
        };
        self.queue.send(Charged { event, share }).await.is_ok()
    }
}
