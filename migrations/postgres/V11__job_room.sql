-- When a job fires next changes often. With room on its page the row's update stays there, and neither
-- the whole row nor its entries in three indexes are logged.
ALTER TABLE job SET (fillfactor = 70);
