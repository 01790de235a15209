-- The dispatch that a run was handed over for: a node that was away may come to its rows when the run
-- has long been sent elsewhere. NULL is of a node before this version.
ALTER TABLE node_inbox ADD COLUMN fence bigint;
