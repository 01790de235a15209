-- Most runs are written as sent, and only their owner need find them: by id. What a change of a job makes,
-- takes away or ends is a run that waited, and it alone is found by job: an entry for each run was a tenth
-- of what a run writes to the log. Never changed, so that an update stays HOT. What counts as having
-- waited without need costs an entry and no more. No release before this one looks by the index that goes.
SET LOCAL lock_timeout = '2s';
ALTER TABLE open_run ADD COLUMN waited boolean DEFAULT true;
CREATE INDEX open_run_waited ON open_run (job_id) WHERE waited;
DROP INDEX open_run_job;
