//! ClawJob's database schema: numbered SQL files, embedded.
//!
//! Migrations expand first and contract a release later, so that the previous version of the
//! scheduler goes on working beside the new one. refinery takes no lock of its own: the caller
//! holds an advisory lock (Postgres) or the data directory's lock file (SQLite) while it runs them.

use refinery::{Migration, Runner};

mod postgres {
    #![allow(unreachable_pub, reason = "made by a macro")]
    refinery::embed_migrations!("postgres");
}

mod sqlite {
    #![allow(unreachable_pub, reason = "made by a macro")]
    refinery::embed_migrations!("sqlite");
}

/// Brings a Postgres schema up to date.
pub fn postgres() -> Runner {
    beside_newer(postgres::migrations::runner())
}

/// Brings a SQLite schema up to date.
pub fn sqlite() -> Runner {
    beside_newer(sqlite::migrations::runner())
}

/// What a newer version has applied is let be: it has only expanded the schema, so its previous
/// version works on, and can be gone back to.
fn beside_newer(runner: Runner) -> Runner {
    runner.set_abort_missing(false)
}

/// The newest of the `applied` migrations if it is newer than all that the runner knows: the
/// database was used by a newer version of the program.
pub fn newer<'a>(runner: &Runner, applied: &'a [Migration]) -> Option<&'a Migration> {
    let known = runner.get_migrations().iter().map(Migration::version).max();
    let newest = applied.iter().max_by_key(|migration| migration.version())?;
    (Some(newest.version()) > known).then_some(newest)
}
