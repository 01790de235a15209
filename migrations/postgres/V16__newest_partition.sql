-- Whoever reads the table is waited for, and whoever comes then waits behind: rather fail than hold up all
-- nodes for as long as a backup takes.
SET LOCAL lock_timeout = '2s';

-- The row of a partition is written once a second, and each of its versions stays for as long as anybody
-- holds a snapshot that is older: hours, for a backup. Searched by its id they are all gone through, once
-- for each batch of runs. So each move is counted, and the newest version is the first behind its id. That
-- is the only index: of two the planner may well take the other one.
ALTER TABLE partition ADD COLUMN moves bigint NOT NULL DEFAULT 0;
ALTER TABLE partition DROP CONSTRAINT partition_pkey, ADD PRIMARY KEY (id, moves);

-- As before, but for how the partitions are found.
CREATE OR REPLACE FUNCTION share_jobs(jobs bigint[], stripes int[], ids smallint[], epochs bigint[],
    versions bigint[], OUT owned smallint[], OUT changed bigint[])
LANGUAGE plpgsql VOLATILE SET enable_nestloop = off AS $$
DECLARE
    behind boolean;
BEGIN
    changed := ARRAY(
        SELECT w.job FROM unnest(jobs, stripes) AS w (job, stripe)
        WHERE NOT pg_try_advisory_xact_lock_shared('job'::regclass::oid::int, w.stripe)
    );
    SELECT coalesce(array_agg(p.id), '{}'),
        coalesce(bool_or(p.jobs_version <> w.jobs_version), false)
    INTO owned, behind
    FROM unnest(ids, epochs, versions) AS w (id, epoch, jobs_version)
    CROSS JOIN LATERAL (
        SELECT q.id, q.epoch, q.jobs_version FROM partition q WHERE q.id = w.id
        ORDER BY q.moves DESC LIMIT 1
    ) AS p
    WHERE p.epoch = w.epoch;
    IF behind THEN
        changed := changed || ARRAY(
            SELECT j.id FROM job j
            JOIN unnest(ids, versions) AS w (id, jobs_version)
                ON w.id = j.partition AND w.jobs_version < j.jobs_version
            WHERE j.id = ANY(jobs)
        );
    END IF;
END
$$;
