-- A lock for each job of a plan, and a look at each of its partitions, were a quarter of what a plan costs,
-- though jobs seldom change. So whoever changes one passes all gates, and an owner that has one alone knows
-- that nobody does: it needs no lock of a job. And what has changed is counted: while the count stands where
-- it stood when all was as the owner knows it, no partition is looked at.
CREATE SEQUENCE partition_change;
-- A sequence that was never used shows the same number after its first use.
SELECT nextval('partition_change');

-- Which release raises a version does not matter, since the database counts. Changes share the gates with
-- each other until they end. An owner only tries one, so nobody waits for it longer than for a plan.
CREATE FUNCTION count_partition_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF new.jobs_version <> old.jobs_version THEN
        PERFORM pg_advisory_xact_lock_shared('partition_change'::regclass::oid::int, gate)
        FROM generate_series(0, 15) AS gate;
    END IF;
    PERFORM nextval('partition_change');
    RETURN NULL;
END
$$;
CREATE TRIGGER partition_changed AFTER UPDATE ON partition FOR EACH ROW
    WHEN (new.jobs_version <> old.jobs_version OR new.epoch <> old.epoch)
    EXECUTE FUNCTION count_partition_change();

-- As the function of the same name, which releases before this one call. `node` is the caller's number, by
-- which it has one of the gates; `known` is a count at which its partitions were as told here. Returns the count at which they are, or
-- nothing where they are not or where jobs are being changed.
CREATE FUNCTION share_jobs(jobs bigint[], stripes int[], ids smallint[], epochs bigint[],
    versions bigint[], node int, known bigint, OUT owned smallint[], OUT changed bigint[],
    OUT counted bigint)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    behind boolean;
BEGIN
    IF pg_try_advisory_xact_lock('partition_change'::regclass::oid::int, node & 15) THEN
        changed := '{}';
        SELECT last_value INTO counted FROM partition_change;
        IF counted = known THEN
            owned := ids;
            RETURN;
        END IF;
    ELSE
        changed := ARRAY(
            SELECT w.job FROM unnest(jobs, stripes) AS w (job, stripe)
            WHERE NOT pg_try_advisory_xact_lock_shared('job'::regclass::oid::int, w.stripe)
        );
    END IF;
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
    IF behind OR cardinality(owned) < cardinality(ids) THEN
        counted := NULL;
    END IF;
END
$$;
