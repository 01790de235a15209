//! When and where to dial next.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::Rng;
use rand::seq::IndexedRandom as _;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::backoff::{Backoff, jitter};
use super::dial::{self, Connection, Fault, Opened};
use super::outbox::Outbox;
use crate::config::{Checked, endpoint_problem};

/// Most peer endpoints taken from the scheduler.
const PEERS_MAX: usize = 64;
/// How long to wait after a refusal for good, when asked to go on trying.
const REFUSED_WAIT: Duration = Duration::from_secs(30);

/// The same fault is told of again after so long, however often it has come.
const TELL_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// The fault that was told of last, and when.
#[derive(Debug, Default)]
struct Told(Option<(String, Instant)>);

impl Told {
    /// Whether to tell of a fault now; notes that it was.
    fn is_news(&mut self, message: &str, now: Instant) -> bool {
        let known = self.0.as_ref().is_some_and(|(told, at)| {
            told == message && now.saturating_duration_since(*at) < TELL_AGAIN_AFTER
        });
        if !known {
            self.0 = Some((message.to_owned(), now));
        }
        !known
    }
}

/// How far a dial has come.
pub(super) enum Dialed {
    /// The connection stands; the Hello can be written.
    Connected(Box<Connection>),
    /// The session is open.
    Opened(Box<Opened>),
    /// It came to nothing.
    Failed(Fault),
}

/// Dials for new sessions, one at a time.
pub(super) struct Redial {
    settings: Arc<Checked>,
    backoff: Backoff,
    at: Option<Instant>,
    /// Where a draining scheduler sends us; empty otherwise.
    sent_to: Vec<String>,
    peers: Vec<String>,
    last_failed: Option<String>,
    /// Where the newest session was opened.
    opened: Option<String>,
    /// Where the last session fell silent, until there is another.
    silent: Option<String>,
    told: Told,
    dial: Option<Dial>,
    dials: u64,
    steps: mpsc::Sender<(u64, Dialed)>,
}

struct Dial {
    id: u64,
    endpoint: String,
    task: AbortHandle,
    /// Set once the Hello is queued.
    opening: Option<(Arc<Outbox>, Instant)>,
}

impl Redial {
    /// The first dial is due at once.
    pub(super) fn new(
        settings: Arc<Checked>,
        steps: mpsc::Sender<(u64, Dialed)>,
        now: Instant,
    ) -> Self {
        Self {
            backoff: Backoff::new(settings.reconnect.clone()),
            settings,
            at: Some(now),
            sent_to: Vec::new(),
            peers: Vec::new(),
            last_failed: None,
            opened: None,
            silent: None,
            told: Told::default(),
            dial: None,
            dials: 0,
            steps,
        }
    }

    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.at
    }

    /// Notes the cluster's addresses. One with another scheme than ours is left out, so that
    /// nobody can talk us out of TLS.
    pub(super) fn know_peers(&mut self, peers: &[String]) {
        self.peers = self.usable(peers);
    }

    fn usable(&self, peers: &[String]) -> Vec<String> {
        let scheme = |url: &str| url.split_once(':').map(|(scheme, _)| scheme.to_owned());
        let ours = self.settings.endpoints.first().and_then(|url| scheme(url));
        peers
            .iter()
            .filter(|url| endpoint_problem(url).is_none() && scheme(url) == ours)
            .take(PEERS_MAX)
            .cloned()
            .collect()
    }

    /// Asks for a new session at a random moment within `within`, beside the open one.
    pub(super) fn move_to(
        &mut self,
        now: Instant,
        within: Duration,
        peers: &[String],
        rng: &mut impl Rng,
    ) {
        self.sent_to = self.usable(peers);
        if self.dial.is_none() && self.at.is_none() {
            self.at = Some(now + jitter(within, rng));
        }
    }

    /// The session gets no answers any more: its end is told next, and another endpoint is dialed then.
    pub(super) fn on_silence(&mut self) {
        self.silent = self.opened.take();
    }

    /// The only session has ended after `lasted`.
    pub(super) fn on_session_end(
        &mut self,
        now: Instant,
        lasted: Duration,
        wait: Option<Duration>,
        rng: &mut impl Rng,
    ) {
        self.backoff.on_session_end(lasted);
        if self.dial.is_none() {
            let wait = match self.silent {
                Some(_) => self.backoff.after_silence(rng),
                None => self.backoff.next(wait, rng),
            };
            self.at = Some(now + wait);
        }
    }

    /// Starts the dial that is due.
    pub(super) fn tick(&mut self, now: Instant, rng: &mut impl Rng) {
        if self.dial.is_some() || self.at.is_none_or(|at| at > now) {
            return;
        }
        self.at = None;
        self.dials += 1;
        let (id, endpoint) = (self.dials, self.pick(rng));
        let (settings, steps) = (self.settings.clone(), self.steps.clone());
        let target = endpoint.clone();
        let task = tokio::spawn(async move {
            let step = match dial::connect(&settings, &target).await {
                Ok(connection) => Dialed::Connected(Box::new(connection)),
                Err(fault) => Dialed::Failed(fault),
            };
            // The other end lives as long as the session's thread.
            let _ = steps.send((id, step)).await;
        });
        self.dial = Some(Dial { id, endpoint, task: task.abort_handle(), opening: None });
    }

    /// A random endpoint: one that the draining scheduler named; after a failure another of our
    /// own; after a silence too, if we have another; else any that is known.
    fn pick(&self, rng: &mut impl Rng) -> String {
        let own = &self.settings.endpoints;
        let fresh = |url: &&String| self.last_failed.as_ref() != Some(*url);
        let speaks = |url: &&String| self.silent.as_ref() != Some(*url);
        let others: Vec<&String> = own.iter().filter(fresh).filter(speaks).collect();
        let candidates: Vec<&String> = if !self.sent_to.is_empty() {
            self.sent_to.iter().collect()
        } else if self.silent.is_some() && !others.is_empty() {
            others
        } else if self.last_failed.is_some() {
            own.iter().filter(fresh).collect()
        } else {
            own.iter().chain(&self.peers).collect()
        };
        let picked = candidates.choose(rng).copied().or_else(|| own.first());
        picked.cloned().unwrap_or_default()
    }

    /// Goes on with a connected dial: the Hello is in the outbox.
    pub(super) fn open(
        &mut self,
        id: u64,
        connection: Connection,
        outbox: Arc<Outbox>,
        now: Instant,
    ) {
        let steps = self.steps.clone();
        let Some(dial) = self.dial.as_mut().filter(|dial| dial.id == id) else { return };
        dial.opening = Some((outbox.clone(), now));
        let task = tokio::spawn(async move {
            let step = match dial::open(connection, &outbox).await {
                Ok(opened) => Dialed::Opened(Box::new(opened)),
                Err(fault) => Dialed::Failed(fault),
            };
            let _ = steps.send((id, step)).await;
        });
        dial.task = task.abort_handle();
    }

    /// The dial has led to a session: its endpoint, its outbox, and when its Hello was queued.
    pub(super) fn succeeded(&mut self, id: u64) -> Option<(String, Arc<Outbox>, Instant)> {
        let dial = self.dial.take_if(|dial| dial.id == id)?;
        self.sent_to.clear();
        self.last_failed = None;
        self.silent = None;
        self.opened = Some(dial.endpoint.clone());
        self.told = Told::default();
        let (outbox, sent) = dial.opening?;
        Some((dial.endpoint, outbox, sent))
    }

    /// The dial has failed; the next is due after a wait. A refusal for good is returned, unless
    /// the settings ask to go on or a session is still open.
    pub(super) fn failed(
        &mut self,
        id: u64,
        fault: Fault,
        has_session: bool,
        now: Instant,
        rng: &mut impl Rng,
    ) -> Option<crate::Error> {
        let dial = self.dial.take_if(|dial| dial.id == id)?;
        self.sent_to.clear();
        let mut floor = fault.retry_after;
        if let Some(error) = fault.permanent {
            if !has_session && !self.settings.keep_trying {
                return Some(error);
            }
            floor = Some(REFUSED_WAIT);
        }
        let wait = self.backoff.next(floor, rng);
        if self.told.is_news(&fault.message, now) {
            tracing::warn!(
                endpoint = dial.endpoint,
                error = fault.message,
                retry_in_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                "no session with the scheduler; trying again until there is one"
            );
        }
        self.last_failed = Some(dial.endpoint);
        self.at = Some(now + wait);
        None
    }

    /// True when a Hello is on its way and its answer is not there yet.
    pub(super) fn is_opening(&self) -> bool {
        self.dial.as_ref().is_some_and(|dial| dial.opening.is_some())
    }

    /// Dials no more.
    pub(super) fn stop(&mut self) {
        self.at = None;
        if let Some(dial) = self.dial.take() {
            dial.task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;

    fn redial(endpoints: &[&str]) -> Redial {
        let settings = Settings {
            endpoints: Some(endpoints.iter().map(|url| (*url).to_owned()).collect()),
            app: Some("demo".to_owned()),
            ..Settings::default()
        };
        let (steps, _) = mpsc::channel(1);
        let now = crate::time::now().mono;
        Redial::new(Arc::new(settings.check(Vec::new()).unwrap()), steps, now)
    }

    #[test]
    fn after_a_failure_another_endpoint_of_our_own_is_dialed() {
        let mut redial = redial(&["http://a:1", "http://b:1"]);
        redial.know_peers(&["http://peer:1".to_owned()]);
        redial.last_failed = Some("http://a:1".to_owned());
        for _ in 0..20 {
            assert_eq!(redial.pick(&mut rand::rng()), "http://b:1");
        }
    }

    #[test]
    fn after_a_silence_another_endpoint_is_dialed_at_once() {
        let mut redial = redial(&["http://a:1", "http://b:1"]);
        redial.know_peers(&["http://peer:1".to_owned()]);
        redial.at = None;
        redial.opened = Some("http://a:1".to_owned());
        let now = crate::time::now().mono;
        redial.on_silence();
        redial.on_session_end(now, Duration::from_secs(60), None, &mut rand::rng());
        assert_eq!(redial.next_wake(), Some(now));
        for _ in 0..20 {
            assert_eq!(redial.pick(&mut rand::rng()), "http://b:1");
        }
    }

    #[test]
    fn who_has_one_endpoint_dials_any_after_a_silence() {
        let mut redial = redial(&["http://a:1"]);
        redial.know_peers(&["http://peer:1".to_owned()]);
        redial.opened = Some("http://a:1".to_owned());
        redial.on_silence();
        let picked: std::collections::BTreeSet<String> =
            (0..100).map(|_| redial.pick(&mut rand::rng())).collect();
        assert_eq!(picked.len(), 2, "{picked:?}");
    }

    #[test]
    fn a_fault_that_goes_on_is_told_once_a_minute() {
        let mut told = Told::default();
        let now = crate::time::now().mono;
        assert!(told.is_news("no file", now));
        assert!(!told.is_news("no file", now + TELL_AGAIN_AFTER / 2));
        assert!(told.is_news("empty", now + TELL_AGAIN_AFTER / 2), "that is another one");
        assert!(told.is_news("empty", now + TELL_AGAIN_AFTER * 2));
    }

    #[test]
    fn peers_without_our_scheme_are_not_trusted() {
        let mut redial = redial(&["https://a:1"]);
        redial.know_peers(&["http://b:1".to_owned(), "https://c:1".to_owned()]);
        assert_eq!(redial.peers, ["https://c:1"]);
    }
}
