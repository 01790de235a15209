-- Words and shapes: see scheduler/README.md. Instants are timestamptz in whole microseconds, run
-- ids are ULIDs in uuid columns (same 16 bytes, so they sort by time), states are text.

CREATE TABLE cluster_secret (
    name   text PRIMARY KEY,
    value  bytea NOT NULL
);

CREATE TABLE node (
    id                  text PRIMARY KEY,
    version             text NOT NULL,
    advertise_address   text NOT NULL,
    draining            boolean NOT NULL,
    gone                boolean NOT NULL,
    started_at          timestamptz NOT NULL,
    last_seen_at        timestamptz NOT NULL,
    sessions            int NOT NULL,
    partitions          int[] NOT NULL,
    clock_offset_us     bigint NOT NULL,
    lag_us              bigint NOT NULL,
    database_latency_us bigint NOT NULL
);

-- One row per share of the jobs. Every change of a job locks its row; only the owner moves the
-- times. The row's lock is also the order between a plan under way and a change of a job.
CREATE TABLE partition (
    id            smallint PRIMARY KEY CHECK (id BETWEEN 0 AND 63),
    epoch         bigint NOT NULL DEFAULT 0,
    node          text NOT NULL DEFAULT '',
    planned_until timestamptz,
    served_until  timestamptz,
    jobs_version  bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 10);
INSERT INTO partition (id) SELECT generate_series(0, 63);

CREATE TABLE app (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text NOT NULL UNIQUE,
    spec       jsonb NOT NULL,
    version    bigint NOT NULL,
    created_at timestamptz NOT NULL
);

CREATE TABLE job (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    app_id           bigint NOT NULL REFERENCES app (id),
    name             text NOT NULL,
    partition        smallint NOT NULL,
    state            text NOT NULL CHECK (state IN ('ACTIVE', 'PAUSED', 'EXPIRED')),
    spec             jsonb NOT NULL,
    revision         bigint NOT NULL,
    version          bigint NOT NULL,
    jobs_version     bigint NOT NULL,
    created_at       timestamptz NOT NULL,
    updated_at       timestamptz NOT NULL,
    updated_by       text NOT NULL,
    pause_until      timestamptz,
    pause_reason     text NOT NULL DEFAULT '',
    effective_from   timestamptz NOT NULL,
    next_fire_at     timestamptz,
    problem          text NOT NULL DEFAULT '',
    deleted_at       timestamptz
);
CREATE UNIQUE INDEX job_name ON job (app_id, name) WHERE deleted_at IS NULL;
CREATE INDEX job_changed ON job (partition, jobs_version);
CREATE INDEX job_deleted ON job (deleted_at) WHERE deleted_at IS NOT NULL;
-- Few jobs have a retention of their own; the clean-up finds them without reading all specs.
CREATE INDEX job_retention ON job (id) WHERE spec -> 'run_retention' ->> 'secs' IS NOT NULL;

CREATE TABLE job_revision (
    job_id     bigint NOT NULL REFERENCES job (id) ON DELETE CASCADE,
    revision   bigint NOT NULL,
    spec       jsonb NOT NULL,
    updated_at timestamptz NOT NULL,
    updated_by text NOT NULL,
    PRIMARY KEY (job_id, revision)
);

-- Runs that have not ended. Small and hot: looked up by id only on the way of a fire. No index may
-- name a column that changes, or updates stop being HOT. What changes comes last, so that an update
-- logs little else.
CREATE TABLE open_run (
    id             uuid PRIMARY KEY,
    job_id         bigint NOT NULL,
    app_id         bigint NOT NULL,
    revision       bigint NOT NULL,
    fire_at        timestamptz NOT NULL,
    due_at         timestamptz NOT NULL,
    created_at     timestamptz NOT NULL,
    attempt        int NOT NULL DEFAULT 1,
    lost           int NOT NULL DEFAULT 0,
    partition      smallint NOT NULL,
    trigger        text NOT NULL
        CHECK (trigger IN ('SCHEDULE', 'API', 'RERUN', 'MISFIRE', 'CHAIN', 'BACKFILL')),
    extra          jsonb,
    message        text NOT NULL DEFAULT '',
    kill_reason    text,
    state          text NOT NULL
        CHECK (state IN ('QUEUED', 'DISPATCHED', 'RUNNING', 'CANCELING', 'RETRY_WAIT')),
    executor       text,
    fence          bigint NOT NULL DEFAULT 0,
    session_epoch  bigint NOT NULL DEFAULT 0,
    dispatched_at  timestamptz,
    acked_at       timestamptz,
    started_at     timestamptz,
    kill_at        timestamptz,
    kill_grace_us  bigint
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX open_run_job ON open_run (job_id);

-- Runs that have ended: append-only, a partition per day of the id's time, dropped whole. What most
-- runs lack is NULL, also a due_at that is the fire_at and an acked_at that is the started_at. Each
-- index costs a tenth of what a run costs in all, so there are two, and one of what went wrong: a
-- list of an app is read by its jobs.
CREATE TABLE ended_run (
    id               uuid NOT NULL,
    job_id           bigint NOT NULL,
    app_id           bigint NOT NULL,
    revision         bigint NOT NULL,
    fence            bigint NOT NULL,
    session_epoch    bigint NOT NULL,
    fire_at          timestamptz NOT NULL,
    due_at           timestamptz,
    created_at       timestamptz NOT NULL,
    dispatched_at    timestamptz,
    acked_at         timestamptz,
    started_at       timestamptz,
    ended_at         timestamptz NOT NULL,
    handler_start_at timestamptz,
    duration_us      bigint,
    last_log_seq     bigint,
    missed_until     timestamptz,
    attempt          int NOT NULL,
    lost             int,
    missed_count     int,
    progress         real,
    output_truncated boolean,
    trigger          text NOT NULL,
    state            text NOT NULL
        CHECK (state IN ('SUCCEEDED', 'FAILED', 'CANCELED', 'TIMED_OUT', 'LOST', 'SKIPPED')),
    outcome          text,
    late_outcome     text,
    kill_reason      text,
    executor         text,
    message          text,
    progress_message text,
    failure          jsonb,
    extra            jsonb,
    output_type      text,
    output           bytea,
    PRIMARY KEY (id)
) PARTITION BY RANGE (id);
CREATE INDEX ended_run_job ON ended_run (job_id, id);
CREATE INDEX ended_run_trouble ON ended_run (id) WHERE state <> 'SUCCEEDED';

-- Whatever falls on a day whose partition was not made in time.
CREATE TABLE ended_run_default PARTITION OF ended_run DEFAULT;

-- Attempts before the current one; the current one's facts are on the run's own row.
CREATE TABLE attempt (
    run_id           uuid NOT NULL,
    number           int NOT NULL,
    fence            bigint NOT NULL,
    executor         text,
    session_epoch    bigint NOT NULL,
    outcome          text,
    failure          jsonb,
    dispatched_at    timestamptz,
    acked_at         timestamptz,
    handler_start_at timestamptz,
    ended_at         timestamptz NOT NULL,
    duration_us      bigint,
    last_log_seq     bigint NOT NULL DEFAULT 0,
    late_outcome     text,
    PRIMARY KEY (run_id, number)
);

-- Ids of runs that somebody other than the owner made or changed; the owner empties it. A row per
-- change and none shared by two: the owner, who takes a row away, has then seen its change.
CREATE TABLE run_inbox (
    partition smallint NOT NULL,
    seq       bigint GENERATED ALWAYS AS IDENTITY,
    run_id    uuid NOT NULL,
    PRIMARY KEY (partition, seq)
);

CREATE TABLE run_progress (
    run_id          uuid PRIMARY KEY,
    attempt         int NOT NULL,
    fraction        real,
    message         text NOT NULL DEFAULT '',
    checkpoint_type text,
    checkpoint      bytea
);

-- One row per batch of changes, for watchers; kept an hour. `tx` orders rows by transaction: a
-- reader serves only what lies below the oldest transaction still open.
CREATE TABLE run_event (
    tx      xid8 NOT NULL DEFAULT pg_current_xact_id(),
    seq     bigint GENERATED ALWAYS AS IDENTITY,
    at      timestamptz NOT NULL,
    changed uuid[] NOT NULL,
    deleted uuid[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (tx, seq)
);
CREATE INDEX run_event_at ON run_event USING brin (at);
-- Random ids don't compress.
ALTER TABLE run_event ALTER COLUMN changed SET STORAGE EXTERNAL;

-- The newest event that was removed: a watcher that stands before it has missed something.
CREATE TABLE run_event_floor (
    tx  xid8 NOT NULL,
    seq bigint NOT NULL
);
INSERT INTO run_event_floor VALUES ('0', 0);

-- Log records in chunks as they arrived. `bytes` counts the attempt's records up to this chunk.
CREATE TABLE log_chunk (
    run_id       uuid NOT NULL,
    attempt      int NOT NULL,
    first_seq    bigint NOT NULL,
    last_seq     bigint NOT NULL,
    record_count bigint NOT NULL,
    dropped      bigint NOT NULL,
    bytes        bigint NOT NULL,
    stored_at    timestamptz NOT NULL,
    records      bytea NOT NULL,
    PRIMARY KEY (run_id, attempt, first_seq)
);

CREATE TABLE route_cursor (
    job_id bigint PRIMARY KEY,
    cursor bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE executor (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    app_id          bigint NOT NULL REFERENCES app (id),
    name            text NOT NULL,
    spec            jsonb NOT NULL,
    instance_id     text NOT NULL,
    resume_hash     bytea NOT NULL,
    principal       text NOT NULL,
    session_epoch   bigint NOT NULL,
    node            text NOT NULL,
    cordoned        boolean NOT NULL DEFAULT false,
    cordon_reason   text NOT NULL DEFAULT '',
    peer_address    text NOT NULL,
    connected_at    timestamptz NOT NULL,
    disconnected_at timestamptz,
    gone            boolean NOT NULL DEFAULT false,
    last_seen_at    timestamptz NOT NULL,
    UNIQUE (app_id, name)
);

CREATE TABLE token (
    id                   text PRIMARY KEY,
    secret_hash          bytea NOT NULL,
    display_name         text NOT NULL,
    grants               jsonb NOT NULL,
    executor_id_patterns jsonb NOT NULL,
    handler_patterns     jsonb NOT NULL,
    owner                text NOT NULL,
    created_at           timestamptz NOT NULL,
    expires_at           timestamptz,
    revoked_at           timestamptz,
    last_used_at         timestamptz
);

-- Answers to requests with a request id, kept a day.
CREATE TABLE request (
    key       text PRIMARY KEY,
    body_hash bytea NOT NULL,
    answer    text NOT NULL,
    at        timestamptz NOT NULL
);
