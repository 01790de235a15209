-- Ends of runs that somebody follows up: the jobs of a chain, a parent of shards, alarms. A row is
-- written with the end of the run and taken away by the transaction that writes what follows, so
-- that each end has its effects once.
CREATE TABLE end_event (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id   BLOB NOT NULL,
    job_id   INTEGER NOT NULL,
    app_id   INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    trigger  TEXT NOT NULL,
    state    TEXT NOT NULL,
    fire_at  INTEGER NOT NULL,
    ended_at INTEGER NOT NULL,
    extra    TEXT
) STRICT;

-- States whose every end makes an event, whoever's run it is, and who wishes it.
CREATE TABLE end_wish (
    state  TEXT NOT NULL
        CHECK (state IN ('SUCCEEDED', 'FAILED', 'CANCELED', 'TIMED_OUT', 'LOST')),
    wisher TEXT NOT NULL,
    PRIMARY KEY (state, wisher)
) STRICT, WITHOUT ROWID;
