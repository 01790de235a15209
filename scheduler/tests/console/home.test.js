import assert from "node:assert/strict";
import { test } from "node:test";
import { goTo, row } from "./support/browser.js";
import { until } from "./support/scheduler.js";
import { stage } from "./support/stage.js";

const here = stage(async (scheduler) => {
  await scheduler.agent("ops",
    { nap: "sleep 300", fine: "exit 0", broken: "echo 'the disk is full' >&2; exit 3" });
  await scheduler.shellJob("ops", "nap", "nap");
  await scheduler.shellJob("ops", "broken", "broken");
});

/** The number on a tile. @param {import("playwright-core").Page} page @param {string} label */
const tile = (page, label) => page.locator(".tile", { hasText: label });
/** @param {import("playwright-core").Page} page @param {string} label */
async function countOn(page, label) {
  const text = await tile(page, label).locator(".tile-value").innerText();
  return text ? Number.parseInt(text.replace(/,/g, ""), 10) : NaN;
}
/**
 * What the rows of a list of runs stand for: one of missed fire times may stand for many.
 * @param {import("playwright-core").Page} page
 */
async function listed(page) {
  const states = await page.locator("table.list tbody .state").allInnerTexts();
  return states.reduce((sum, text) =>
    sum + Number(/×([\d,]+)/.exec(text)?.[1].replace(/,/g, "") ?? 1), 0);
}

test("a run that begins shows without a reload, and its number leads to it", async () => {
  const { page, close } = await here.open();
  await until(async () => (await countOn(page, "Running now")) >= 0, "the number of running runs");
  await page.evaluate(() => { /** @type {any} */ (window).sameDocument = true; });
  const run = await here.scheduler.call("JobService/TriggerJob", { name: "apps/ops/jobs/nap" });
  await page.locator(".panel", { hasText: "Running now" }).getByText("nap").waitFor();
  assert.ok((await countOn(page, "Running now")) >= 1);
  await tile(page, "Running now").click();
  await row(page, "nap").waitFor();
  assert.match(page.url(), /state=running/);
  assert.equal(await page.evaluate(() => /** @type {any} */ (window).sameDocument), true);
  await page.goBack();
  await tile(page, "Running now").waitFor();
  await here.scheduler.call("RunService/CancelRun", { name: run.name });
  await until(async () => (await page.locator(".panel", { hasText: "Running now" }).getByText(
    "nap").count()) === 0,
    "the run to leave the page");
  await close();
});

test("what has failed is told with since when and why, and leads to the run", async () => {
  const run = await here.scheduler.runOf("apps/ops/jobs/broken");
  const { page, close } = await here.open();
  const finding = page.locator(".finding", { hasText: "ops/broken" });
  await finding.waitFor();
  assert.match(await finding.innerText(),
    /ops\/broken failed\s+EXIT_3[^]*since ([\d-]+ )?\d\d:\d\d:\d\d/);
  assert.match(await page.locator(".verdict h1").innerText(), /needs? a look/);
  assert.match(await page.title(), /^\(\d+\) Home/);
  await finding.click();
  await page.locator(".failure", { hasText: "EXIT_3" }).waitFor();
  assert.match(page.url(), new RegExp(run.name.split("/").pop()));
  await close();
});

test("r72 a job that never ran is neither failed nor well; the last fault is listed", async () => {
  await here.scheduler.shellJob("ops", "newborn", "fine");
  await here.scheduler.runOf("apps/ops/jobs/broken");
  const { page, close } = await here.open({ at: "/jobs?app=ops" });
  await row(page, "newborn").getByText("never ran").waitFor();
  for (const [result, shown] of [["failed", false], ["succeeded", false], ["never", true]]) {
    await page.getByLabel("Last result").selectOption(String(result));
    await row(page, result === "never" ? "newborn" : /broken|newborn/).first().or(
      page.locator(".empty")).waitFor();
    assert.equal(await row(page, "newborn").count(), shown ? 1 : 0, String(result));
  }
  await goTo(page, "/");
  await page.locator(".finding", { hasText: "ops/broken" }).waitFor();
  assert.equal(await page.locator(".finding", { hasText: "newborn" }).count(), 0);
  await page.locator(".finding", { hasText: "ops/broken" }).click();
  await page.locator(".failure").waitFor();
  const run = page.url().split("/").pop() ?? "";
  await goTo(page, "/runs?q=ops/broken&state=failed");
  await page.locator(`a[href*="${run}"]`).first().waitFor();
  await close();
});

test("each number leads to a list of as many", async () => {
  const { page, close } = await here.open();
  await here.scheduler.runOf("apps/ops/jobs/broken");
  const { runs } = await here.scheduler.call("RunService/ListRuns",
    { parent: "apps/ops", pageSize: 1000,
    filter: "(state = FAILED OR state = TIMED_OUT OR state = LOST)" });
  await until(async () => (await countOn(page, "Failed or missed")) >= runs.length,
    "the failed runs to be counted");
  const counted = await countOn(page, "Failed or missed");
  await tile(page, "Failed or missed").click();
  await page.locator("table.list tbody tr").first().waitFor();
  const shown = await until(async () => {
    const now = await listed(page);
    return now >= counted ? now : 0;
  }, "the list to be as long as the number says");
  await goTo(page, "/");
  // The demo goes on failing: the list may say more than the number before it, not than the next.
  await until(async () => (await countOn(page, "Failed or missed")) >= shown,
    "the number to say as much as was listed");
  await until(async () => (await countOn(page, "Due in the next hour")) > 100, "the fires to come");
  await tile(page, "Due in the next hour").click();
  await page.getByText(/\d+ fires/).first().waitFor();
  await close();
});

test("missed fire times count each, runs that a policy skipped do not, and the list agrees",
  async () => {
  const { page, close } = await here.open({ at: "/cluster" });
  const time = new Date(Date.now() - 60_000).toISOString();
  const run = (/** @type {number} */ i, /** @type {object} */ more) => ({
    name: `apps/ops/runs/${String(i).padStart(26, "0")}`, job: "apps/ops/jobs/nap",
    state: "RUN_STATE_SKIPPED", createTime: time, fireTime: time, ...more });
  const runs = [
    run(1, { missedCount: 12, stateMessage: "12 fire times were not served in time; so it is" }),
    run(2, { stateMessage: "1 fire time was not served in time; so it is" }),
    run(3, { stateMessage: "an earlier run of the job still goes (overlap policy SKIP)" }),
  ];
  await page.route("**/clawjob.v1.RunService/ListRuns", (route) => {
    const { filter } = route.request().postDataJSON();
    return route.fulfill({ json: { runs: /SKIPPED/.test(filter) ? runs : [] } });
  });
  await page.route("**/clawjob.v1.RunService/WatchRuns", (route) => route.abort());
  await goTo(page, "/");
  await until(async () => await countOn(page, "Failed or missed") === 13, "13 missed fire times");
  await tile(page, "Failed or missed").click();
  await page.locator("table.list tbody tr").first().waitFor();
  assert.equal(await page.locator("table.list tbody tr").count(), 2);
  const first = page.locator("table.list tbody tr").first();
  assert.match(await first.innerText(), /missed\s*×12/);
  await close();
});

test("a number that was not counted to its end says so, and so does the list behind it",
  async () => {
  const { page, close } = await here.open({ at: "/cluster" });
  // Pages of the contract's longest, without an end.
  const endless = async (/** @type {import("playwright-core").Route} */ route, /** @type {string} */
    field, /** @type {(i: number) => object} */ one) => {
    const { pageSize, pageToken } = route.request().postDataJSON();
    const from = Number(pageToken || 0);
    const rows = Array.from({ length: pageSize }, (_, i) => one(from + i));
    await route.fulfill({ json: { [field]: rows, nextPageToken: String(from + pageSize) } });
  };
  const time = (/** @type {number} */ ms) => new Date(Date.now() + ms).toISOString();
  await page.route("**/clawjob.v1.RunService/ListRuns", (route) =>
    (/SKIPPED/.test(route.request().postDataJSON().filter) ? endless(route, "runs", (i) => ({
      name: `apps/ops/runs/${String(i).padStart(26, "0")}`, job: "apps/ops/jobs/nap",
      state: "RUN_STATE_SKIPPED", missedCount: 1, createTime: time(-1000 - i), fireTime: time(-1000 - i),
    })) : route.continue()));
  await page.route("**/clawjob.v1.JobService/ForecastRuns", (route) => endless(route, "fires",
    (i) => ({ job: "apps/ops/jobs/nap", fireTime: time(i * 100), handler: "shell" })));
  await goTo(page, "/");
  const troubled = tile(page, "Failed or missed");
  // The demo's own bad ends come on top.
  await troubled.getByText(/^5,0\d\d\+$/).waitFor();
  await tile(page, "Due in the next hour").getByText("5,000+").waitFor();
  await troubled.click();
  await page.locator("table.list tbody tr").first().waitFor();
  assert.equal(await page.getByText(/^All .* shown$/).count(), 0);
  await page.locator(".list-end").getByText("More").waitFor();
  await goTo(page, "/forecast?hours=1");
  await page.getByText("10,000+ fires").waitFor();
  await page.getByText("Only the fires up to").waitFor();
  // Hours that were not fetched are not shown as hours without fires.
  await goTo(page, "/forecast?hours=6");
  await page.locator(".heat-unknown").first().waitFor();
  await close();
});

test("r77 numbers come back after a restart of the scheduler and are never negative", async () => {
  const { page, close } = await here.open();
  const before = await until(async () => {
    const now = await countOn(page, "Failed or missed");
    return now > 0 ? now : 0;
  }, "a number to compare");
  await here.scheduler.process?.stop("SIGKILL");
  await page.getByText(/No connection/).or(page.locator(".fault")).first().waitFor();
  await here.scheduler.up();
  await page.locator(".live", { hasText: "live" }).waitFor();
  await until(async () => (await countOn(page, "Failed or missed")) >= before,
    "the number as it was, or more");
  for (const text of await page.locator(".tile-value").allInnerTexts()) {
    assert.ok(!/[-−]/.test(text), text);
  }
  await close();
});
