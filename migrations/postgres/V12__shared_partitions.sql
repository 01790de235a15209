-- Locks partitions together with others who add runs to them, until the end of the transaction, and
-- returns those that are as told. Whoever changes a job has the same locks alone: those of its partition
-- are left out. Nothing of this is logged, as a row's lock would be. It is a function because what is
-- compared must be read after the lock was had, and each statement of a VOLATILE function has a snapshot
-- of its own.
CREATE FUNCTION share_partitions(ids smallint[], epochs bigint[], versions bigint[])
RETURNS smallint[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    had smallint[];
BEGIN
    had := ARRAY(
        SELECT w.id FROM unnest(ids) AS w (id)
        WHERE pg_try_advisory_xact_lock_shared('partition'::regclass::oid::int, w.id)
    );
    RETURN ARRAY(
        SELECT p.id FROM unnest(ids, epochs, versions) AS w (id, epoch, jobs_version)
        JOIN partition p
            ON p.id = w.id AND p.epoch = w.epoch AND p.jobs_version = w.jobs_version
        WHERE p.id = ANY(had)
    );
END
$$;
