-- The names of deleted jobs, whose runs are still listed by them.
CREATE INDEX job_deleted_name ON job (app_id, name) WHERE deleted_at IS NOT NULL;

-- What went wrong is looked for by state: among many rows of one state, say SKIPPED, those of
-- another are found without reading on, over all jobs and of one. Both indexes hold nothing of what
-- went well.
CREATE INDEX ended_run_state ON ended_run (state, id) WHERE state <> 'SUCCEEDED';
CREATE INDEX ended_run_job_state ON ended_run (job_id, state, id) WHERE state <> 'SUCCEEDED';
DROP INDEX ended_run_trouble;
