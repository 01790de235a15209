//! ClawJob's database schema: numbered SQL files, embedded.
//!
//! Migrations expand first and contract a release later, so that the previous version of the
//! scheduler goes on working beside the new one. refinery takes no lock of its own: the caller
//! holds an advisory lock (Postgres) or the data directory's lock file (SQLite) while it runs them.

/// The Postgres schema.
pub mod postgres {
    #![allow(missing_docs)]
    refinery::embed_migrations!("postgres");
}

/// The SQLite schema.
pub mod sqlite {
    #![allow(missing_docs)]
    refinery::embed_migrations!("sqlite");
}
