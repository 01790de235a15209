//! A connected executor as an operator sees it.

use chrono::{DateTime, Utc};

use super::{Hub, session::Vitals};
use crate::model::ids::{AppId, AttemptRef};

/// Liveness as this node judges it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveState {
    /// All is well.
    Online,
    /// Silent for longer than the heartbeat timeout.
    Suspect,
    /// It, or this node, is about to leave.
    Draining,
}

/// A connected executor as an operator sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveExecutor {
    /// How it is.
    pub state: LiveState,
    /// Name of its session.
    pub session_id: String,
    /// Epoch of its session.
    pub epoch: u64,
    /// Slots in all.
    pub slots: u32,
    /// Slots it could use now.
    pub free_slots: u32,
    /// Attempts that run in it.
    pub running: Vec<AttemptRef>,
    /// When its session began.
    pub connected_at: DateTime<Utc>,
    /// The last frame of any kind.
    pub heard_at: DateTime<Utc>,
    /// Figures of its last Heartbeat.
    pub vitals: Vitals,
    /// How often it came back within the last hour.
    pub reconnects_last_hour: u32,
}

impl Hub {
    /// A connected executor as it is now; None when it has no session here.
    pub fn snapshot(&self, app: AppId, executor: &str) -> Option<LiveExecutor> {
        let link = self.current(app, executor)?;
        let reconnects = self.table.read().reconnects(app, executor, self.clock.elapsed());
        let session = link.session.lock();
        let state = if session.is_suspect() {
            LiveState::Suspect
        } else if session.is_draining() {
            LiveState::Draining
        } else {
            LiveState::Online
        };
        Some(LiveExecutor {
            state,
            session_id: link.session_id.clone(),
            epoch: link.origin.epoch,
            slots: session.slots(),
            free_slots: session.free_slots(),
            running: session.running(),
            connected_at: session.connected_at(),
            heard_at: session.heard().wall,
            vitals: session.vitals().clone(),
            reconnects_last_hour: reconnects,
        })
    }
}
