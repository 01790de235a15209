-- Words and shapes: see scheduler/README.md. Instants are INTEGER microseconds since 1970, run ids
-- are ULIDs as 16-byte BLOBs (they sort by time), JSON is TEXT, states are text. A CHECK with IN
-- would make SQLite build a table of the words for each row written: hence the ORs.

CREATE TABLE cluster_secret (
    name   TEXT PRIMARY KEY,
    value  BLOB NOT NULL
) STRICT;

CREATE TABLE node (
    id                  TEXT PRIMARY KEY,
    version             TEXT NOT NULL,
    advertise_address   TEXT NOT NULL,
    draining            INTEGER NOT NULL,
    gone                INTEGER NOT NULL,
    started_at          INTEGER NOT NULL,
    last_seen_at        INTEGER NOT NULL,
    sessions            INTEGER NOT NULL,
    partitions          TEXT NOT NULL,
    clock_offset_us     INTEGER NOT NULL,
    lag_us              INTEGER NOT NULL,
    database_latency_us INTEGER NOT NULL
) STRICT;

-- One row per share of the jobs. Every change of a job locks its row; only the owner moves the
-- times. The row's lock is also the order between a plan under way and a change of a job.
CREATE TABLE partition (
    id            INTEGER PRIMARY KEY CHECK (id BETWEEN 0 AND 63),
    epoch         INTEGER NOT NULL DEFAULT 0,
    node          TEXT NOT NULL DEFAULT '',
    planned_until INTEGER,
    served_until  INTEGER,
    jobs_version  INTEGER NOT NULL DEFAULT 0
) STRICT;
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 63)
INSERT INTO partition (id) SELECT i FROM n;

CREATE TABLE app (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT NOT NULL UNIQUE,
    spec       TEXT NOT NULL,
    version    INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE job (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    app_id           INTEGER NOT NULL REFERENCES app (id),
    name             TEXT NOT NULL,
    partition        INTEGER NOT NULL,
    state            TEXT NOT NULL
        CHECK (state = 'ACTIVE' OR state = 'PAUSED' OR state = 'EXPIRED'),
    spec             TEXT NOT NULL,
    revision         INTEGER NOT NULL,
    version          INTEGER NOT NULL,
    jobs_version     INTEGER NOT NULL,
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,
    updated_by       TEXT NOT NULL,
    pause_until      INTEGER,
    pause_reason     TEXT NOT NULL DEFAULT '',
    effective_from   INTEGER NOT NULL,
    next_fire_at     INTEGER,
    problem          TEXT NOT NULL DEFAULT '',
    deleted_at       INTEGER
) STRICT;
CREATE UNIQUE INDEX job_name ON job (app_id, name) WHERE deleted_at IS NULL;
CREATE INDEX job_changed ON job (partition, jobs_version);
CREATE INDEX job_deleted ON job (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX job_own_retention ON job (id) WHERE instr(spec, '"run_retention":{') > 0;

CREATE TABLE job_revision (
    job_id     INTEGER NOT NULL REFERENCES job (id) ON DELETE CASCADE,
    revision   INTEGER NOT NULL,
    spec       TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    updated_by TEXT NOT NULL,
    PRIMARY KEY (job_id, revision)
) STRICT;

-- Runs that have not ended. Small and hot: looked up by id only on the way of
-- a fire.
CREATE TABLE open_run (
    id             BLOB PRIMARY KEY,
    job_id         INTEGER NOT NULL,
    app_id         INTEGER NOT NULL,
    partition      INTEGER NOT NULL,
    revision       INTEGER NOT NULL,
    trigger        TEXT NOT NULL
        CHECK (trigger = 'SCHEDULE' OR trigger = 'API' OR trigger = 'RERUN'
            OR trigger = 'MISFIRE' OR trigger = 'CHAIN' OR trigger = 'BACKFILL'),
    state          TEXT NOT NULL
        CHECK (state = 'QUEUED' OR state = 'DISPATCHED' OR state = 'RUNNING'
            OR state = 'CANCELING' OR state = 'RETRY_WAIT'),
    fire_at        INTEGER NOT NULL,
    due_at         INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    attempt        INTEGER NOT NULL DEFAULT 1,
    fence          INTEGER NOT NULL DEFAULT 0,
    lost           INTEGER NOT NULL DEFAULT 0,
    executor       TEXT,
    session_epoch  INTEGER NOT NULL DEFAULT 0,
    dispatched_at  INTEGER,
    acked_at       INTEGER,
    started_at     INTEGER,
    kill_reason    TEXT,
    kill_at        INTEGER,
    kill_grace_us  INTEGER,
    message        TEXT NOT NULL DEFAULT '',
    extra          TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX open_run_job ON open_run (job_id);

-- Runs that have ended: append-only, in order of time.
CREATE TABLE ended_run (
    id               BLOB NOT NULL,
    job_id           INTEGER NOT NULL,
    app_id           INTEGER NOT NULL,
    revision         INTEGER NOT NULL,
    trigger          TEXT NOT NULL,
    state            TEXT NOT NULL
        CHECK (state = 'SUCCEEDED' OR state = 'FAILED' OR state = 'CANCELED'
            OR state = 'TIMED_OUT' OR state = 'LOST' OR state = 'SKIPPED'),
    fire_at          INTEGER NOT NULL,
    due_at           INTEGER NOT NULL,
    created_at       INTEGER NOT NULL,
    attempt          INTEGER NOT NULL,
    fence            INTEGER NOT NULL,
    lost             INTEGER NOT NULL,
    executor         TEXT,
    session_epoch    INTEGER NOT NULL,
    dispatched_at    INTEGER,
    acked_at         INTEGER,
    started_at       INTEGER,
    ended_at         INTEGER NOT NULL,
    outcome          TEXT,
    failure          TEXT,
    handler_start_at INTEGER,
    duration_us      INTEGER,
    last_log_seq     INTEGER NOT NULL DEFAULT 0,
    output_type      TEXT,
    output           BLOB,
    output_truncated INTEGER NOT NULL DEFAULT 0,
    kill_reason      TEXT,
    message          TEXT NOT NULL DEFAULT '',
    extra            TEXT,
    progress         REAL,
    progress_message TEXT NOT NULL DEFAULT '',
    missed_count     INTEGER NOT NULL DEFAULT 0,
    missed_until     INTEGER,
    late_outcome     TEXT,
    PRIMARY KEY (id)
) STRICT, WITHOUT ROWID;
CREATE INDEX ended_run_job ON ended_run (job_id, id);
CREATE INDEX ended_run_app ON ended_run (app_id, id);
CREATE INDEX ended_run_trouble ON ended_run (app_id, id) WHERE state <> 'SUCCEEDED';

-- Attempts before the current one; the current one's facts are on the run's own row.
CREATE TABLE attempt (
    run_id           BLOB NOT NULL,
    number           INTEGER NOT NULL,
    fence            INTEGER NOT NULL,
    executor         TEXT,
    session_epoch    INTEGER NOT NULL,
    outcome          TEXT,
    failure          TEXT,
    dispatched_at    INTEGER,
    acked_at         INTEGER,
    handler_start_at INTEGER,
    ended_at         INTEGER NOT NULL,
    duration_us      INTEGER,
    last_log_seq     INTEGER NOT NULL DEFAULT 0,
    late_outcome     TEXT,
    PRIMARY KEY (run_id, number)
) STRICT;

-- Ids of runs that somebody other than the owner made or changed; the owner empties it.
CREATE TABLE run_inbox (
    partition INTEGER NOT NULL,
    run_id    BLOB NOT NULL,
    PRIMARY KEY (partition, run_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE run_progress (
    run_id          BLOB PRIMARY KEY,
    attempt         INTEGER NOT NULL,
    fraction        REAL,
    message         TEXT NOT NULL DEFAULT '',
    checkpoint_type TEXT,
    checkpoint      BLOB
) STRICT;

-- One row per batch of changes, for watchers; kept an hour. Ids stand one after the other.
CREATE TABLE run_event (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    changed BLOB NOT NULL,
    deleted BLOB NOT NULL
) STRICT;
CREATE INDEX run_event_at ON run_event (at);

-- Log records in chunks as they arrived. `bytes` counts the attempt's records up to this chunk.
CREATE TABLE log_chunk (
    run_id       BLOB NOT NULL,
    attempt      INTEGER NOT NULL,
    first_seq    INTEGER NOT NULL,
    last_seq     INTEGER NOT NULL,
    record_count INTEGER NOT NULL,
    dropped      INTEGER NOT NULL,
    bytes        INTEGER NOT NULL,
    stored_at    INTEGER NOT NULL,
    records      BLOB NOT NULL,
    PRIMARY KEY (run_id, attempt, first_seq)
) STRICT;

CREATE TABLE route_cursor (
    job_id INTEGER PRIMARY KEY,
    cursor INTEGER NOT NULL
) STRICT;

CREATE TABLE executor (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    app_id          INTEGER NOT NULL REFERENCES app (id),
    name            TEXT NOT NULL,
    spec            TEXT NOT NULL,
    instance_id     TEXT NOT NULL,
    resume_hash     BLOB NOT NULL,
    principal       TEXT NOT NULL,
    session_epoch   INTEGER NOT NULL,
    node            TEXT NOT NULL,
    cordoned        INTEGER NOT NULL DEFAULT 0,
    cordon_reason   TEXT NOT NULL DEFAULT '',
    peer_address    TEXT NOT NULL,
    connected_at    INTEGER NOT NULL,
    disconnected_at INTEGER,
    gone            INTEGER NOT NULL DEFAULT 0,
    last_seen_at    INTEGER NOT NULL,
    UNIQUE (app_id, name)
) STRICT;

CREATE TABLE token (
    id                   TEXT PRIMARY KEY,
    secret_hash          BLOB NOT NULL,
    display_name         TEXT NOT NULL,
    grants               TEXT NOT NULL,
    executor_id_patterns TEXT NOT NULL,
    handler_patterns     TEXT NOT NULL,
    owner                TEXT NOT NULL,
    created_at           INTEGER NOT NULL,
    expires_at           INTEGER,
    revoked_at           INTEGER,
    last_used_at         INTEGER
) STRICT;

-- Answers to requests with a request id, kept a day.
CREATE TABLE request (
    key       TEXT PRIMARY KEY,
    body_hash BLOB NOT NULL,
    answer    TEXT NOT NULL,
    at        INTEGER NOT NULL
) STRICT;
