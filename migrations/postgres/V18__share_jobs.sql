-- A setting of a function's own is put in place and back at each call, which is one for each batch of runs.
-- The loops that this one kept out are gone since partitions are found by their key, newest first; of how
-- jobs are compared with their partitions, which is rare, sessions with kept plans leave nothing to choose.
ALTER FUNCTION share_jobs(bigint[], int[], smallint[], bigint[], bigint[]) RESET enable_nestloop;
