-- The order in which a node takes what it was handed comes from a sequence that is logged: one that
-- belongs to an UNLOGGED table can't be read on a standby that was promoted.
DELETE FROM node_inbox;
ALTER TABLE node_inbox ALTER COLUMN seq DROP IDENTITY;
CREATE SEQUENCE node_inbox_order;
ALTER TABLE node_inbox ALTER COLUMN seq SET DEFAULT nextval('node_inbox_order');
