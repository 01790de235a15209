//! Policies of jobs, each on a clock that is moved by hand.

#[path = "support/flaky.rs"]
mod flaky;
#[path = "support/receivers.rs"]
mod receivers;
#[path = "support/world.rs"]
mod world;

#[path = "policies/alarms.rs"]
mod alarms;
#[path = "policies/backfill.rs"]
mod backfill;
#[path = "policies/chains.rs"]
mod chains;
#[path = "policies/limits.rs"]
mod limits;
#[path = "policies/load.rs"]
mod load;
#[path = "policies/misfire.rs"]
mod misfire;
#[path = "policies/overlap.rs"]
mod overlap;
#[path = "policies/retries.rs"]
mod retries;
#[path = "policies/routing.rs"]
mod routing;
#[path = "policies/schedules.rs"]
mod schedules;
#[path = "policies/sessions.rs"]
mod sessions;
#[path = "policies/shards.rs"]
mod shards;
#[path = "policies/timeouts.rs"]
mod timeouts;
