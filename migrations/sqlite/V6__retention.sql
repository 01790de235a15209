-- The names of deleted jobs, whose runs are still listed by them.
CREATE INDEX job_deleted_name ON job (app_id, name) WHERE deleted_at IS NOT NULL;
