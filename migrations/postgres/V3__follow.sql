-- Ends of runs that somebody follows up: the jobs of a chain, a parent of shards, alarms. A row is
-- written by the statement that ends the run and taken away by the transaction that writes what
-- follows, so that each end has its effects once.
CREATE TABLE end_event (
    seq      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id   uuid NOT NULL,
    job_id   bigint NOT NULL,
    app_id   bigint NOT NULL,
    revision bigint NOT NULL,
    trigger  text NOT NULL,
    state    text NOT NULL,
    fire_at  timestamptz NOT NULL,
    ended_at timestamptz NOT NULL,
    extra    jsonb
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- States whose every end makes an event, whoever's run it is, and who wishes it.
CREATE TABLE end_wish (
    state  text NOT NULL
        CHECK (state IN ('SUCCEEDED', 'FAILED', 'CANCELED', 'TIMED_OUT', 'LOST')),
    wisher text NOT NULL,
    PRIMARY KEY (state, wisher)
);
