//! Delivers what is owed. Every node has a courier; the outbox gives each delivery to one of them.
//!
//! A claim is a lease: it is longer than a send may take, and when it ends without a word the
//! delivery is due again, for whoever is there. So a crash between claim and send delays an alarm
//! and never loses it, and a crash between send and word repeats it under the same id.

use std::{collections::HashMap, sync::Arc, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use tokio::task::{Id, JoinSet};

use super::{Channels, Notice, SEND_TIMEOUT, SendFault, targets::Targets};
use crate::{
    clock::Clock,
    model::{
        alarm::{Channel, DefaultAlarm},
        words,
    },
    store::{
        Result, SharedStore,
        ops::{DeliveryClaim, DeliveryEnd, DeliveryId, OwedDelivery},
    },
    telemetry::metrics,
};

/// Sends at the same time.
pub const SENDS_MAX: usize = 32;
/// Of these to one target.
pub const SENDS_PER_TARGET_MAX: u32 = 2;
/// A claimed delivery is due again after this long without a word: longer than a send takes.
pub const LEASE: Duration = Duration::from_secs(60);
/// Wait after the first failed try; it doubles.
pub const BACKOFF_FIRST: Duration = Duration::from_secs(5);
/// Longest wait between two tries, also when the receiver asks for more.
pub const BACKOFF_MAX: Duration = Duration::from_secs(3600);
/// Share of a wait by which it is longer or shorter at random.
const BACKOFF_JITTER: f64 = 0.2;
/// Tries of one delivery.
pub const ATTEMPTS_MAX: u32 = 50;
/// A delivery that is owed for so long is given up.
pub const OWED_MAX: Duration = Duration::from_secs(24 * 3600);
/// Without any hint, what is due is found within this time.
pub const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Longest wait at the end for sends that are under way; what is left is sent again later.
const STOP_WAIT: Duration = Duration::from_secs(2);

const _: () = assert!(LEASE.as_secs() > SEND_TIMEOUT.as_secs());

/// A delivery with what became of it.
#[derive(Debug)]
pub struct Ended {
    owed: OwedDelivery,
    end: DeliveryEnd,
}

/// Delivers alarms.
pub struct Courier {
    store: SharedStore,
    clock: Arc<dyn Clock>,
    channels: Arc<Channels>,
    default: Option<DefaultAlarm>,
    targets: Targets,
    sends: JoinSet<std::result::Result<(), SendFault>>,
    /// What each send under way is for.
    flights: HashMap<Id, OwedDelivery>,
}

impl Courier {
    /// A courier with nothing in hand. `default` is the alarm of this node's configuration.
    pub fn new(
        store: SharedStore,
        clock: Arc<dyn Clock>,
        channels: Arc<Channels>,
        default: Option<DefaultAlarm>,
    ) -> Self {
        Self {
            store,
            clock,
            channels,
            default,
            targets: Targets::default(),
            sends: JoinSet::new(),
            flights: HashMap::new(),
        }
    }

    /// Claims what is due, as far as there are places, and begins to send it. Returns how many
    /// deliveries were taken in hand.
    ///
    /// # Errors
    /// The store's; what was claimed is due again after its lease.
    pub async fn tick(&mut self, now: DateTime<Utc>) -> Result<usize> {
        let mut taken = 0;
        // Each round takes a few of each target that is idle, so it ends soon.
        while self.flights.len() < SENDS_MAX {
            let claim = DeliveryClaim {
                without: self.targets.without(now),
                per_target: SENDS_PER_TARGET_MAX,
                limit: u32::try_from(SENDS_MAX - self.flights.len()).unwrap_or(0),
                with_default: self.default.is_some(),
                given_up_before: now - OWED_MAX,
                lease_until: now + LEASE,
            };
            let owed = self.store.claim_deliveries(&claim, now).await?;
            if owed.is_empty() {
                break;
            }
            taken += owed.len();
            for delivery in owed {
                self.begin(delivery, now).await;
            }
        }
        Ok(taken)
    }

    async fn begin(&mut self, owed: OwedDelivery, now: DateTime<Utc>) {
        let end = match self.channel(&owed) {
            _ if now - owed.owed_at >= delta(OWED_MAX) => {
                let tries = words::count(u64::from(owed.attempt - 1), "attempt");
                let mut why = owed.last_fault.clone();
                if !why.is_empty() {
                    why.push_str("; ");
                }
                DeliveryEnd::GivenUp(why + "given up after " + &tries)
            }
            Err(why) => DeliveryEnd::GivenUp(why.to_owned()),
            Ok(channel) => {
                let channels = self.channels.clone();
                let notice = notice(&owed);
                self.targets.begin(&owed.target);
                let send = async move { channels.send(&channel, &notice, now).await };
                let task = self.sends.spawn(send);
                self.flights.insert(task.id(), owed);
                return;
            }
        };
        self.record(Ended { owed, end }).await;
    }

    /// Where the delivery goes, by the rule as it is now.
    fn channel(&self, owed: &OwedDelivery) -> std::result::Result<Channel, &'static str> {
        let place = usize::from(owed.id.channel);
        match (owed.rule, &owed.spec, &self.default) {
            (Some(_), Some(spec), _) => {
                spec.channels.get(place).cloned().ok_or("the rule has no such channel any more")
            }
            (Some(_), None, _) => Err("the rule was deleted"),
            (None, _, Some(default)) => Ok(default.channel.clone()),
            (None, _, None) => Err("the configuration has no alarm any more"),
        }
    }

    /// Sends under way.
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// Waits for one send to end. Never returns while nothing is under way. May be dropped while
    /// it waits: what has ended is then told by the next call.
    pub async fn ended(&mut self) -> Ended {
        loop {
            let Some(ended) = self.sends.join_next_with_id().await else {
                return std::future::pending().await;
            };
            let (id, result) = match ended {
                Ok((id, result)) => (id, result),
                Err(fault) => (fault.id(), Err(SendFault::refused("the send broke off"))),
            };
            let Some(owed) = self.flights.remove(&id) else { continue };
            let now = self.clock.now();
            let answered = !matches!(&result, Err(SendFault { unreachable: true, .. }));
            self.targets.end(&owed.target, answered, now);
            let end = match result {
                Ok(()) => DeliveryEnd::Delivered,
                Err(fault) => after(&owed, &fault, rand::random(), now),
            };
            return Ended { owed, end };
        }
    }

    /// Says to the store what became of a delivery; must not be dropped half-way. When the store is
    /// out of reach the delivery is due again after its lease.
    pub async fn record(&self, ended: Ended) {
        let Ended { owed, end } = ended;
        tell(&owed, &end);
        if let Err(fault) = self.store.end_delivery(owed.id, owed.attempt, &end).await {
            metrics().store_errors.inc();
            let DeliveryId { alarm, channel } = owed.id;
            tracing::debug!(%alarm, channel, %fault, "the end of a delivery could not be written");
        }
    }

    /// Lets sends under way end, for a short while.
    pub async fn stop(mut self) {
        let clock = self.clock.clone();
        let ended = async {
            while self.in_flight() > 0 {
                let ended = self.ended().await;
                self.record(ended).await;
            }
        };
        tokio::select! {
            () = ended => {}
            () = clock.wait(STOP_WAIT) => {}
        }
    }
}

fn notice(owed: &OwedDelivery) -> Notice {
    Notice {
        alarm: Some(owed.id.alarm),
        rule: owed.rule_name.clone(),
        condition: owed.condition,
        facts: owed.facts.clone(),
        fire_at: owed.fire_at,
        attempt: owed.attempt,
    }
}

/// What becomes of a delivery whose send failed. `random` lies in 0..1.
fn after(owed: &OwedDelivery, fault: &SendFault, random: f64, now: DateTime<Utc>) -> DeliveryEnd {
    let doubled = BACKOFF_FIRST * 2_u32.saturating_pow(owed.attempt.saturating_sub(1).min(16));
    let wait = doubled.min(BACKOFF_MAX).mul_f64(1.0 + BACKOFF_JITTER * (2.0 * random - 1.0));
    let asked = fault.retry_after.unwrap_or_default().min(BACKOFF_MAX);
    let next = now + wait.max(asked);
    if owed.attempt >= ATTEMPTS_MAX || next - owed.owed_at >= delta(OWED_MAX) {
        return DeliveryEnd::GivenUp(format!("{}; given up", fault.text));
    }
    DeliveryEnd::Retry(next, fault.text.clone())
}

fn delta(duration: Duration) -> TimeDelta {
    TimeDelta::from_std(duration).unwrap_or(TimeDelta::MAX)
}

/// Counts and logs. Of the target its server alone is told: a URL may hold a key.
fn tell(owed: &OwedDelivery, end: &DeliveryEnd) {
    let DeliveryId { alarm, channel } = owed.id;
    let (attempt, target, rule) = (owed.attempt, &owed.target, &owed.rule_name);
    match end {
        DeliveryEnd::Delivered => {
            metrics().delivery("delivered");
            tracing::debug!(%alarm, channel, attempt, target, rule, "alarm delivered");
        }
        DeliveryEnd::Retry(next, fault) => {
            metrics().delivery("failed");
            if attempt == 1 {
                tracing::warn!(
                    %alarm, channel, target, rule, fault, %next,
                    "an alarm could not be delivered; it is tried again"
                );
            }
        }
        DeliveryEnd::GivenUp(fault) => {
            metrics().delivery("given_up");
            tracing::error!(
                %alarm, channel, attempt, target, rule, fault,
                "an alarm was not delivered"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::alarm::{AlarmCondition, AlarmFacts, AlarmId};

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + seconds, 0).expect("in range")
    }

    fn owed(attempt: u32) -> OwedDelivery {
        OwedDelivery {
            id: DeliveryId { alarm: AlarmId::first_at(at(0)), channel: 0 },
            attempt,
            target: "https://h".to_owned(),
            owed_at: at(0),
            rule: None,
            spec: None,
            rule_name: String::new(),
            condition: AlarmCondition::RunFailed,
            facts: AlarmFacts::default(),
            fire_at: at(0),
            last_fault: String::new(),
        }
    }

    #[test]
    fn waits_double_up_to_an_hour_and_end_after_a_day() {
        let fault = SendFault::refused("HTTP 500");
        let (mut now, mut waits) = (at(0), Vec::new());
        for attempt in 1.. {
            match after(&owed(attempt), &fault, 0.5, now) {
                DeliveryEnd::Retry(next, text) => {
                    assert_eq!(text, "HTTP 500");
                    waits.push((next - now).num_seconds());
                    now = next;
                }
                DeliveryEnd::GivenUp(text) => {
                    assert!(text.contains("HTTP 500") && text.contains("given up"), "{text}");
                    break;
                }
                DeliveryEnd::Delivered => panic!("it was not"),
            }
        }
        assert_eq!(waits[..5], [5, 10, 20, 40, 80]);
        assert_eq!(waits.iter().max(), Some(&3600));
        assert!(now - at(0) > TimeDelta::hours(22) && now - at(0) < TimeDelta::hours(24), "{now}");
        assert!(waits.len() < ATTEMPTS_MAX as usize);
    }

    #[test]
    fn a_receiver_may_ask_for_a_longer_wait_within_an_hour() {
        let asks = |seconds| {
            let retry_after = Some(Duration::from_secs(seconds));
            let fault = SendFault { retry_after, ..SendFault::refused("HTTP 429") };
            match after(&owed(1), &fault, 0.5, at(0)) {
                DeliveryEnd::Retry(next, _) => (next - at(0)).num_seconds(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!((asks(1), asks(90), asks(1_000_000)), (5, 90, 3600));
    }

    #[test]
    fn waits_are_spread_so_that_not_all_come_back_at_once() {
        let wait = |random| match after(&owed(1), &SendFault::refused("x"), random, at(0)) {
            DeliveryEnd::Retry(next, _) => (next - at(0)).num_milliseconds(),
            other => panic!("{other:?}"),
        };
        assert_eq!((wait(0.0), wait(0.5)), (4_000, 5_000));
        assert!((5_900..=6_000).contains(&wait(0.999)));
    }
}
