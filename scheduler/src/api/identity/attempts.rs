//! How often sign-in may be tried: pure, told the time.
//!
//! Who guesses one user's password from one address has to wait longer after each try, and an
//! address has a rate of its own over all users. Both count the address in, so nobody can lock out
//! people at other addresses. At the same address people who signed in from there before go on
//! past its rate. Each node counts for itself.

use std::{
    collections::HashMap,
    hash::Hash,
    net::{IpAddr, Ipv6Addr},
    time::Duration,
};

use parking_lot::Mutex;

use super::USER_ID_MAX;

/// Tries of one user from one address before there is a wait.
pub const PAIR_TRIES_FREE: u32 = 5;
/// The wait after these, doubled with each further one.
pub const PAIR_WAIT_FIRST: Duration = Duration::from_secs(30);
/// The longest wait.
pub const PAIR_WAIT_MAX: Duration = Duration::from_secs(15 * 60);
/// Failed tries are forgotten after this time without another; a success, from its start on.
pub const PAIR_MEMORY: Duration = Duration::from_secs(24 * 60 * 60);
/// Failed tries that an address has at once, over all users.
pub const PEER_TRIES_MAX: u32 = 30;
/// It gets one back each so often.
pub const PEER_TRY_EVERY: Duration = Duration::from_secs(10);
/// Pairs, and addresses, that are remembered; the one that was quiet for longest makes room.
pub const REMEMBERED_MAX: usize = 10_000;

/// Where tries come from: an IPv4 address, or an IPv6 network of 64 bits, which one customer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin(IpAddr);

impl Origin {
    /// Of an address.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(v6) => {
                let network = v6.to_bits() >> 64 << 64;
                Self(Ipv6Addr::from_bits(network).into())
            }
            v4 @ IpAddr::V4(_) => Self(v4),
        }
    }
}

/// A user's name as given, known or not, and where from.
type Pair = (String, Origin);

#[derive(Clone, Copy, Default)]
struct PairState {
    failures: u32,
    last: Duration,
    /// Signed in from there before.
    known: bool,
}

#[derive(Clone, Copy, Default)]
struct PeerState {
    spent: u32,
    /// When `spent` was last counted down.
    last: Duration,
}

/// The tries of late.
#[derive(Default)]
pub struct Attempts {
    tables: Mutex<(HashMap<Pair, PairState>, HashMap<Origin, PeerState>)>,
}

impl Attempts {
    /// Counts a try as failed until [`Attempts::succeeded`] or [`Attempts::undo`] says otherwise:
    /// tries at the same moment count, too.
    ///
    /// # Errors
    /// How long to wait, when the try may not be made now. It does not count then.
    pub fn begin(&self, user: &str, origin: Origin, now: Duration) -> Result<(), Duration> {
        let (pairs, peers) = &mut *self.tables.lock();
        let key = pair(user, origin);
        let mut of_pair = pairs.get(&key).copied().unwrap_or_default();
        if now.saturating_sub(of_pair.last) >= PAIR_MEMORY {
            of_pair = PairState::default();
        }
        let over = (of_pair.last + wait_after(of_pair.failures)).saturating_sub(now);
        if !over.is_zero() {
            return Err(over);
        }
        if !of_pair.known {
            let mut of_peer = counted_down(peers.get(&origin), now);
            if of_peer.spent >= PEER_TRIES_MAX {
                return Err((of_peer.last + PEER_TRY_EVERY).saturating_sub(now));
            }
            of_peer.spent += 1;
            make_room(peers, &origin, |state| state.last);
            peers.insert(origin, of_peer);
        }
        of_pair.failures = of_pair.failures.saturating_add(1);
        of_pair.last = now;
        make_room(pairs, &key, |state| state.last);
        pairs.insert(key, of_pair);
        Ok(())
    }

    /// The try that was begun was right.
    pub fn succeeded(&self, user: &str, origin: Origin, now: Duration) {
        let (pairs, peers) = &mut *self.tables.lock();
        let state = PairState { failures: 0, last: now, known: true };
        give_back(peers, origin);
        pairs.insert(pair(user, origin), state);
    }

    /// The try that was begun came to nothing, for no fault of who made it.
    pub fn undo(&self, user: &str, origin: Origin) {
        let (pairs, peers) = &mut *self.tables.lock();
        give_back(peers, origin);
        if let Some(state) = pairs.get_mut(&pair(user, origin)) {
            state.failures = state.failures.saturating_sub(1);
        }
    }

    /// Whether the pair has to wait from now on.
    pub fn locked(&self, user: &str, origin: Origin) -> bool {
        let tables = self.tables.lock();
        tables.0.get(&pair(user, origin)).is_some_and(|state| state.failures >= PAIR_TRIES_FREE)
    }
}

fn pair(user: &str, origin: Origin) -> Pair {
    (user.chars().take(USER_ID_MAX).collect(), origin)
}

fn wait_after(failures: u32) -> Duration {
    match failures.checked_sub(PAIR_TRIES_FREE) {
        None => Duration::ZERO,
        Some(more) => PAIR_WAIT_FIRST.saturating_mul(1 << more.min(16)).min(PAIR_WAIT_MAX),
    }
}

fn counted_down(state: Option<&PeerState>, now: Duration) -> PeerState {
    let Some(&PeerState { spent, last }) = state else { return PeerState { spent: 0, last: now } };
    let back = now.saturating_sub(last).as_secs() / PEER_TRY_EVERY.as_secs();
    let back = u32::try_from(back).unwrap_or(u32::MAX);
    if back >= spent {
        return PeerState { spent: 0, last: now };
    }
    PeerState { spent: spent - back, last: last + PEER_TRY_EVERY * back }
}

fn give_back(peers: &mut HashMap<Origin, PeerState>, origin: Origin) {
    if let Some(state) = peers.get_mut(&origin) {
        state.spent = state.spent.saturating_sub(1);
    }
}

/// Removes the entry that was quiet for longest when the table is full and lacks the key.
fn make_room<K: Eq + Hash + Clone, V>(
    table: &mut HashMap<K, V>,
    key: &K,
    last: impl Fn(&V) -> Duration,
) {
    if table.len() < REMEMBERED_MAX || table.contains_key(key) {
        return;
    }
    let oldest = table.iter().min_by_key(|(_, value)| last(value)).map(|(key, _)| key.clone());
    if let Some(oldest) = oldest {
        table.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn from(text: &str) -> Origin {
        Origin::of(text.parse().expect("an address"))
    }

    #[test]
    fn guessing_one_user_takes_longer_each_time_and_ends_nobody_else_s_tries() {
        let attempts = Attempts::default();
        let (bad, good) = (from("10.0.0.1"), from("10.0.0.2"));
        for _ in 0..PAIR_TRIES_FREE {
            assert_eq!(attempts.begin("ann", bad, SECOND), Ok(()));
        }
        assert_eq!(attempts.begin("ann", bad, SECOND), Err(PAIR_WAIT_FIRST));
        assert!(attempts.locked("ann", bad) && !attempts.locked("ann", good));
        assert_eq!(attempts.begin("ann", good, SECOND), Ok(()), "the same user elsewhere");
        assert_eq!(attempts.begin("bob", bad, SECOND), Ok(()), "another user at the same place");
        let later = SECOND + PAIR_WAIT_FIRST;
        assert_eq!(attempts.begin("ann", bad, later), Ok(()));
        assert_eq!(attempts.begin("ann", bad, later), Err(2 * PAIR_WAIT_FIRST));
        let mut now = later;
        for _ in 0..20 {
            now += PAIR_WAIT_MAX;
            assert_eq!(attempts.begin("ann", bad, now), Ok(()));
        }
        assert_eq!(attempts.begin("ann", bad, now), Err(PAIR_WAIT_MAX));
        assert_eq!(attempts.begin("ann", bad, now + PAIR_MEMORY), Ok(()));
        assert!(!attempts.locked("ann", bad), "it is forgotten");
    }

    #[test]
    fn an_address_has_a_rate_over_all_users_and_gets_tries_back() {
        let attempts = Attempts::default();
        let here = from("10.0.0.1");
        for n in 0..PEER_TRIES_MAX {
            assert_eq!(attempts.begin(&format!("u{n}"), here, SECOND), Ok(()));
        }
        assert_eq!(attempts.begin("more", here, SECOND), Err(PEER_TRY_EVERY));
        assert_eq!(attempts.begin("more", from("10.0.0.2"), SECOND), Ok(()));
        assert_eq!(attempts.begin("more", here, SECOND + PEER_TRY_EVERY), Ok(()));
        assert!(attempts.begin("again", here, SECOND + PEER_TRY_EVERY).is_err());
    }

    #[test]
    fn who_signed_in_from_an_address_before_goes_on_when_others_use_up_its_rate() {
        let attempts = Attempts::default();
        let office = from("192.0.2.1");
        assert_eq!(attempts.begin("ann", office, SECOND), Ok(()));
        attempts.succeeded("ann", office, SECOND);
        for n in 0..PEER_TRIES_MAX {
            assert_eq!(attempts.begin(&format!("u{n}"), office, SECOND), Ok(()));
        }
        assert!(attempts.begin("bob", office, SECOND).is_err());
        assert_eq!(attempts.begin("ann", office, SECOND), Ok(()));
    }

    #[test]
    fn what_was_right_or_came_to_nothing_does_not_count() {
        let attempts = Attempts::default();
        let here = from("10.0.0.1");
        for _ in 0..10 * PEER_TRIES_MAX {
            assert_eq!(attempts.begin("ann", here, SECOND), Ok(()));
            attempts.undo("ann", here);
        }
        for _ in 0..10 * PEER_TRIES_MAX {
            assert_eq!(attempts.begin("ann", here, SECOND), Ok(()));
            attempts.succeeded("ann", here, SECOND);
        }
    }

    #[test]
    fn a_network_of_ipv6_is_one_origin_and_a_mapped_address_its_ipv4() {
        assert_eq!(from("2001:db8::1"), from("2001:db8::ffff:1"));
        assert_ne!(from("2001:db8::1"), from("2001:db8:0:1::1"));
        assert_eq!(from("::ffff:10.0.0.1"), from("10.0.0.1"));
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_latest_stays() {
        let attempts = Attempts::default();
        for n in 0..REMEMBERED_MAX + 10 {
            let address = IpAddr::from(u32::try_from(n).expect("small").to_be_bytes());
            let now = SECOND * u32::try_from(n).expect("small");
            assert_eq!(attempts.begin("ann", Origin::of(address), now), Ok(()));
        }
        let tables = attempts.tables.lock();
        assert_eq!((tables.0.len(), tables.1.len()), (REMEMBERED_MAX, REMEMBERED_MAX));
    }
}
