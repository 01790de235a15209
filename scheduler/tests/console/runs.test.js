import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { goTo, row } from "./support/browser.js";
import { until } from "./support/scheduler.js";
import { stage } from "./support/stage.js";

/** Goes on until it is told to stop. */
const TICKS = "i=0; while :; do i=$((i+1)); echo \"tick $i\"; sleep 0.2; done";

const here = stage(async (scheduler) => {
  await scheduler.agent("ops", {
    nap: "sleep 300",
    ticks: TICKS,
    fine: "echo all good; echo careful >&2",
    broken: "echo 'the disk is full' >&2; exit 3",
  });
  for (const id of ["nap", "ticks", "fine", "broken"]) await scheduler.shellJob("ops", id, id);
});

/** @param {string} name */
const address = (name) => `/runs/ops/${name.split("/").pop()}`;

test("runs that come up wait at the top until they are asked for, and nothing moves", async () => {
  await here.scheduler.runOf("apps/ops/jobs/fine");
  const { page, close } = await here.open({ at: "/runs?app=ops" });
  const lines = page.locator("table.list tbody tr");
  await row(page, "fine").first().waitFor();
  // A run that ends before the page watches does not come up: with one that does, it watches.
  const bar = page.getByText(/\d+ new: show/);
  const seen = await until(async () => {
    const run = await here.scheduler.runOf("apps/ops/jobs/fine");
    return (await bar.count()) > 0 && run;
  }, "a run to come up");
  const link = page.locator(`table.list a[href*="${seen.name.split("/").pop()}"]`);
  await until(async () => {
    if ((await bar.count()) > 0) await bar.click();
    return link.count();
  }, "it to be listed");
  const before = await lines.allInnerTexts();
  await here.scheduler.runOf("apps/ops/jobs/fine");
  await page.getByText("1 new: show").waitFor();
  assert.equal(await lines.count(), before.length);
  await page.getByText("1 new: show").click();
  await until(async () => (await lines.count()) === before.length + 1, "one row more");
  await close();
});

test("r71 a running run without an end is shown, and its end when it comes", async () => {
  const run = await here.scheduler.call("JobService/TriggerJob", { name: "apps/ops/jobs/nap" });
  const { page, close } = await here.open({ at: "/runs?app=ops&state=running" });
  await row(page, "nap").getByText("running").waitFor();
  await row(page, "nap").locator("a.mono").click();
  await page.locator(".lead .state", { hasText: "running" }).waitFor();
  await page.locator(".bar .span.run").waitFor();
  await page.getByText("Nothing returned yet.").waitFor();
  assert.equal(await page.locator(".facts").getByText("Ended").count(), 0);

  await page.getByText("Cancel run").click();
  await page.locator("dialog").getByLabel("Reason").fill("no longer needed");
  await page.locator("dialog button[type=submit]").click();
  await page.locator(".lead .state", { hasText: "canceled" }).waitFor();
  await page.locator(".facts").getByText("Ended").waitFor();
  await page.locator(".facts", { hasText: "somebody asked" }).waitFor();
  await page.locator(".facts", { hasText: /canceled by .*: no longer needed/ }).waitFor();
  assert.doesNotMatch(await page.locator(".facts").first().innerText(), /tokens\//);
  await page.getByText("Run again", { exact: true }).waitFor();
  assert.ok(run.name);
  await close();
});

test("a failed run is found, says why, and is run again with other params", async () => {
  const failed = await here.scheduler.runOf("apps/ops/jobs/broken");
  const { page, close } = await here.open({ at: "/runs" });
  await page.getByLabel("State").selectOption("failed");
  await page.getByLabel("Job name or run id").fill("broken");
  await row(page, "broken").first().waitFor();
  await row(page, "broken").first().locator("a.mono").click();
  await page.locator(".failure", { hasText: "EXIT_3" }).waitFor();
  await page.locator(".log-line", { hasText: "the disk is full" }).waitFor();
  await page.locator(".happenings", { hasText: "attempt 1 ended: failed" }).waitFor();
  await page.getByText("Run again with…").click();
  await page.locator("dialog").getByLabel(/^command/).fill("fine");
  await page.locator("dialog button[type=submit]").click();
  await page.locator(".lead .state", { hasText: "succeeded" }).waitFor();
  await page.locator(".facts", { hasText: "Repeats" }).waitFor();
  await page.locator(".tree", { hasText: "was run again" }).waitFor();
  assert.ok(!page.url().includes(failed.name.split("/").pop()));

  // The id alone leads to the run.
  await goTo(page, "/runs");
  await page.getByLabel("Job name or run id").fill(failed.name.split("/").pop());
  await page.locator(".failure", { hasText: "EXIT_3" }).waitFor();
  await close();
});

test("attempts are shown against time, each with its log", async () => {
  const risky = await here.scheduler.riskyRun();
  const { page, close } = await here.open({ at: `/runs/demo/${risky.name.split("/").pop()}` });
  await until(async () => (await page.locator(".bars .bar-name").count()) === 3, "three bars");
  await page.locator(".happenings", { hasText: "attempt 2 ended: failed OUT_OF_LUCK" }).waitFor();
  await page.locator(".log-line", { hasText: "attempt=3" }).waitFor();
  await page.locator(".log").getByLabel("Attempt").selectOption("1");
  await page.locator(".log-line", { hasText: "attempt=1" }).waitFor();
  await close();
});

test("a run whose executor was stopped shows both that ran it, and makes no lateness up",
  async () => {
    const fine = await here.scheduler.runOf("apps/ops/jobs/fine");
    const run = await here.scheduler.call("RunService/GetRun", { name: fine.name });
    const at = (/** @type {number} */ s) =>
      new Date(Date.parse(run.fireTime) + s * 1000).toISOString();
    const on = (/** @type {string} */ id, /** @type {number} */ from, /** @type {number} */ to) =>
      ({ number: 1, executor: `apps/ops/executors/${id}`, dispatchTime: at(from),
        startTime: at(from + 1), endTime: at(to), outcome: "OUTCOME_SUCCEEDED" });
    const stopped = { ...on("one", 0, 60), outcome: "OUTCOME_CANCELED",
      failure: { code: "SHUTDOWN", message: "the executor shuts down" } };
    const told = { ...run, dueTime: at(60), startTime: at(1), endTime: at(90),
      attempts: [stopped, on("two", 70, 90)] };
    const { page, close } = await here.open();
    await page.route("**/clawjob.v1.RunService/GetRun", (route) =>
      route.fulfill({ contentType: "application/json", body: JSON.stringify(told) }));
    await goTo(page, address(fine.name));
    await until(async () => (await page.locator(".bars .bar-name").count()) === 2, "two bars");
    await page.locator(".happenings", { hasText: "attempt 1 ended: canceled SHUTDOWN" }).waitFor();
    await page.locator(".facts").getByText("Due again").waitFor();
    assert.equal(await page.locator(".facts").getByText("Late by").count(), 0);
    assert.equal(await page.locator(".log").getByLabel("Attempt").count(), 0, "it has one log");
    await close();
  });

test("missed fire times are told by number and stretch, and lead to making up for them",
  async () => {
    const fine = await here.scheduler.runOf("apps/ops/jobs/fine");
    const run = await here.scheduler.call("RunService/GetRun", { name: fine.name });
    const missed = { name: run.name, job: run.job, trigger: "TRIGGER_SCHEDULE",
      state: "RUN_STATE_SKIPPED", fireTime: "2026-03-01T01:00:00Z", createTime: run.createTime,
      endTime: run.createTime, missedCount: 12, missedUntilTime: "2026-03-01T12:00:00Z",
      stateMessage: "12 fire times were not served in time; " +
        "the misfire policy SKIP leaves them out" };
    const { page, close } = await here.open({ timeZone: "UTC" });
    await page.route("**/clawjob.v1.RunService/GetRun", (route) => route.fulfill({ json: missed }));
    await goTo(page, address(fine.name));
    await page.locator(".lead .state", { hasText: "missed" }).getByText("×12").waitFor();
    const told = page.locator(".failure", { hasText: "12 fire times were missed" });
    assert.match(await told.innerText(), /03-01 01:00:00[^]*to[^]*03-01 12:00:00/);
    await told.getByText("Make up for them").click();
    const dialog = page.locator("dialog");
    // The end of a range is no part of it: a second behind the last one that was missed.
    assert.equal(await dialog.getByLabel("From").inputValue(), "2026-03-01T01:00");
    assert.equal(await dialog.getByLabel("Until").inputValue(), "2026-03-01T12:00:01");
    await dialog.getByLabel("Close").click();
    assert.doesNotMatch(page.url(), /from=/);
    await close();
  });

test("a log is shown as it is written, filtered, searched and saved", async () => {
  const run = await here.scheduler.call("JobService/TriggerJob", { name: "apps/ops/jobs/ticks" });
  const { page, close } = await here.open({ at: address(run.name) });
  const lines = page.locator(".log-line");
  await lines.filter({ hasText: /tick \d+/ }).first().waitFor();
  const seen = await page.locator(".log .minor").first().innerText();
  await until(async () => (await page.locator(".log .minor").first().innerText()) !== seen,
    "more lines");
  await page.getByLabel("Search the log").fill("tick 12");
  await until(async () => {
    const texts = await lines.allInnerTexts();
    return texts.length > 0 && texts.every((text) => text.includes("tick 12"));
  }, "the lines with these words alone");
  await page.getByLabel("Search the log").fill("");
  await here.scheduler.call("RunService/CancelRun", { name: run.name });
  await page.locator(".lead .state", { hasText: "canceled" }).waitFor();
  const saved = page.waitForEvent("download");
  await page.getByText("Download").click();
  const text = readFileSync(await (await saved).path(), "utf8");
  assert.match(text, /INFO +tick 1( |\n)[^]*tick 2/);

  const fine = await here.scheduler.runOf("apps/ops/jobs/fine");
  await goTo(page, address(fine.name));
  await page.locator(".log-line", { hasText: "careful" }).waitFor();
  await page.getByLabel("Least level").selectOption({ label: "from WARN" });
  await until(async () => (await page.locator(".log-line", { hasText: "all good" }).count()) === 0,
    "lines of INFO to go");
  await page.locator(".log-line", { hasText: "careful" }).waitFor();
  await close();
});

test("a log of 100,000 lines keeps few of them in the page", async () => {
  const fine = await here.scheduler.runOf("apps/ops/jobs/fine");
  const { page, close } = await here.open();
  await page.route("**/clawjob.v1.RunService/TailRunLogs", (route) => {
    const time = new Date().toISOString();
    const batches = Array.from({ length: 200 }, (_, b) => JSON.stringify({
      records: Array.from({ length: 500 }, (__, i) => ({ seq: String(b * 500 + i + 1), attempt: 1,
        record: { time, level: "LOG_LEVEL_INFO", message: `line ${b * 500 + i + 1}` } })),
      throughSeq: String((b + 1) * 500),
      complete: b === 199,
    }));
    return route.fulfill({ contentType: "application/json", body: `${batches.join("\n")}\n` });
  });
  await goTo(page, address(fine.name));
  await page.getByText("100,000 lines").waitFor();
  await page.locator(".log-line", { hasText: "line 100000" }).waitFor();
  assert.ok((await page.locator(".log-line").count()) < 200);
  await page.locator(".log-lines").evaluate((box) => { box.scrollTop = box.scrollHeight / 2; });
  await page.locator(".log-line", { hasText: /line 500\d\d/ }).first().waitFor();
  await page.locator(".log-lines").evaluate((box) => { box.scrollTop = 0; });
  await page.locator(".log-line", { hasText: /line 1$/ }).waitFor();
  await page.getByLabel("Search the log").fill("line 77777");
  await page.locator(".log-line", { hasText: "line 77777" }).waitFor();
  assert.equal(await page.locator(".log-line").count(), 1);
  await close();
});

test("shards and the runs of a chain are shown as they belong together", async () => {
  const { scheduler } = here;
  await scheduler.shellJob("ops", "after", "fine");
  await scheduler.shellJob("ops", "split", "fine",
    { placement: { shardTotal: 4 }, onSuccess: ["apps/ops/jobs/after"] });
  const run = await scheduler.runOf("apps/ops/jobs/split");
  const { page, close } = await here.open({ at: address(run.name) });
  await until(async () => (await page.locator(".cells .cell").count()) === 4, "four shards");
  await page.locator(".tree", { hasText: "after" }).getByText("started by the run above").waitFor();
  await page.locator(".tree").locator("a.name", { hasText: "after" }).waitFor();
  await page.locator(".cells .cell").nth(2).click();
  await page.locator(".facts").getByText("2 / 4").waitFor();
  await page.locator(".tree", { hasText: "split into shards" }).waitFor();
  await close();
});
