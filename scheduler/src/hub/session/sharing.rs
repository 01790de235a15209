//! The slots of a session, shared between runs of this node's own jobs and runs that the owners of
//! other jobs have handed to it.
//!
//! While none is free both wait, and who is told first of a free slot would get them all: so they
//! take turns.

use super::Session;
use crate::{model::ids::AttemptRef, store::cluster::Load};

/// Runs of other owners at this session.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    /// How many wait for a slot.
    waiting: u32,
    /// One of them got the last slot.
    had_last: bool,
    /// A run of this node's own jobs was kept back for their sake since its last turn.
    own_waits: bool,
}

impl Session {
    /// So many runs that were handed over wait for a slot.
    pub fn set_handed_waiting(&mut self, waiting: u32) {
        self.sharing.waiting = waiting;
    }

    /// How many of `free` slots runs of this node's own jobs may take now.
    pub fn left_to_own(&mut self, free: u32) -> u32 {
        let sharing = &mut self.sharing;
        let turn = u32::from(sharing.had_last).min(free);
        let left = free.saturating_sub(sharing.waiting).max(turn);
        sharing.own_waits |= left == 0 && free > 0;
        left
    }

    /// Takes `n` credits for runs of this node's own jobs; false when there are fewer.
    pub fn reserve_own(&mut self, handler: &str, n: u32) -> bool {
        let reserved = self.reserve(handler, n);
        if reserved {
            self.sharing.had_last = false;
            self.sharing.own_waits = false;
        }
        reserved
    }

    /// Takes a credit for a run that was handed over; false when there is none, or when it is the
    /// others' turn.
    pub fn reserve_handed(&mut self, handler: &str) -> bool {
        if self.sharing.had_last && self.sharing.own_waits && self.free(handler) <= 1 {
            // Once: if they don't come for it, they need it no more.
            self.sharing.own_waits = false;
            return false;
        }
        let reserved = self.reserve(handler, 1);
        self.sharing.had_last |= reserved;
        reserved
    }

    /// Whether the attempt was sent here under this fence or a later one.
    pub fn has(&self, attempt: AttemptRef) -> bool {
        let held = self.held.get(&(attempt.run, attempt.attempt));
        held.is_some_and(|held| held.fence >= attempt.fence)
    }

    /// An attempt that was sent on an earlier session, and whose row this one did not see when it
    /// began: heartbeats will tell whether the executor has it.
    pub fn look_for(&mut self, attempt: AttemptRef) {
        let key = (attempt.run, attempt.attempt);
        if !self.ended && !self.held.contains_key(&key) {
            self.carry(key, attempt.fence, None);
        }
    }

    /// What the session can take, for other nodes.
    pub fn load(&self, silent: bool) -> Load {
        let bounded = self.handlers.iter().filter_map(|(name, state)| {
            let room = state.takes_runs().then(|| self.room(state));
            (state.max_concurrency > 0 || room.is_none()).then(|| (name.to_string(), room))
        });
        Load {
            labels: self.labels.clone(),
            handlers: self.handlers.keys().map(|name| name.to_string()).collect(),
            rooms: bounded.collect(),
            slots: self.slots,
            free: self.free_slots(),
            cpu: self.vitals.cpu.unwrap_or(0.0),
            takes: self.takes_runs(),
            silent,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use chrono::DateTime;

    use super::*;
    use crate::{
        hub::{
            event::Origin,
            session::{Effects, Moment, Opening},
            settings::HubSettings,
        },
        model::{
            executor::{ExecutorSpec, Handler},
            ids::AppId,
        },
    };

    fn session(slots: u32) -> Session {
        let handler = Handler {
            name: "work".to_owned(),
            max_concurrency: 0,
            params_schema: String::new(),
            description: String::new(),
        };
        let executor = "e1".into();
        let opening = Opening {
            origin: Arc::new(Origin { app: AppId(1), executor, row: 1, epoch: 1 }),
            app_name: "app".to_owned(),
            instance_id: "p".to_owned(),
            session_id: "1-1".to_owned(),
            spec: ExecutorSpec { handlers: vec![handler], slots, ..ExecutorSpec::default() },
            cordoned: false,
            protocol_minor: 0,
            features: Vec::new(),
            resume_token: String::new(),
            resumed: false,
            replaced: false,
            claimed: Vec::new(),
            listed: Vec::new(),
            last_command_seq: 0,
            unwanted: Vec::new(),
            known_results: Vec::new(),
            auth_expires_at: None,
        };
        let at = Moment { wall: DateTime::UNIX_EPOCH, elapsed: Duration::ZERO };
        let settings = Arc::new(HubSettings::default());
        Session::open(opening, None, settings, at, &mut Effects::default())
    }

    #[test]
    fn own_and_handed_runs_take_turns_at_a_busy_executor() {
        let mut session = session(1);
        session.set_handed_waiting(3);
        let mut turns = Vec::new();
        for _ in 0..6 {
            if session.left_to_own(session.free_slots()) > 0 && session.reserve_own("work", 1) {
                turns.push("own");
            } else if session.reserve_handed("work") {
                turns.push("handed");
            }
            session.unreserve("work", 1);
        }
        assert_eq!(turns, ["handed", "own", "handed", "own", "handed", "own"]);
    }

    #[test]
    fn a_turn_that_is_not_taken_goes_to_the_others() {
        let mut session = session(2);
        session.set_handed_waiting(2);
        assert_eq!(session.left_to_own(2), 0);
        assert!(session.reserve_handed("work"));
        assert!(!session.reserve_handed("work"), "the last slot is for the node's own");
        assert!(session.reserve_handed("work"), "they did not come for it");
        session.set_handed_waiting(0);
        session.unreserve("work", 2);
        assert_eq!(session.left_to_own(2), 2);
    }
}
