-- Several nodes share the jobs and reach each other's executors.

-- The number of the advisory lock by which the others see that the node's process lives, and
-- whether somebody asked it, on whatever node, to give its work away.
ALTER TABLE node ADD COLUMN lock_key int NOT NULL DEFAULT 0;
ALTER TABLE node ADD COLUMN drain_asked boolean NOT NULL DEFAULT false;

-- What each session can take, as the node that holds it says when that changes. Rows are hints of
-- the moment: after a crash of the server each node writes its own anew.
CREATE UNLOGGED TABLE session_load (
    executor bigint PRIMARY KEY REFERENCES executor (id) ON DELETE CASCADE,
    app_id   bigint NOT NULL,
    name     text NOT NULL,
    node     text NOT NULL,
    epoch    bigint NOT NULL,
    at       timestamptz NOT NULL,
    ended_at timestamptz,
    load     text NOT NULL
) WITH (fillfactor = 50);

-- Runs that a node is to look at: sent on a session of its own, or to be stopped there. The run's
-- row is the message; what is lost here is handed over again.
CREATE UNLOGGED TABLE node_inbox (
    node   text NOT NULL,
    seq    bigint GENERATED ALWAYS AS IDENTITY,
    run_id uuid NOT NULL,
    again  boolean NOT NULL,
    PRIMARY KEY (node, seq)
);

-- While several owners share the jobs, the runs that count towards the limits of their apps, and
-- those that wait for that, in the order of `place`. Few: apps without a limit have none here.
CREATE TABLE run_permit (
    run_id    uuid PRIMARY KEY,
    app_id    bigint NOT NULL,
    handler   text NOT NULL,
    partition smallint NOT NULL,
    place     timestamptz NOT NULL,
    granted   boolean NOT NULL,
    asked_at  timestamptz NOT NULL
);
CREATE INDEX run_permit_app ON run_permit (app_id);

-- The epoch whose owner has put its runs under way into run_permit.
ALTER TABLE partition ADD COLUMN counted_epoch bigint NOT NULL DEFAULT -1;
