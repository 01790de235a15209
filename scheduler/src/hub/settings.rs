//! Timings and limits of sessions. Defaults are the contract's table; tests scale them down.

use std::{sync::Arc, time::Duration};

use parking_lot::RwLock;

/// Frames that may wait for one executor to read them. Full for [`OUTBOX_PATIENCE`]: closed.
pub const SESSION_SEND_QUEUE_MAX: usize = 256;
/// Of those, how many RunCommands may take: the rest is kept for acks and kills.
pub const SESSION_RUN_QUEUE_MAX: usize = 192;
/// Frames at which a session is closed at once: answers to what it sends without reading.
pub const SESSION_SEND_QUEUE_HARD_MAX: usize = 1024;
/// How long the queue of one executor may be full.
pub const OUTBOX_PATIENCE: Duration = Duration::from_secs(5);
/// Events of all sessions that may wait to be written.
pub const EVENT_QUEUE_MAX: usize = 16_384;
/// KiB of payload in those events, over all sessions.
pub const EVENT_QUEUE_KIB_MAX: u32 = 64 * 1024;
/// Handlers in one Hello.
pub const HANDLERS_MAX: usize = 1_000;
/// Labels in one Hello.
pub const LABELS_MAX: usize = 64;
/// Bytes of a label's key or value, and of every short text in Hello.
pub const LABEL_BYTES_MAX: usize = 256;
/// Bytes of a handler's params schema.
pub const PARAMS_SCHEMA_BYTES_MAX: usize = 32 * 1024;
/// Bytes of all handlers of one Hello together, names, schemas and descriptions: they are kept with
/// the executor, connected or not.
pub const HANDLERS_BYTES_MAX: usize = 256 * 1024;
/// Slots of one executor.
pub const SLOTS_MAX: u32 = 100_000;
/// Executors of one app, connected or not. A cluster may be over it by a few that came at once.
pub const APP_EXECUTORS_MAX: u32 = 20_000;
/// When an executor that its app has no room for may ask again.
pub const APP_FULL_RETRY_AFTER: Duration = Duration::from_secs(60);
/// Attempts listed in one Hello or Heartbeat that are looked at.
pub const LISTED_ATTEMPTS_MAX: usize = 100_000;
/// Highest number of a log record: 34 years of a thousand a second. What is added to such a number
/// over the dispatches of an attempt stays within the 63 bits that databases have.
pub const LOG_SEQ_MAX: u64 = 1 << 40;
/// Highest number of a command that an executor may say it has: the numbers go on from there.
pub const COMMAND_SEQ_MAX: u64 = 1 << 62;
/// Runs of one attempt's log that are stored, in bytes.
pub const ATTEMPT_LOG_BYTES_MAX: u64 = 10 * 1024 * 1024;
/// A session that grew too old: when its executor dials anew, and when the old stream is closed.
pub const MOVE_WITHIN: Duration = Duration::from_secs(2);
/// See [`MOVE_WITHIN`].
pub const MOVE_CLOSES_AFTER: Duration = Duration::from_secs(20);
/// How long an executor is passed over for a handler it said it does not have, and after a BUSY
/// without a time of its own.
pub const REFUSAL_PAUSE: Duration = Duration::from_secs(1);
/// How long the memory of an ended session is kept for its process to come back to: longer than any
/// job may wait for a lost executor.
pub const PARTED_KEPT: Duration = Duration::from_secs(25 * 3600);

/// For so long after it was seen alive a node vouches for what it hears: others may count an
/// executor's silence from that moment. Executors allow for it: under DISCONNECT_POLICY_STOP they end
/// their runs this much before those are sent elsewhere.
pub const VOUCHED_FOR: Duration = Duration::from_secs(2);
/// A node that was not seen alive for so long, while others are, asks its executors to move there.
pub const ADRIFT_AFTER: Duration = Duration::from_secs(5);

/// The sessions of such a node are kept for so long, should no other node take their executors.
pub const ADRIFT_CLOSES_AFTER: Duration = Duration::from_secs(24 * 3600);

/// What a node was last told of the cluster it is part of.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// Addresses of the other nodes, for Welcome and SchedulerDrain; they come and go.
    pub peer_endpoints: Vec<String>,
    /// Whether there are other nodes.
    pub has_others: bool,
    /// Until when, by the monotonic clock, the others saw this node alive for certain; None where a
    /// node is always alone.
    pub seen_at: Option<Duration>,
    /// When, by the monotonic clock, the database last answered who lives; None as above.
    pub answered_at: Option<Duration>,
}

impl Cluster {
    /// Of a node that shares a database which it has reached at `elapsed`. A first session may come
    /// before the first word of who lives, and that word may not come any more: so it counts as seen
    /// then, not as alone.
    pub fn joining(elapsed: Duration) -> Self {
        Self { seen_at: Some(elapsed), answered_at: Some(elapsed), ..Self::default() }
    }

    /// The database answered what was asked at `asked`, and named this node among the living or not. One
    /// that it never names is not shared: a busy machine may come late to it, and nothing is out of reach.
    pub fn answered(&mut self, asked: Duration, lives: bool) {
        if lives {
            self.seen_at = Some(asked);
        }
        if self.seen_at.is_some() {
            self.answered_at = Some(asked);
        }
    }

    /// Whether the others count an executor that is heard at `elapsed` as heard.
    pub fn vouches_at(&self, elapsed: Duration) -> bool {
        self.seen_at.is_none_or(|seen| elapsed <= seen + VOUCHED_FOR)
    }

    /// Whether a session that begins can be written, and is worth as much as at another node. A node
    /// that is alone takes it also while it can't hold its locks.
    pub fn takes_sessions_at(&self, elapsed: Duration) -> bool {
        let answers = self.answered_at.is_none_or(|at| elapsed < at + ADRIFT_AFTER);
        answers && (!self.has_others || self.vouches_at(elapsed))
    }

    /// Whether the others go on without this node; `was` says whether they did until now, since
    /// nobody has others to go to while all come and go.
    pub fn is_adrift_at(&self, elapsed: Duration, was: bool) -> bool {
        let is_unseen = self.seen_at.is_some_and(|seen| elapsed >= seen + ADRIFT_AFTER);
        is_unseen && (was || self.has_others)
    }
}

/// Timings and limits of sessions.
#[derive(Clone, Debug)]
pub struct HubSettings {
    /// This node's id, for Welcome.
    pub node_id: String,
    /// The latest word of the cluster.
    pub cluster: Arc<RwLock<Cluster>>,
    /// How often executors send a Heartbeat.
    pub heartbeat_interval: Duration,
    /// Silence after which a session is SUSPECT; twice as long ends it.
    pub heartbeat_timeout: Duration,
    /// Out of contact for this long, the scheduler gives an attempt up, unless its job or app says
    /// otherwise.
    pub lost_after: Duration,
    /// A RunCommand without an answer for this long is sent again, then the session is closed.
    pub run_ack_timeout: Duration,
    /// A KillCommand without an answer for this long is sent again.
    pub kill_ack_resend: Duration,
    /// A KillCommand without an answer for this long ends the session.
    pub kill_ack_evict: Duration,
    /// A session this old, ± 20 %, is asked to move, before a load balancer cuts it; None: never.
    pub session_max_age: Option<Duration>,
    /// First frame must come within this time.
    pub hello_timeout: Duration,
    /// New sessions per second; others are told to come back later.
    pub admit_per_second: u32,
    /// Sessions at once on this node.
    pub max_sessions: usize,
    /// Executors of one app, connected or not.
    pub app_executors_max: u32,
    /// Bytes of one frame, for Welcome.
    pub max_frame_bytes: u32,
    /// Bytes of one output; longer ones are cut.
    pub max_output_bytes: u32,
    /// Bytes of one checkpoint; longer ones are dropped.
    pub max_checkpoint_bytes: u32,
    /// Bytes of a failure's stack and, separately, of its message.
    pub max_stack_bytes: u32,
    /// Bytes of one LogChunk.
    pub max_log_chunk_bytes: u32,
    /// Bytes of log in flight per session.
    pub log_window_bytes: u32,
    /// How often the tokens of open sessions are looked up again.
    pub token_check_interval: Duration,
    /// How often signs of life are written to the store.
    pub touch_interval: Duration,
}

impl HubSettings {
    /// Silence from which a heartbeat is overdue: half an interval more than the interval, which
    /// executors vary by a tenth.
    pub fn silence(&self) -> Duration {
        self.heartbeat_interval * 3 / 2
    }
}

impl Default for HubSettings {
    fn default() -> Self {
        Self {
            node_id: String::new(),
            cluster: Arc::default(),
            heartbeat_interval: Duration::from_secs(3),
            heartbeat_timeout: Duration::from_secs(7),
            lost_after: Duration::from_secs(60),
            run_ack_timeout: Duration::from_secs(5),
            kill_ack_resend: Duration::from_secs(5),
            kill_ack_evict: Duration::from_secs(60),
            session_max_age: None,
            hello_timeout: Duration::from_secs(10),
            admit_per_second: 2_000,
            max_sessions: 20_000,
            app_executors_max: APP_EXECUTORS_MAX,
            max_frame_bytes: 1024 * 1024,
            max_output_bytes: 256 * 1024,
            max_checkpoint_bytes: 64 * 1024,
            max_stack_bytes: 16 * 1024,
            max_log_chunk_bytes: 64 * 1024,
            log_window_bytes: 256 * 1024,
            token_check_interval: Duration::from_secs(60),
            touch_interval: Duration::from_secs(10),
        }
    }
}
