// Very many ended runs, written straight into a Postgres, as if the jobs there had run for weeks.
import { execFileSync } from "node:child_process";

/** Within what a scheduler keeps by default. */
const DAYS = 28;
/** Runs written by one statement. */
const STEP = 500_000;

/** The day partitions of the past, as the scheduler makes those of today. */
const PAST_DAYS = `DO $$
DECLARE
  day timestamptz;
  first text;
  next text;
BEGIN
  FOR n IN 1..${DAYS + 1} LOOP
    day := date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' - n * interval '24 h';
    first := lpad(to_hex((extract(epoch FROM day) * 1000)::bigint), 12, '0') || repeat('0', 20);
    next := lpad(to_hex((extract(epoch FROM day) * 1000)::bigint + 86400000), 12, '0') ||
      repeat('0', 20);
    EXECUTE format('CREATE TABLE ended_run_%s PARTITION OF ended_run FOR VALUES FROM (%L) TO (%L)',
      to_char(day AT TIME ZONE 'UTC', 'YYYYMMDD'), first::uuid, next::uuid);
  END LOOP;
END $$`;

/**
 * Of a thousand runs about 50 were skipped and 2 failed, whichever job they are of; every job has
 * as many.
 * @param {number} from
 * @param {number} until
 * @param {number} runs
 */
const insert = (from, until, runs) => `INSERT INTO ended_run (id, job_id, app_id, revision, fence,
    session_epoch, fire_at, created_at, dispatched_at, started_at, ended_at, handler_start_at,
    duration_us, attempt, trigger, state, outcome, executor)
  SELECT (lpad(to_hex(ms), 12, '0') || substr(md5(i::text), 1, 20))::uuid, job, app, 1, 1, 1, at,
    at - interval '5 s', at, at, at + interval '1 s', at, 1000000, 1, 'SCHEDULE', state,
    CASE state WHEN 'SKIPPED' THEN NULL ELSE state END, 'executor-' || i % 50
  FROM (
    SELECT i, ms, to_timestamp(ms / 1000.0) AS at, j.id AS job, j.app_id AS app, CASE
      WHEN lot < 50 THEN 'SKIPPED' WHEN lot < 52 THEN 'FAILED'
      ELSE 'SUCCEEDED' END AS state
    FROM (
      SELECT i, ('x' || substr(md5('lot ' || i), 1, 7))::bit(28)::int % 1000 AS lot,
        (extract(epoch FROM now()) * 1000)::bigint - (${runs} - i) * ${DAYS * 86_400_000} /
        ${runs} AS ms
      FROM generate_series(${from}::bigint, ${until}::bigint - 1) AS i
    ) AS spread
    JOIN (
      SELECT row_number() OVER (ORDER BY id) - 1 AS n, count(*) OVER () AS jobs, id, app_id FROM job
    ) AS j ON j.n = i % j.jobs
  ) AS made`;

/**
 * Writes the runs, spread over the last weeks and all jobs.
 * @param {string} url of the database
 * @param {number} runs
 */
export function fillRuns(url, runs) {
  const tell = (/** @type {string} */ sql) =>
    execFileSync("psql", [url, "-v", "ON_ERROR_STOP=1", "-qc", sql]);
  tell(PAST_DAYS);
  for (let from = 0; from < runs; from += STEP) {
    tell(insert(from, Math.min(runs, from + STEP), runs));
  }
  // As the server does by itself before long.
  tell("VACUUM (ANALYZE)");
}
