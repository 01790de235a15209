// How long the console takes with many jobs: node volume.js [JOBS]. Prints figures, judges nothing.
import { goTo, launch, open, row } from "./support/browser.js";
import { Scheduler, until } from "./support/scheduler.js";

const count = Number(process.argv[2] ?? 3000);
const TRIES = 5;

/** The middle of several measurements, in milliseconds. @param {() => Promise<void>} act */
async function median(act) {
  /** @type {number[]} */
  const times = [];
  for (let i = 0; i < TRIES; i += 1) {
    const began = performance.now();
    await act();
    times.push(performance.now() - began);
  }
  return Math.round(times.sort((a, b) => a - b)[Math.floor(TRIES / 2)]);
}

const scheduler = await Scheduler.start();
const browser = await launch();
try {
  await scheduler.manyJobs("shop", "sync", count, { schedules: [{ cron: "0 4 * * *" }] });
  const { page, close } = await open(browser, scheduler, { at: "/cluster" });
  const rows = page.locator("table.list tbody tr");
  const figures = {
    "open the console on the list of jobs": await median(async () => {
      await page.goto("about:blank");
      await page.goto(`${scheduler.url}/#/jobs?app=shop`);
      await rows.nth(49).waitFor();
    }),
    "go to it from another page, with a search": await median(async () => {
      await goTo(page, "/cluster");
      await page.locator(".partitions").waitFor();
      await goTo(page, `/jobs?app=shop&owner=&q=sync-0${Math.floor(Math.random() * 10)}`);
      await row(page, "sync-0").first().waitFor();
    }),
    "search among them": await median(async () => {
      const text = `sync-${String(Math.floor(Math.random() * count)).padStart(4, "0")}`;
      await page.getByLabel("Search jobs").fill(text);
      await until(async () => (await rows.count()) === 1, text);
    }),
    "open it sorted by next fire": await median(async () => {
      await page.goto("about:blank");
      await page.goto(`${scheduler.url}/#/jobs?app=shop&sort=next_fire_time`);
      await rows.nth(49).waitFor();
    }),
    "open the home page with its verdict": await median(async () => {
      await page.goto("about:blank");
      await page.goto(`${scheduler.url}/#/`);
      await page.locator(".verdict h1", { hasText: /well|look$/ }).waitFor();
    }),
  };
  console.log(`${count} jobs; milliseconds, the middle of ${TRIES}:`);
  for (const [what, ms] of Object.entries(figures)) console.log(`${String(ms).padStart(6)}  ${what}`);
  await close();
} finally {
  await browser.close();
  await scheduler.stop();
}
