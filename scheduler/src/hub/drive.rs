//! The hub for whoever drives a session: its begin, its frames, its ticks and its end.

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use clawjob_proto::v1::{SessionRequest, SessionResponse, session_response::Frame as Down};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{
    Hub, Link, Presence, Refused,
    event::{Origin, SessionEvent},
    outbox::{Outbox, Pushed},
    session::{Effects, End, Moment, Opening, Session},
    settings::EVENT_QUEUE_MAX,
};
use crate::{model::ids::AppId, telemetry::metrics::metrics};

/// How often memory of executors that left is looked through.
const PRUNE_INTERVAL: Duration = Duration::from_secs(60);

impl Hub {
    /// May one more session begin now?
    ///
    /// # Errors
    /// Why not.
    pub fn admit(&self) -> Result<Duration, Refused> {
        if *self.draining.lock() {
            return Err(Refused::Draining);
        }
        if !self.settings.cluster.read().takes_sessions_at(self.clock.elapsed()) {
            return Err(Refused::Unseen);
        }
        let admitted = if self.sessions() >= self.settings.max_sessions {
            Err(Refused::Full)
        } else {
            self.admission.lock().admit(self.clock.elapsed()).map_err(Refused::Rate)
        };
        if admitted.is_err() {
            *self.turned_away.lock() = Some(self.clock.now());
        }
        admitted
    }

    /// Whether the executor's name is in use here by another process than `instance_id`.
    pub fn presence(&self, app: AppId, executor: &str, instance_id: &str) -> Presence {
        let Some(link) = self.current(app, executor) else { return Presence::Free };
        let session = link.session.lock();
        let silence = session.silence(self.clock.elapsed());
        if session.instance_id() == instance_id {
            Presence::Free
        } else if silence <= self.settings.heartbeat_interval * 2 {
            Presence::Alive
        } else {
            Presence::Silent
        }
    }

    /// Begins a session, taking over from an older one of the same executor. The caller sends the
    /// events on and feeds frames to [`Hub::receive`].
    ///
    /// # Errors
    /// A newer session of the executor is here already.
    pub fn open(
        &self,
        opening: Opening,
        principal: &str,
        outbox: Arc<Outbox>,
    ) -> Result<(Arc<Link>, Vec<SessionEvent>), End> {
        let at = self.moment();
        let (origin, session_id) = (opening.origin.clone(), opening.session_id.clone());
        let app_name = opening.app_name.clone();
        let mut out = Effects::default();
        let mut table = self.table.write();
        let old = table.get(origin.app, &origin.executor).cloned();
        let mut end = End::Moved;
        let before = match &old {
            Some(old) if old.origin.epoch >= origin.epoch => return Err(End::Superseded),
            Some(old) => {
                let handover = old.session.lock().end();
                if handover.instance_id != opening.instance_id {
                    end = End::Superseded;
                }
                table.remove(&old.origin);
                Some(handover)
            }
            None => table.take_handover(origin.app, &origin.executor),
        };
        let session = Session::open(opening, before, self.settings.clone(), at, &mut out);
        let link = Arc::new(Link {
            origin,
            app_name,
            principal: principal.to_owned(),
            session_id,
            session: Mutex::new(session),
            outbox,
            end: Mutex::new(None),
            ended: Notify::new(),
        });
        // Welcome goes first: nobody can reach the session before it is in the table.
        self.push(&link, out.frames, at);
        table.insert(link.clone(), at.elapsed);
        metrics().sessions_opened.inc();
        drop(table);
        match old {
            // It knows and says Goodbye by itself; whoever drives it sees to that.
            Some(old) if old.was_asked_to_move() => old.set_end(end),
            Some(old) => close(&old, end),
            None => {}
        }
        self.capacity.notify_one();
        Ok((link, out.events))
    }

    /// Takes one frame of the executor in. The events are the caller's to send on; while it can't,
    /// it reads no further frame (see [`Hub::stall`]).
    pub fn receive(&self, link: &Arc<Link>, frame: SessionRequest) -> Vec<SessionEvent> {
        self.step(link, |session, at, out| session.frame(frame, at, out)).1
    }

    /// The caller does not read the session's frames for a while, or reads again.
    pub fn stall(&self, link: &Arc<Link>, stalled: bool) {
        let at = self.moment();
        link.session.lock().set_stalled(stalled, at);
    }

    /// The stream ended, or is to be ended for the given reason.
    pub fn finish(&self, link: &Arc<Link>, end: End) {
        let (mut handover, heard) = {
            let mut session = link.session.lock();
            if session.is_over() {
                drop(session);
                return close(link, end);
            }
            (session.end(), session.heard())
        };
        handover.settle();
        {
            let mut table = self.table.write();
            if table.remove(&link.origin).is_some() {
                table.part(&link.origin, handover, heard.wall, self.clock.elapsed());
            }
        }
        close(link, end);
    }

    /// Sends the last frame of a session that has ended and was left to say Goodbye by itself.
    pub fn close(&self, link: &Arc<Link>) {
        if let Some(end) = link.end() {
            close(link, end);
        }
    }

    /// The process of an ended session will not come back: what it held is lost. The events are
    /// the caller's to send on.
    pub fn forsake(&self, origin: &Arc<Origin>) -> Vec<SessionEvent> {
        let handover = {
            let mut table = self.table.write();
            match table.get(origin.app, &origin.executor) {
                Some(_) => None,
                None => table.take_handover(origin.app, &origin.executor),
            }
        };
        handover.map(|handover| handover.forsaken(origin)).unwrap_or_default()
    }

    /// Watches over all sessions; to be called a few times per second.
    pub fn tick(&self, now: DateTime<Utc>, elapsed: Duration) {
        let at = Moment { wall: now, elapsed };
        for link in self.all() {
            let full_since = link.outbox.full_since();
            let (_, events) =
                self.step_at(&link, at, |session, at, out| session.tick(full_since, at, out));
            events.into_iter().for_each(|event| self.emit(event));
        }
        self.look_after_the_adrift(elapsed);
        self.flush_backlog();
        let mut pruned = self.pruned.lock();
        if elapsed >= *pruned + PRUNE_INTERVAL {
            *pruned = elapsed;
            self.table.write().prune(elapsed);
        }
    }

    /// The older session of an executor that now lives on another node.
    pub(super) fn give_way(&self, link: &Arc<Link>, end: End) {
        let _ = link.session.lock().end();
        self.table.write().remove(&link.origin);
        close(link, end);
    }

    pub(super) fn current(&self, app: AppId, executor: &str) -> Option<Arc<Link>> {
        self.table.read().get(app, executor).cloned()
    }

    pub(super) fn link(&self, app: AppId, executor: &str, epoch: u64) -> Option<Arc<Link>> {
        self.current(app, executor).filter(|link| link.origin.epoch == epoch)
    }

    pub(super) fn step<T>(
        &self,
        link: &Arc<Link>,
        act: impl FnOnce(&mut Session, Moment, &mut Effects) -> T,
    ) -> (T, Vec<SessionEvent>) {
        self.step_at(link, self.moment(), act)
    }

    /// One step of a session: its frames are queued under its lock, so that they leave in order.
    fn step_at<T>(
        &self,
        link: &Arc<Link>,
        at: Moment,
        act: impl FnOnce(&mut Session, Moment, &mut Effects) -> T,
    ) -> (T, Vec<SessionEvent>) {
        let mut out = Effects::default();
        let mut session = link.session.lock();
        let answer = act(&mut session, at, &mut out);
        let overflow = !self.push(link, std::mem::take(&mut out.frames), at) && !session.is_over();
        let ignored = session.take_ignored();
        drop(session);
        if ignored > 0 {
            metrics().frames_ignored.inc_by(ignored);
        }
        if out.capacity {
            self.capacity.notify_one();
        }
        if let Some(offset) = out.clock_off {
            let (app, executor) = (link.app_name(), &link.origin.executor);
            let offset_ms = offset.num_milliseconds();
            tracing::warn!(app, %executor, offset_ms, "the executor's clock differs from this node's");
        }
        if overflow && out.end.is_none() {
            out.end = Some(End::Unresponsive("it does not read its frames".to_owned()));
        }
        if let Some(end) = out.end {
            self.finish(link, end);
        }
        (answer, out.events)
    }

    fn push(&self, link: &Link, frames: Vec<SessionResponse>, at: Moment) -> bool {
        frames.into_iter().all(|frame| link.outbox.push(frame, at.elapsed) == Pushed::Sent)
    }

    pub(super) fn emit(&self, event: SessionEvent) {
        let mut backlog = self.backlog.lock();
        if !backlog.is_empty() {
            backlog.push_back(event);
        } else if let Err(event) = self.events.try_send(event) {
            backlog.push_back(event);
        }
        if backlog.len() > EVENT_QUEUE_MAX {
            // The row itself is found by the sweep over attempts that were never acknowledged.
            backlog.pop_front();
        }
    }

    fn flush_backlog(&self) {
        let mut backlog = self.backlog.lock();
        while let Some(event) = backlog.pop_front() {
            if let Err(event) = self.events.try_send(event) {
                backlog.push_front(event);
                return;
            }
        }
    }
}

/// Sends the last frame and tells whoever waits for the end.
fn close(link: &Link, end: End) {
    let last = end.close().map(|close| SessionResponse { frame: Some(Down::Close(close)) });
    // The reason stands before the stream ends: its status is made from it.
    link.set_end(end);
    link.outbox.finish(last);
}
