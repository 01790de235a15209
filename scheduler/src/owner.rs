//! The owner's loop: everything that is written on the pen, one thing after the other.
//!
//! Fire times, dispatch and the clock's verdicts share one loop, so what is remembered is never
//! replaced by an older reading, and the order of statements on the pen is plain. Each round does
//! a bounded amount of each.

mod pace;

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};

use crate::{
    board::Board,
    clock::Clock,
    dispatch::{Dispatcher, Ticked},
    fleet::Reach,
    janitor::{Janitor, LostRules},
    node::Ownership,
    store::{Result, SharedStore, StoreError},
    trigger::Trigger,
};
use pace::Pace;

/// Without any hint, changes by others are found within this time.
pub const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Reasons for waiting are written this often.
const UPKEEP_EVERY: Duration = Duration::from_secs(2);
/// Runs under way are verified this often.
const VERIFY_EVERY: Duration = Duration::from_secs(30);
/// Pause between two steps of giving partitions to others.
const SHARE_STEP: Duration = Duration::from_millis(50);
/// First and longest pause after a fault.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(500));

/// Hints that came since the last round.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nudge {
    /// Jobs changed.
    pub jobs: bool,
    /// The inbox has something.
    pub inbox: bool,
    /// Partitions became free, or a node joined or left.
    pub partitions: bool,
    /// Runs of apps with limits ended at other owners.
    pub permits: bool,
}

impl Nudge {
    /// All of them: at the beginning, or when hints were lost.
    pub fn all() -> Self {
        Self { jobs: true, inbox: true, partitions: true, permits: true }
    }

    /// Whether anything is to be done at once: changed jobs may wait for more of their kind.
    pub fn is_urgent(&self) -> bool {
        self.inbox || self.partitions || self.permits
    }
}

/// The owner of whatever partitions this node can get.
pub struct Owner {
    board: Arc<Board>,
    store: SharedStore,
    clock: Arc<dyn Clock>,
    ownership: Ownership,
    trigger: Trigger,
    dispatcher: Dispatcher,
    janitor: Janitor,
    /// When shares are looked at next.
    share_at: DateTime<Utc>,
    sweep_at: DateTime<Utc>,
    upkeep_at: DateTime<Utc>,
    verify_at: DateTime<Utc>,
    recovered_at: Option<DateTime<Utc>>,
    pace: Pace,
    faults: u32,
    /// What ended the last round before its time.
    fault: Option<StoreError>,
}

impl Owner {
    /// An owner that holds nothing yet.
    pub fn new(
        store: SharedStore,
        board: Arc<Board>,
        reach: Arc<Reach>,
        clock: Arc<dyn Clock>,
        node: String,
        rules: LostRules,
    ) -> Self {
        Self {
            ownership: Ownership::new(store.clone(), board.clone(), node),
            trigger: Trigger::new(store.clone(), board.clone()),
            dispatcher: Dispatcher::new(store.clone(), board.clone(), reach.clone()),
            janitor: Janitor::new(store.clone(), board.clone(), reach, rules),
            board,
            store,
            clock,
            share_at: DateTime::<Utc>::MIN_UTC,
            sweep_at: DateTime::<Utc>::MIN_UTC,
            upkeep_at: DateTime::<Utc>::MIN_UTC,
            verify_at: DateTime::<Utc>::MIN_UTC,
            recovered_at: None,
            pace: Pace::default(),
            faults: 0,
            fault: None,
        }
    }

    /// One round. Returns when the next is due unless something wakes it earlier.
    pub async fn tick(&mut self, now: DateTime<Utc>, nudge: Nudge) -> DateTime<Utc> {
        match self.round(now, nudge).await {
            Ok(wake) => {
                if self.faults > 0 {
                    tracing::info!(faults = self.faults, "scheduling goes on");
                    self.faults = 0;
                    self.fault = None;
                }
                wake
            }
            Err(fault) => {
                let wait = (BACKOFF.0 * 2_u32.saturating_pow(self.faults.min(16))).min(BACKOFF.1);
                // The first of its kind is told; the rest would say the same all the time.
                if self.fault.as_ref().is_none_or(|before| before.brief() != fault.brief()) {
                    tracing::error!(%fault, "scheduling is interrupted; trying again");
                }
                self.faults = self.faults.saturating_add(1);
                self.fault = Some(fault);
                self.recovered_at = None;
                self.ownership.give_up().await;
                now + wait
            }
        }
    }

    /// How long the next round should wait for more runs to come due, unless something urgent is to be
    /// done: nothing, but where very many come.
    pub fn gathering(&self) -> Duration {
        self.pace.wait(self.clock.elapsed())
    }

    /// What ended the last round before its time.
    pub fn fault(&self) -> Option<&StoreError> {
        self.fault.as_ref()
    }

    async fn round(&mut self, now: DateTime<Utc>, nudge: Nudge) -> Result<DateTime<Utc>> {
        if self.ownership.is_reading() {
            self.ownership.read_on().await?;
            self.taken_over(now).await?;
            self.count_permits(now).await?;
        } else if nudge.partitions || is_due(self.share_at, now, SWEEP_EVERY) {
            self.share(now).await?;
        }
        let sweep = is_due(self.sweep_at, now, SWEEP_EVERY);
        if nudge.permits {
            self.dispatcher.ask_again();
        }
        if self.board.partitions().is_empty() {
            return Ok(self.share_at);
        }
        if sweep || nudge.jobs {
            self.trigger.reload().await?;
        }
        if sweep || nudge.inbox {
            self.dispatcher.collect(now).await?;
        }
        if sweep {
            self.sweep_at = now + SWEEP_EVERY;
        }
        // What was loaded is of this moment, however long that took: others may have written runs
        // up to now.
        let (now, began) = (self.clock.now(), self.clock.elapsed());
        self.trigger.settle_missed(now).await?;
        // Before dispatch, so that no shard of a parent that is to stop is sent.
        self.janitor.parents(now).await?;
        let Ticked { mut more, fresh } = self.dispatcher.tick(now).await?;
        self.pace.sent(began, fresh);
        if self.board.take_refused() {
            self.trigger.reload().await?;
            more = true;
        }
        self.janitor.deadlines(now).await?;
        if sweep {
            self.sweep(now).await?;
        }
        if more || self.ownership.is_reading() {
            return Ok(now);
        }
        let wakes = [self.board.next_wake(), Some(self.sweep_at), Some(self.share_at)];
        Ok(wakes.into_iter().flatten().min().unwrap_or(self.sweep_at))
    }

    /// Takes or gives what makes this owner's share even.
    async fn share(&mut self, now: DateTime<Utc>) -> Result<()> {
        let step = self.ownership.step().await?;
        self.share_at = now + if step.more { SHARE_STEP } else { SWEEP_EVERY };
        if !step.give.is_empty() {
            // What counts towards limits is known to all before anybody else can send a run.
            self.dispatcher.count_permits(true, now).await?;
            self.ownership.give(&step.give, now).await?;
        }
        if self.ownership.take(&step.take, now).await? > 0 {
            self.taken_over(now).await?;
        }
        self.count_permits(now).await
    }

    /// Tells the others what is under way here, once all of it is known: until then nobody is given a
    /// place under a limit.
    async fn count_permits(&self, now: DateTime<Utc>) -> Result<()> {
        match self.ownership.is_reading() {
            true => Ok(()),
            false => self.dispatcher.count_permits(false, now).await,
        }
    }

    /// Partitions came onto the board.
    async fn taken_over(&mut self, now: DateTime<Utc>) -> Result<()> {
        // Before anything is sent: the limits of apps count from the first run on.
        self.load_apps().await?;
        self.recovered_at = Some(now);
        // What came with them is looked at in this round.
        self.sweep_at = now;
        Ok(())
    }

    async fn sweep(&mut self, now: DateTime<Utc>) -> Result<()> {
        self.trigger.keep_standing(now).await?;
        if let Some(recovered_at) = self.recovered_at {
            self.janitor.lost(now, recovered_at).await?;
            self.janitor.unreachable(now, recovered_at).await?;
        }
        if is_due(self.upkeep_at, now, UPKEEP_EVERY) {
            self.upkeep_at = now + UPKEEP_EVERY;
            self.load_apps().await?;
            self.count_permits(now).await?;
            self.janitor.unsent(now).await?;
            self.dispatcher.explain(now).await?;
        }
        if is_due(self.verify_at, now, VERIFY_EVERY) {
            self.verify_at = now + VERIFY_EVERY;
            self.janitor.verify(now).await?;
        }
        Ok(())
    }

    async fn load_apps(&self) -> Result<()> {
        self.board.set_apps(self.store.list_apps("", None, u32::MAX).await?);
        Ok(())
    }

    /// Gives the partitions to other nodes and wants none from now on.
    pub async fn leave(&mut self, now: DateTime<Utc>) {
        self.ownership.leave(now).await;
    }
}

/// Whether something to be done each `every` is due; also when the clock was set back.
fn is_due(at: DateTime<Utc>, now: DateTime<Utc>, every: Duration) -> bool {
    now >= at || at > now + every
}
