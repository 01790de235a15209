// How long the console takes with many jobs, and with many ended runs of them on Postgres:
// node volume.js [JOBS] [RUNS]. Prints figures, judges nothing. Without RUNS it is SQLite, and the
// jobs have never run.
import { goTo, launch, open, row } from "./support/browser.js";
import { fillRuns } from "./support/fill.js";
import { postgres } from "./support/postgres.js";
import { Scheduler, until } from "./support/scheduler.js";

const [count = 3000, runs = 0] = process.argv.slice(2).map(Number);
const TRIES = 5;

/**
 * The middle of several measurements, in milliseconds.
 * @param {(i: number) => Promise<void>} act is told which one it is, to ask for something new
 */
async function median(act) {
  /** @type {number[]} */
  const times = [];
  for (let i = 0; i < TRIES; i += 1) {
    const began = performance.now();
    await act(i);
    times.push(performance.now() - began);
  }
  return Math.round(times.sort((a, b) => a - b)[Math.floor(TRIES / 2)]);
}

const database = runs ? await postgres() : undefined;
const scheduler = await Scheduler.start("server", database ? ["--database", database.url] : []);
const browser = await launch();
try {
  await scheduler.manyJobs("shop", "sync", count, { schedules: [{ cron: "0 4 * * *" }] });
  if (database) fillRuns(database.url, runs);
  const { page, close } = await open(browser, scheduler, { at: "/cluster" });
  const rows = page.locator("table.list tbody tr");
  /** @type {Map<string, number>} */
  const calls = new Map();
  page.on("request", (request) => {
    const [, method] = /clawjob\.v1\.(\w+\/\w+)$/.exec(request.url()) ?? [];
    if (method) calls.set(method, (calls.get(method) ?? 0) + 1);
  });
  const openAt = async (/** @type {string} */ at) => {
    await page.goto("about:blank");
    calls.clear();
    await page.goto(`${scheduler.url}/#${at}`);
  };
  const numbered = (/** @type {number} */ i) =>
    `sync-${String(Math.floor(((i + 1) * count) / (TRIES + 1))).padStart(4, "0")}`;
  /** @type {Record<string, number>} */
  const figures = {};
  figures["open the console on the list of jobs"] = await median(async () => {
    await openAt("/jobs?app=shop");
    await rows.nth(49).waitFor();
  });
  figures["the same, until the last runs of all its rows are shown"] = await median(async () => {
    await openAt("/jobs?app=shop");
    await rows.nth(49).waitFor();
    await until(async () => (await page.locator(".spark.wait").count()) === 0, "the last runs");
  });
  const asked = [...calls].map(([method, times]) => `${times} ${method}`).join(", ");
  figures["go to it from another page, with a search"] = await median(async (i) => {
    await goTo(page, "/cluster");
    await page.locator(".partitions").waitFor();
    await goTo(page, `/jobs?app=shop&q=${numbered(i).slice(0, -1)}`);
    await row(page, numbered(i)).waitFor();
  });
  figures["search among them (250 ms of it wait for the end of typing)"] = await median(
    async (i) => {
      await page.getByLabel("Search jobs").fill(numbered(i));
      await row(page, numbered(i)).waitFor();
      await until(async () => (await rows.count()) === 1, numbered(i));
    });
  figures["open it sorted by next fire"] = await median(async () => {
    await openAt("/jobs?app=shop&sort=next_fire_time");
    await rows.nth(49).waitFor();
  });
  figures["read on to the 500th row"] = await median(async () => {
    await openAt("/jobs?app=shop");
    await until(async () => {
      await page.mouse.wheel(0, 20_000);
      return (await rows.count()) >= Math.min(500, count);
    }, "500 rows");
  });
  figures["open the list of runs"] = await median(async () => {
    await openAt("/runs?app=shop");
    await rows.nth(runs ? 49 : 0).or(page.locator(".empty")).first().waitFor();
  });
  figures["open the home page with its verdict"] = await median(async () => {
    await openAt("/");
    await page.locator(".verdict h1", { hasText: /well|look$/ }).waitFor();
  });
  console.log(`${count} jobs, ${runs} runs; milliseconds, the middle of ${TRIES}:`);
  for (const [what, ms] of Object.entries(figures)) console.log(`${String(ms).padStart(6)}  ${what}`);
  console.log(`calls of one opening of the list of jobs: ${asked}`);
  await close();
} finally {
  await browser.close();
  await scheduler.stop();
  await database?.stop();
}
