//! Hints: to subscribers in this process at once, to other nodes by a rare NOTIFY.
//!
//! Commits with a NOTIFY in them queue behind one another in Postgres, so a hint is never part of
//! the transaction it tells of: one sender per node collects topics and sends them in a statement
//! of their own, at most every 5 ms. What is lost on the way is found by a sweep.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures::future::poll_fn;
use tokio::sync::{broadcast, mpsc};
use tokio_postgres::AsyncMessage;
use tokio_util::sync::CancellationToken;

use super::{
    session::{self, Role, Session},
    tls::Target,
};
use crate::{
    model::ids::{PartitionId, RunId},
    store::{HINTS_MAX, Result, StoreError, Topic},
};

/// Shortest time between two notifications of a node.
const NOTIFY_INTERVAL: Duration = Duration::from_millis(5);
/// Bytes of one notification; Postgres takes less than 8,000.
const NOTIFY_BYTES_MAX: usize = 7_000;
/// Topics in one round; further ones wait for the next.
const NOTIFY_TOPICS_MAX: usize = 512;
/// A node that sees no other in so many looks, each about a second after the other, notifies nobody. One
/// that has lost its locks lives on, and has them again by then; one that joins reads all there is, and
/// finds by its sweeps what it is not told of until it was seen.
const ALONE_LOOKS: u32 = 10;
/// Longest time for a notification to be taken.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(2);
/// How often the connection that hears is asked whether it is still one: nothing comes on it for hours
/// where nothing is told, and on one that is lost.
const LISTENER_ASKED: Duration = Duration::from_secs(10);
/// Wait before a lost connection is opened anew.
const RECONNECT_INTERVAL: Duration = Duration::from_secs(1);

/// Spreads topics.
pub(super) struct Hints {
    local: broadcast::Sender<Topic>,
    remote: mpsc::Sender<Topic>,
    /// In how many looks in a row no other node was seen.
    alone: AtomicU32,
}

impl Hints {
    /// Hands out the hints and what the sender task needs.
    pub(super) fn new() -> (Self, mpsc::Receiver<Topic>) {
        let (remote, inbound) = mpsc::channel(HINTS_MAX);
        let local = broadcast::Sender::new(HINTS_MAX);
        (Self { local, remote, alone: AtomicU32::new(0) }, inbound)
    }

    /// Whether any other node's process lives.
    pub(super) fn seen(&self, alone: bool) {
        // Of two looks at one moment one may be forgotten.
        let before = self.alone.load(Ordering::Relaxed);
        let looks = if alone { before.saturating_add(1) } else { 0 };
        self.alone.store(looks, Ordering::Relaxed);
    }

    pub(super) fn subscribe(&self) -> broadcast::Receiver<Topic> {
        self.local.subscribe()
    }

    /// For the listener task.
    pub(super) fn local(&self) -> broadcast::Sender<Topic> {
        self.local.clone()
    }

    /// Tells of something that was committed. Never waits.
    pub(super) fn tell(&self, topic: Topic) {
        // Without a subscriber, or with a full queue, the hint is lost, as it may be.
        let _ = self.local.send(topic);
        let heard = self.alone.load(Ordering::Relaxed) < ALONE_LOOKS;
        if heard && topic != Topic::Ends {
            let _ = self.remote.try_send(topic);
        }
    }
}

/// Sends topics to the other nodes until `stop`.
pub(super) async fn send(
    target: Arc<Target>,
    channel: String,
    node: String,
    mut topics: mpsc::Receiver<Topic>,
    stop: CancellationToken,
) {
    let mut session: Option<Session> = None;
    let mut waiting = Vec::new();
    loop {
        let received = tokio::select! {
            () = stop.cancelled() => return,
            received = topics.recv_many(&mut waiting, NOTIFY_TOPICS_MAX) => received,
        };
        if received == 0 {
            return;
        }
        let topics: HashSet<Topic> = waiting.drain(..).collect();
        let pause = match notify(&target, &mut session, &channel, &payloads(&node, &topics)).await {
            Ok(()) => NOTIFY_INTERVAL,
            Err(fault) => {
                tracing::debug!(error = %fault, "other nodes were not notified");
                session = None;
                RECONNECT_INTERVAL
            }
        };
        if tokio::time::timeout(pause, stop.cancelled()).await.is_ok() {
            return;
        }
    }
}

async fn notify(
    target: &Target,
    session: &mut Option<Session>,
    channel: &str,
    payloads: &[String],
) -> Result<()> {
    let session = match session {
        Some(session) => session,
        None => session.insert(session::open(target, Role::Sender).await?),
    };
    let sql = "SELECT pg_notify($1, p) FROM unnest($2::text[]) AS p";
    let work = async {
        let statement = session.client.prepare_cached(sql).await?;
        session.client.execute(&statement, &[&channel, &payloads]).await
    };
    match tokio::time::timeout(NOTIFY_TIMEOUT, work).await {
        Ok(done) => done.map(|_| ()).map_err(super::error::db),
        Err(_) => Err(StoreError::Unavailable("a notification was not taken".to_owned())),
    }
}

/// Receives the other nodes' topics until `stop`. Opens no transaction, ever.
pub(super) async fn listen(
    target: Arc<Target>,
    channel: String,
    node: String,
    local: broadcast::Sender<Topic>,
    stop: CancellationToken,
) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            fault = hear(&target, &channel, &node, &local) => {
                tracing::debug!(?fault, "notifications stopped");
            }
        }
        if tokio::time::timeout(RECONNECT_INTERVAL, stop.cancelled()).await.is_ok() {
            return;
        }
    }
}

/// Listens on one connection until it ends.
async fn hear(
    target: &Target,
    channel: &str,
    node: &str,
    local: &broadcast::Sender<Topic>,
) -> Result<()> {
    let (client, mut wire) = session::dial(target, Role::Listener).await?;
    let setup = async {
        session::prepare(&client, Role::Listener).await?;
        let sql = format!("LISTEN \"{channel}\"");
        client.batch_execute(&sql).await.map_err(super::error::db)
    };
    let hearing = async {
        while let Some(message) = poll_fn(|context| wire.poll_message(context)).await {
            match message {
                Ok(AsyncMessage::Notification(note)) => {
                    for topic in topics(note.payload(), node) {
                        let _ = local.send(topic);
                    }
                }
                Ok(_) => {}
                Err(fault) => return Err(super::error::db(fault)),
            }
        }
        Err(StoreError::Unavailable("the connection ended".to_owned()))
    };
    // What the client asks only moves while the wire is polled.
    tokio::pin!(hearing);
    tokio::select! {
        ended = &mut hearing => return ended,
        ready = setup => ready?,
    }
    loop {
        if let Ok(ended) = tokio::time::timeout(LISTENER_ASKED, &mut hearing).await {
            return ended;
        }
        tokio::select! {
            ended = &mut hearing => return ended,
            answered = session::alive(&client) => answered?,
        }
    }
}

/// `{node} {topic} {topic} …`, in as many texts as the bound asks for.
fn payloads(node: &str, topics: &HashSet<Topic>) -> Vec<String> {
    let mut texts = Vec::new();
    let mut text = node.to_owned();
    for word in topics.iter().filter_map(|topic| write(*topic)) {
        if text.len() + 1 + word.len() > NOTIFY_BYTES_MAX {
            texts.push(std::mem::replace(&mut text, node.to_owned()));
        }
        text.push(' ');
        text.push_str(&word);
    }
    texts.push(text);
    texts
}

/// The topics of a notification, none if it is this node's own. Unknown ones are left out: a newer
/// node may send them.
fn topics(payload: &str, node: &str) -> Vec<Topic> {
    let mut words = payload.split(' ');
    if words.next() == Some(node) {
        return Vec::new();
    }
    words.filter_map(parse).collect()
}

/// None for what other nodes need not hear.
fn write(topic: Topic) -> Option<String> {
    Some(match topic {
        Topic::Jobs(partition) => format!("j{}", partition.0),
        Topic::Inbox(partition) => format!("i{}", partition.0),
        Topic::RunEvents => "e".to_owned(),
        Topic::Session { executor, epoch } => format!("s{executor}/{epoch}"),
        Topic::Tokens => "t".to_owned(),
        Topic::Logs(run) => format!("l{run}"),
        Topic::Alarms => "a".to_owned(),
        Topic::Partitions => "p".to_owned(),
        Topic::Permits => "m".to_owned(),
        Topic::Handed { node } => format!("h{node}"),
        Topic::Ends => return None,
    })
}

fn parse(word: &str) -> Option<Topic> {
    let kind = word.chars().next()?;
    let rest = word.get(kind.len_utf8()..)?;
    match kind {
        'j' => Some(Topic::Jobs(PartitionId(rest.parse().ok()?))),
        'i' => Some(Topic::Inbox(PartitionId(rest.parse().ok()?))),
        'e' => Some(Topic::RunEvents),
        's' => {
            let (executor, epoch) = rest.split_once('/')?;
            Some(Topic::Session { executor: executor.parse().ok()?, epoch: epoch.parse().ok()? })
        }
        't' => Some(Topic::Tokens),
        'a' => Some(Topic::Alarms),
        'p' => Some(Topic::Partitions),
        'm' => Some(Topic::Permits),
        'h' => Some(Topic::Handed { node: rest.parse().ok()? }),
        'l' => Some(Topic::Logs(rest.parse::<RunId>().ok()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_survives_the_wire_and_own_ones_are_left_out() {
        let run = RunId::from_bytes([7; 16]);
        let all = HashSet::from([
            Topic::Jobs(PartitionId(3)),
            Topic::Inbox(PartitionId(63)),
            Topic::RunEvents,
            Topic::Session { executor: -4, epoch: 9 },
            Topic::Tokens,
            Topic::Logs(run),
            Topic::Alarms,
            Topic::Partitions,
            Topic::Permits,
            Topic::Handed { node: u64::MAX },
        ]);
        let texts = payloads("n1", &all);
        assert_eq!(texts.len(), 1);
        assert_eq!(topics(&texts[0], "n2").into_iter().collect::<HashSet<_>>(), all);
        assert_eq!(topics(&texts[0], "n1"), []);
        assert_eq!(topics("n3 z9 j x e", "n2"), [Topic::RunEvents]);
    }

    #[test]
    fn nobody_is_notified_where_no_other_node_was_seen_for_long() {
        let (hints, mut remote) = Hints::new();
        let mut told = || {
            hints.tell(Topic::RunEvents);
            remote.try_recv().is_ok()
        };
        assert!(told(), "nobody has looked yet");
        for _ in 0..ALONE_LOOKS {
            assert!(told(), "one may have lost its locks just now");
            hints.seen(true);
        }
        assert!(!told());
        hints.seen(false);
        assert!(told());
    }

    #[test]
    fn a_flood_of_topics_is_cut_into_payloads_that_postgres_takes() {
        let all: HashSet<Topic> = (0..NOTIFY_TOPICS_MAX)
            .map(|n| Topic::Logs(RunId::from_bytes((n as u128).to_be_bytes())))
            .collect();
        let texts = payloads("node", &all);
        assert!(texts.len() > 1 && texts.iter().all(|text| text.len() <= NOTIFY_BYTES_MAX));
        let heard: HashSet<Topic> = texts.iter().flat_map(|text| topics(text, "x")).collect();
        assert_eq!(heard, all);
    }
}
