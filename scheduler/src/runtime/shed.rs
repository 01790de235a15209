//! Sessions that are asked to move to other nodes: all of a node that is drained, and some of one
//! that has many more than its share. In waves, so that nobody is overrun by those who come.

use std::{sync::Arc, time::Duration};

use clawjob_proto::v1::scheduler_drain::Reason;
use tokio_util::sync::CancellationToken;

use crate::{
    api::health::{Health, Phase},
    fleet::News,
    hub::{Hub, settings::MOVE_CLOSES_AFTER},
    store::cluster::Peer,
};

/// Executors that are asked to move dial anew within this time.
const RECONNECT_WITHIN: Duration = Duration::from_secs(2);
/// A drained node's sessions leave in so many waves.
const WAVES: usize = 10;
/// Pause between two of them.
const WAVE_EVERY: Duration = Duration::from_secs(1);
/// How often it is looked whether this node has too many sessions.
const REBALANCE_EVERY: Duration = Duration::from_secs(60);
/// With fewer sessions nothing is moved for the balance's sake.
const REBALANCE_MIN: usize = 20;
/// Up to this share of the average, in percent, a node keeps its sessions.
const REBALANCE_ABOVE: usize = 120;
/// Sessions that are moved per look, in percent.
const REBALANCE_SHARE: usize = 5;

/// Asks sessions to move.
pub(super) struct Shedding {
    hub: Arc<Hub>,
    health: Arc<Health>,
    node: Arc<str>,
    /// Somebody asked this node to give its work away.
    drained: CancellationToken,
    wave: usize,
    next: Duration,
}

impl Shedding {
    pub(super) fn new(
        hub: Arc<Hub>,
        health: Arc<Health>,
        node: Arc<str>,
        drained: CancellationToken,
    ) -> Self {
        Self { hub, health, node, drained, wave: 0, next: REBALANCE_EVERY }
    }

    /// Does what the news of the cluster ask for. `elapsed` is monotonic.
    pub(super) async fn heed(&mut self, news: &News, elapsed: Duration) {
        let asked = news.peers.iter().any(|peer| peer.drain_asked && *peer.id == *self.node);
        if asked && !self.drained.is_cancelled() {
            tracing::warn!(
                sessions = self.hub.sessions(),
                "this node is drained: others take over"
            );
            self.drained.cancel();
            self.health.set(Phase::Draining).await;
            self.hub.close_door();
            self.wave = self.hub.sessions().div_ceil(WAVES);
            self.next = elapsed;
        }
        if elapsed < self.next {
            return;
        }
        let (reason, count) = match self.drained.is_cancelled() {
            true => (Reason::Admin, self.wave.max(1)),
            false => (Reason::Rebalance, surplus(&news.peers, self.hub.sessions(), &self.node)),
        };
        let pause = if self.drained.is_cancelled() { WAVE_EVERY } else { REBALANCE_EVERY };
        self.next = elapsed + pause;
        if count > 0 {
            if reason == Reason::Rebalance {
                tracing::info!(sessions = count, "sessions are asked to move to other nodes");
            }
            self.hub.drain_some(count, reason, RECONNECT_WITHIN, MOVE_CLOSES_AFTER);
        }
    }
}

/// How many of the `own` sessions are to move now, so that the nodes have about as many each.
fn surplus(peers: &[Peer], own: usize, node: &str) -> usize {
    let others = peers.iter().filter(|peer| peer.id != node && !peer.drain_asked);
    let (nodes, sessions) =
        others.fold((1, own), |(nodes, all), peer| (nodes + 1, all + peer.sessions as usize));
    let average = sessions.div_ceil(nodes);
    if nodes == 1 || own < REBALANCE_MIN || own * 100 <= average * REBALANCE_ABOVE {
        return 0;
    }
    (own - average).min((own * REBALANCE_SHARE).div_ceil(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(id: &str, sessions: u32) -> Peer {
        let (advertise_address, drain_asked) = (String::new(), false);
        Peer { id: id.to_owned(), advertise_address, drain_asked, sessions }
    }

    #[test]
    fn a_node_with_many_more_sessions_than_its_share_sheds_a_few_at_a_time() {
        let peers = [peer("me", 0), peer("a", 100), peer("b", 100)];
        assert_eq!(surplus(&peers, 100, "me"), 0);
        assert_eq!(surplus(&peers, 125, "me"), 0, "not above 120 % of the average");
        assert_eq!(surplus(&peers, 160, "me"), 8, "at most 5 % of them");
        assert_eq!(surplus(&peers, 1_000, "me"), 50);
        assert_eq!(surplus(&[peer("me", 0), peer("a", 0)], 19, "me"), 0, "too few to matter");
        assert_eq!(surplus(&[peer("me", 0)], 1_000, "me"), 0, "nobody else is there");
        let leaving = Peer { drain_asked: true, ..peer("a", 0) };
        assert_eq!(surplus(&[peer("me", 0), leaving], 1_000, "me"), 0);
    }
}
