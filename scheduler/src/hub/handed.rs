//! The hub for other nodes: what its sessions can take, and the runs that were handed to it.

use std::sync::Arc;

use super::{
    Hub, Link,
    event::{EventKind, Origin, SessionEvent},
};
use crate::{
    model::ids::{AppId, AttemptRef},
    store::cluster::SessionLoad,
};

/// Whether a run that was handed over can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// A credit is taken for it.
    Reserved,
    /// Not now: no slot is free, or it is not its turn.
    Busy,
    /// The session has the attempt already.
    Held,
    /// The session it was meant for is not here any more.
    Gone,
}

impl Hub {
    /// What all sessions can take.
    pub fn loads(&self, node: &Arc<str>) -> Vec<SessionLoad> {
        let heard_after = self.clock.elapsed().saturating_sub(self.settings.silence());
        let now = self.clock.now();
        let load = |link: &Arc<Link>| {
            let session = link.session.lock();
            SessionLoad {
                executor: link.origin.row,
                app: link.origin.app,
                name: link.origin.executor.clone(),
                node: node.clone(),
                epoch: link.origin.epoch,
                at: now,
                ended_at: None,
                load: session.load(session.heard().elapsed < heard_after),
                cordoned: false,
            }
        };
        self.all().iter().map(load).collect()
    }

    /// Takes a credit for a run that another node's owner sent on a session here.
    pub fn reserve_handed(
        &self,
        app: AppId,
        executor: &str,
        epoch: u64,
        handler: &str,
        attempt: AttemptRef,
    ) -> Slot {
        let Some(link) = self.link(app, executor, epoch) else { return Slot::Gone };
        let mut session = link.session.lock();
        if session.has(attempt) {
            Slot::Held
        } else if link.outbox.room_for_runs() > 0 && session.reserve_handed(handler) {
            Slot::Reserved
        } else {
            Slot::Busy
        }
    }

    /// An attempt that was sent to the executor on this session or an earlier one and that nobody has
    /// heard of since: does it have it?
    pub fn look_for(&self, app: AppId, executor: &str, epoch: u64, attempt: AttemptRef) {
        if let Some(link) = self.current(app, executor).filter(|link| link.origin.epoch >= epoch) {
            link.session.lock().look_for(attempt);
        }
    }

    /// So many runs that were handed over wait for a slot of the executor.
    pub fn set_handed_waiting(&self, app: AppId, executor: &str, waiting: u32) {
        if let Some(link) = self.current(app, executor) {
            link.session.lock().set_handed_waiting(waiting);
        }
    }

    /// A run that was handed over was not sent and won't be: an event says so.
    pub fn not_sent(&self, app: AppId, executor: &Arc<str>, epoch: u64, attempt: AttemptRef) {
        let origin = Arc::new(Origin { app, executor: executor.clone(), row: 0, epoch });
        self.emit(SessionEvent { origin, attempt, kind: EventKind::NotHeld });
    }
}
