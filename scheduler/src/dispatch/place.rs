//! Which waiting runs go to which executors: the heads of all lanes in one order, each with the
//! executor that its route picks, as long as slots and the app's limits allow.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use chrono::{DateTime, Utc};

use crate::{
    board::{AppRoom, Board, Demand, LaneKey, Pick},
    fleet::{Reach, Slot},
    hub::Candidate,
    model::{
        ids::{AppId, JobId, RunId},
        job::RouteStrategy,
        route::{RouteCursor, Uses},
    },
    route::{self, Choice, RouteState},
    store::OWNER_BATCH_MAX,
};

/// Runs of one placement: of some statements, so that one can be written while another is sent.
pub(super) const PLACED_MAX: usize = 4 * OWNER_BATCH_MAX;

/// A run with the executor it is to go to.
pub(super) struct Placed {
    pub(super) pick: Pick,
    pub(super) slot: Slot,
}

/// What one step of dispatch sends, and where the routes of those jobs stand after it.
#[derive(Default)]
pub(super) struct Placement {
    pub(super) runs: Vec<Placed>,
    pub(super) cursors: Vec<(JobId, RouteCursor)>,
    /// Jobs whose turn is to be read before anything can be placed.
    pub(super) unread: Vec<JobId>,
}

impl Placement {
    /// What the routes that count have counted.
    pub(super) fn uses(&self) -> Vec<(JobId, Uses)> {
        let counts = |run: &&Placed| run.pick.route.counts();
        let jobs: HashSet<JobId> =
            self.runs.iter().filter(counts).map(|run| run.pick.job).collect();
        let counted = self.cursors.iter().filter(|(job, _)| jobs.contains(job));
        counted.filter_map(|(job, cursor)| Some((*job, cursor.uses.clone()?))).collect()
    }
}

/// A lane with the executors that its runs may go to.
struct OpenLane {
    key: Arc<LaneKey>,
    candidates: Vec<Candidate>,
}

impl OpenLane {
    /// How many of its runs can be sent at most.
    fn most(&self, rooms: &HashMap<AppId, Option<AppRoom>>) -> usize {
        let free: u32 = self.candidates.iter().map(|candidate| candidate.free).sum();
        free.min(allowed(rooms, &self.key)) as usize
    }
}

/// What is left of a lane's executors: less with every run that is placed, also in other lanes.
struct Left<'a> {
    key: &'a LaneKey,
    choices: Vec<Choice<'a>>,
    /// Runs of any handlers that each can take.
    rooms: Vec<u32>,
}

/// Finds executors for the first runs of all lanes, at most [`PLACED_MAX`], and reserves their slots. Only
/// runs that may be sent are looked at.
pub(super) fn place(
    board: &Board,
    reach: &Reach,
    now: DateTime<Utc>,
    may: &dyn Fn(AppId, RunId) -> bool,
) -> Placement {
    let mut rooms = HashMap::new();
    let lanes = open_lanes(board, reach, &mut rooms, now);
    let mut left: Vec<Left<'_>> = lanes.iter().map(Left::of).collect();
    let wanted: Vec<(Arc<LaneKey>, usize)> =
        lanes.iter().map(|lane| (lane.key.clone(), lane.most(&rooms))).collect();
    let mut by_app: HashMap<AppId, Vec<usize>> = HashMap::new();
    for (index, lane) in lanes.iter().enumerate() {
        by_app.entry(lane.key.app).or_default().push(index);
    }
    let heads = board.heads(&wanted, PLACED_MAX);
    let unread = unread(heads.iter().map(|(_, pick)| pick));
    if !unread.is_empty() {
        return Placement { unread, ..Placement::default() };
    }
    let mut cursors = HashMap::new();
    let mut runs = Vec::new();
    for (index, pick) in heads {
        let key = &lanes[index].key;
        if allowed(&rooms, key) == 0 || !may(key.app, pick.attempt.run) {
            continue;
        }
        let Some(chosen) = left[index].choose(&pick, &mut cursors) else { continue };
        if let Some(Some(room)) = rooms.get_mut(&key.app) {
            room.take(&key.handler);
        }
        let candidate = &lanes[index].candidates[chosen];
        for sharing in &by_app[&key.app] {
            left[*sharing].take(candidate.row, &key.handler);
        }
        let slot = Slot {
            app: key.app,
            executor: candidate.name.clone(),
            row: candidate.row,
            epoch: candidate.epoch,
            node: candidate.node.clone(),
            handler: key.handler.clone(),
        };
        runs.push(Placed { pick, slot });
    }
    let (runs, cursors) = (reserve(reach, runs, now), cursors.into_iter().collect());
    Placement { runs, cursors, unread }
}

/// How many of the runs that wait can be sent: about, where lanes share executors.
pub(super) fn sendable(board: &Board, reach: &Reach, now: DateTime<Utc>) -> usize {
    let mut rooms = HashMap::new();
    let lanes = open_lanes(board, reach, &mut rooms, now);
    lanes.iter().map(|lane| lane.most(&rooms).min(board.waiting_in(&lane.key))).sum()
}

/// The jobs whose turn is asked for and not known, each once.
fn unread<'a>(picks: impl Iterator<Item = &'a Pick>) -> Vec<JobId> {
    let unread = picks
        .filter(|pick| pick.route == RouteStrategy::RoundRobin)
        .filter(|pick| pick.cursor.turn.is_none());
    unread.map(|pick| pick.job).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Lanes whose runs have somewhere to go, with how much the limits of their apps leave.
fn open_lanes(
    board: &Board,
    reach: &Reach,
    rooms: &mut HashMap<AppId, Option<AppRoom>>,
    now: DateTime<Utc>,
) -> Vec<OpenLane> {
    let mut lanes = Vec::new();
    for key in board.waiting_lanes() {
        rooms.entry(key.app).or_insert_with(|| board.room(key.app));
        if allowed(rooms, &key) == 0 {
            continue;
        }
        let mut candidates = eligible(reach, &key, now);
        reach.lend(key.app, &mut candidates, now);
        if candidates.iter().any(|candidate| candidate.free > 0) {
            lanes.push(OpenLane { key, candidates });
        }
    }
    lanes
}

fn allowed(rooms: &HashMap<AppId, Option<AppRoom>>, key: &LaneKey) -> u32 {
    rooms.get(&key.app).and_then(Option::as_ref).map_or(u32::MAX, |room| room.of(&key.handler))
}

/// The executors that runs of a lane may go to, full ones too. A key has one.
pub(super) fn eligible(reach: &Reach, key: &LaneKey, now: DateTime<Utc>) -> Vec<Candidate> {
    let mut candidates = reach.candidates(key.app, &key.handler, &key.labels, now);
    if !key.target.is_empty() {
        candidates.retain(|candidate| *candidate.name == *key.target);
    } else if let Demand::Key(route_key) = &key.demand {
        let choices: Vec<Choice<'_>> = candidates.iter().map(choice).collect();
        let owner = route::owner(&choices, route_key);
        return owner.map(|owner| candidates.swap_remove(owner)).into_iter().collect();
    }
    candidates
}

fn choice(candidate: &Candidate) -> Choice<'_> {
    Choice {
        row: candidate.row,
        name: &candidate.name,
        free: candidate.free,
        used: candidate.used,
        slots: candidate.slots,
        cpu: candidate.cpu,
        silent: candidate.silent,
    }
}

impl<'a> Left<'a> {
    fn of(lane: &'a OpenLane) -> Self {
        Self {
            key: &lane.key,
            choices: lane.candidates.iter().map(choice).collect(),
            rooms: lane.candidates.iter().map(|candidate| candidate.room).collect(),
        }
    }

    /// The executor for a run of the lane, and its job's route moved on by it.
    fn choose(&self, pick: &Pick, cursors: &mut HashMap<JobId, RouteCursor>) -> Option<usize> {
        let route = pick.route;
        let (key, busy_threshold) = match &self.key.demand {
            Demand::Key(key) => (key.as_str(), 0.0),
            Demand::Load(bits) => ("", f32::from_bits(*bits)),
            Demand::None => ("", 0.0),
        };
        let cursor = cursors.get(&pick.job).unwrap_or(&pick.cursor);
        let state = RouteState { cursor, key, busy_threshold, random: rand::random() };
        let chosen = route::pick(route, &self.choices, state)?;
        if route.remembers() {
            let cursor = cursors.entry(pick.job).or_insert_with(|| pick.cursor.clone());
            route::note(route, &self.choices, chosen, cursor);
        }
        Some(chosen)
    }

    /// A run of the handler goes to an executor: there is one slot less there.
    fn take(&mut self, row: i64, handler: &str) {
        let Ok(index) = self.choices.binary_search_by_key(&row, |choice| choice.row) else {
            return;
        };
        let (choice, room) = (&mut self.choices[index], &mut self.rooms[index]);
        *room = room.saturating_sub(1);
        choice.used += 1;
        if *self.key.handler == *handler {
            choice.free = choice.free.saturating_sub(1);
        }
        choice.free = choice.free.min(*room);
    }
}

/// Keeps those whose executor still has the slots; takes them.
fn reserve(reach: &Reach, placed: Vec<Placed>, now: DateTime<Utc>) -> Vec<Placed> {
    let mut wanted: HashMap<Slot, u32> = HashMap::new();
    for run in &placed {
        *wanted.entry(run.slot.clone()).or_default() += 1;
    }
    wanted.retain(|slot, n| reach.reserve(slot, *n, now));
    placed.into_iter().filter(|run| wanted.contains_key(&run.slot)).collect()
}
