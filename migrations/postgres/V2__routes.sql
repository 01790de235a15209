-- What the routes by frequency and by recency remember: [[executor row, runs, place of the last], …].
-- NULL for the routes that only have a turn. Read and written with the row's cursor, whole.
ALTER TABLE route_cursor ADD COLUMN uses jsonb;
