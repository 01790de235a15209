-- Statistics are gathered of what statements compare or order by. Of documents, bytes and lists they say
-- nothing that a plan could use, and cost what is busy most of all: a sample of `run_event` with its lists
-- of ids took up to 1.1 s, one of `job` with some ten thousand specs 0.5 s, as often as the server looked.
DO $$
DECLARE
    found record;
BEGIN
    FOR found IN
        SELECT c.oid::regclass AS name,
            string_agg(format('ALTER COLUMN %I SET STATISTICS 0', a.attname), ', ') AS changes
        FROM pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = current_schema()
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
            AND (a.atttypid IN ('jsonb'::regtype, 'bytea'::regtype)
                OR EXISTS (SELECT FROM pg_type t WHERE t.oid = a.atttypid AND t.typcategory = 'A'))
        GROUP BY c.oid
    LOOP
        EXECUTE format('ALTER TABLE %s %s', found.name, found.changes);
    END LOOP;
END
$$;

-- The days are made like this table, with the same columns left out.
ALTER TABLE ended_run
    ALTER COLUMN revision SET STATISTICS 0,
    ALTER COLUMN fence SET STATISTICS 0,
    ALTER COLUMN session_epoch SET STATISTICS 0,
    ALTER COLUMN due_at SET STATISTICS 0,
    ALTER COLUMN dispatched_at SET STATISTICS 0,
    ALTER COLUMN acked_at SET STATISTICS 0,
    ALTER COLUMN started_at SET STATISTICS 0,
    ALTER COLUMN handler_start_at SET STATISTICS 0,
    ALTER COLUMN duration_us SET STATISTICS 0,
    ALTER COLUMN last_log_seq SET STATISTICS 0,
    ALTER COLUMN missed_until SET STATISTICS 0,
    ALTER COLUMN attempt SET STATISTICS 0,
    ALTER COLUMN lost SET STATISTICS 0,
    ALTER COLUMN missed_count SET STATISTICS 0,
    ALTER COLUMN progress SET STATISTICS 0,
    ALTER COLUMN output_truncated SET STATISTICS 0,
    ALTER COLUMN outcome SET STATISTICS 0,
    ALTER COLUMN late_outcome SET STATISTICS 0,
    ALTER COLUMN kill_reason SET STATISTICS 0,
    ALTER COLUMN message SET STATISTICS 0,
    ALTER COLUMN progress_message SET STATISTICS 0,
    ALTER COLUMN output_type SET STATISTICS 0;
