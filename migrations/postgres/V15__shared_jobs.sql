-- Whoever changes a job keeps owners from adding runs to that job alone, not to its whole partition: of
-- jobs by their stripes, of which each partition has some, so that the locks of all nodes together have a
-- bound. A run is refused when its stripe is locked by a change, or its job has changed since the owner
-- read its partition; all others of the partition are added.
--
-- Takes the jobs of the runs with their stripes, and the partitions as the owner knows them. Returns those
-- partitions that are its own, and the jobs whose runs must not be added. As before, what is compared is
-- read after the locks were had, and in one pass however much is asked for.
CREATE FUNCTION share_jobs(jobs bigint[], stripes int[], ids smallint[], epochs bigint[],
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
    JOIN partition p ON p.id = w.id AND p.epoch = w.epoch;
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
