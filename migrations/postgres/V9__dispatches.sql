-- An attempt whose executor stopped goes on under a later dispatch: each that had begun is kept.
ALTER TABLE attempt DROP CONSTRAINT attempt_pkey;
ALTER TABLE attempt ADD PRIMARY KEY (run_id, number, fence);

-- The dispatch that wrote a chunk (0: not known), and what was added to its own numbers, so that
-- its records go behind those of an earlier one.
ALTER TABLE log_chunk ADD COLUMN fence bigint NOT NULL DEFAULT 0;
ALTER TABLE log_chunk ADD COLUMN base bigint NOT NULL DEFAULT 0;
