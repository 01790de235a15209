-- Named sets of days that schedules include or exclude.
CREATE TABLE calendar (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    app_id  bigint NOT NULL REFERENCES app (id),
    name    text NOT NULL,
    spec    jsonb NOT NULL,
    version bigint NOT NULL,
    UNIQUE (app_id, name)
);

-- Which jobs a change of a calendar plans anew: one row per job and calendar that its schedules
-- name now, whatever they named in earlier revisions.
CREATE TABLE job_calendar (
    calendar_id bigint NOT NULL REFERENCES calendar (id),
    job_id      bigint NOT NULL REFERENCES job (id) ON DELETE CASCADE,
    PRIMARY KEY (calendar_id, job_id)
);
CREATE INDEX job_calendar_job ON job_calendar (job_id);

-- Fire times that a backfill made a run for. Such a run's id carries the time it was made, so that
-- it is kept as long as other runs of that day: here is what keeps a fire time from a second one.
CREATE TABLE backfill (
    job_id  bigint NOT NULL REFERENCES job (id) ON DELETE CASCADE,
    fire_at timestamptz NOT NULL,
    run_id  uuid NOT NULL,
    made_at timestamptz NOT NULL,
    PRIMARY KEY (job_id, fire_at)
);
CREATE INDEX backfill_made ON backfill (made_at);
