-- An attempt whose executor stopped goes on under a later dispatch: each that had begun is kept.
CREATE TABLE attempt_by_fence (
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
    PRIMARY KEY (run_id, number, fence)
) STRICT;
INSERT INTO attempt_by_fence
SELECT run_id, number, fence, executor, session_epoch, outcome, failure, dispatched_at, acked_at,
    handler_start_at, ended_at, duration_us, last_log_seq, late_outcome
FROM attempt;
DROP TABLE attempt;
ALTER TABLE attempt_by_fence RENAME TO attempt;

-- The dispatch that wrote a chunk (0: not known), and what was added to its own numbers, so that
-- its records go behind those of an earlier one.
ALTER TABLE log_chunk ADD COLUMN fence INTEGER NOT NULL DEFAULT 0;
ALTER TABLE log_chunk ADD COLUMN base INTEGER NOT NULL DEFAULT 0;
