import assert from "node:assert/strict";
import { test } from "node:test";
import { row } from "./support/browser.js";
import { until } from "./support/scheduler.js";
import { stage } from "./support/stage.js";

const here = stage(async (scheduler) => {
  await scheduler.manyJobs("shop", "sync", 130,
    { schedules: [{ cron: "0 4 1 1 *" }], labels: { team: "shop" }, owner: "ada" });
});

const rows = (/** @type {import("playwright-core").Page} */ page) =>
  page.locator("table.list tbody tr");

/** Something that one side waits for and another gives. */
function signal() {
  let give = () => {};
  const given = new Promise((resolve) => {
    give = () => resolve(undefined);
  });
  return { give, given };
}

test("search and filters narrow the list and stand in the address", async () => {
  const { page, close } = await here.open({ at: "/jobs" });
  await row(page, "hello").waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("sync-001");
  await until(async () => (await rows(page).count()) === 10, "the ten jobs that match");
  assert.match(page.url(), /q=sync-001/);
  await page.keyboard.press("Escape");
  await page.getByLabel("State").selectOption("PAUSED");
  await page.getByText("No job matches these filters").waitFor();
  await page.reload();
  await page.getByText("No job matches these filters").waitFor();
  await page.getByText("Clear filters").first().click();
  await row(page, "hello").waitFor();
  await page.getByLabel("Owner").fill("ada");
  await until(async () => (await row(page, "hello").count()) === 0, "the jobs of one owner");
  await page.getByLabel("Label (key=value)").fill("team=none");
  await page.getByText("No job matches these filters").waitFor();
  await page.getByLabel("Label (key=value)").fill("team=shop");
  await row(page, "sync-0000").waitFor();
  await row(page, "sync-0000").locator("a.name").click();
  await page.getByText("No runs yet").waitFor();
  await page.goBack();
  await row(page, "sync-0000").waitFor();
  assert.match(page.url(), /owner=ada.*team/);
  await close();
});

test("more rows come when the end is near, and a reload begins with as many", async () => {
  const { page, close } = await here.open({ at: "/jobs?app=shop" });
  await row(page, "sync-0000").waitFor();
  await until(async () => {
    await page.mouse.wheel(0, 20_000);
    return (await rows(page).count()) === 130;
  }, "all 130 rows");
  await page.getByText("All 130 shown").waitFor();
  await page.reload();
  await until(async () => (await rows(page).count()) === 130, "as many as before");
  await close();
});

test("jobs by their next fire, the next one first", async () => {
  const { page, close } = await here.open({ at: "/jobs" });
  await row(page, "hello").waitFor();
  await page.getByLabel("Order").selectOption("next_fire_time");
  await until(async () => /hello|risky|sleepy/.test(await rows(page).first().innerText()),
    "a job of seconds at the top");
  assert.match(page.url(), /sort=next_fire_time/);
  await close();
});

test("r73 30 jobs switched in a row: the list stays where it is", async () => {
  const { page, close } = await here.open({ at: "/jobs?app=shop&state=ACTIVE" });
  await row(page, "sync-0000").waitFor();
  await until(async () => {
    await page.mouse.wheel(0, 20_000);
    return (await rows(page).count()) === 130;
  }, "all rows");
  const names = await page.locator("td.first").allInnerTexts();
  await row(page, "sync-0060").scrollIntoViewIfNeeded();
  const place = await page.evaluate(() => scrollY);
  assert.ok(place > 100);
  for (let i = 50; i < 80; i += 1) {
    const line = row(page, `sync-00${i}`);
    await line.getByRole("switch").click();
    await line.getByText("paused").waitFor();
  }
  assert.deepEqual(await page.locator("td.first").allInnerTexts(), names);
  assert.match(page.url(), /app=shop&state=ACTIVE/);
  const moved = Math.abs(await page.evaluate(() => scrollY) - place);
  assert.ok(moved < 1200, `moved by ${moved}, more than clicking through 30 rows does`);
  const { jobs } = await here.scheduler.call("JobService/ListJobs",
    { parent: "apps/shop", filter: "state = PAUSED", pageSize: 1000 });
  assert.equal(jobs.length, 30);
  await close();
});

test("a job that was just paused stays paused when an older answer comes after", async () => {
  const { page, close } = await here.open({ at: "/jobs?app=shop&q=sync-012&state=ACTIVE" });
  const line = row(page, "sync-0120");
  await line.waitFor();
  const [asked, answer] = [signal(), signal()];
  await page.route("**/clawjob.v1.JobService/ListJobs", async (route) => {
    const response = await route.fetch();
    asked.give();
    await answer.given;
    await route.fulfill({ response });
  }, { times: 1 });
  await asked.given;
  await line.getByRole("switch").click();
  await line.getByText("paused").waitFor();
  const shown = page.waitForResponse("**/clawjob.v1.JobService/ListJobs");
  answer.give();
  await (await shown).finished();
  const again = page.waitForResponse("**/clawjob.v1.JobService/ListJobs");
  await (await again).finished();
  assert.equal(await line.getByText("paused").count(), 1);
  await close();
});

test("a job that another person pauses or deletes is shown so, whatever the filter", async () => {
  const { page, close } = await here.open({ at: "/jobs?app=shop&q=sync-011&state=ACTIVE" });
  await row(page, "sync-0110").waitFor();
  await here.scheduler.call("JobService/PauseJob", { name: "apps/shop/jobs/sync-0110" });
  await here.scheduler.call("JobService/DeleteJob", { name: "apps/shop/jobs/sync-0111" });
  await row(page, "sync-0110").getByText("paused").waitFor();
  await until(async () => (await row(page, "sync-0111").count()) === 0, "the deleted one is gone");
  assert.equal(await row(page, "sync-0112").getByText("active").count(), 1);
  await close();
});

test("more jobs than one look takes are paused by another person: all are shown so", async () => {
  const ids = await here.scheduler.manyJobs("feeds", "feed", 60,
    { schedules: [{ cron: "0 4 1 1 *" }] });
  const { page, close } = await here.open({ at: "/jobs?app=feeds&state=ACTIVE" });
  await row(page, "feed-0000").waitFor();
  await until(async () => {
    await page.mouse.wheel(0, 20_000);
    return (await rows(page).count()) === 60;
  }, "all rows");
  for (const id of ids) {
    await here.scheduler.call("JobService/PauseJob", { name: `apps/feeds/jobs/${id}` });
  }
  await until(async () => (await rows(page).filter({ hasText: "paused" }).count()) === 60,
    "all 60 paused");
  await close();
});

test("chosen jobs are acted on together; place and filter stay", async () => {
  const { page, close } = await here.open({ at: "/jobs?app=shop&q=sync-010" });
  await row(page, "sync-0100").waitFor();
  await page.getByLabel("Choose all rows on show").check();
  const bar = page.getByRole("region", { name: "The chosen jobs" });
  await bar.getByText("10 chosen").waitFor();
  await bar.getByText("Pause").click();
  await until(async () => (await page.locator("td", { hasText: "paused" }).count()) === 10,
    "ten paused");
  await bar.getByText("Resume").click();
  await until(async () => (await page.locator("td", { hasText: "active" }).count()) === 10,
    "ten active");
  await bar.getByText("Trigger").click();
  await page.locator(".note", { hasText: "10 triggered" }).waitFor();
  await row(page, "sync-0109").getByRole("checkbox").uncheck();
  await bar.getByText("Delete").click();
  await page.locator("dialog").getByText("Delete 9 jobs?").waitFor();
  await page.locator("dialog button[type=submit]").click();
  await until(async () => (await rows(page).count()) === 1, "one left");
  await row(page, "sync-0109").waitFor();
  assert.match(page.url(), /q=sync-010/);
  const { runs } = await here.scheduler.call("RunService/ListRuns",
    { parent: "apps/shop", pageSize: 100 });
  assert.equal(runs.length, 10);
  await close();
});

test("what could not be done is told job by job", async () => {
  const { page, close } = await here.open({ at: "/jobs?app=shop&q=sync-002" });
  await row(page, "sync-0020").waitFor();
  await page.getByLabel("Choose all rows on show").check();
  await here.scheduler.call("JobService/DeleteJob", { name: "apps/shop/jobs/sync-0025" });
  await page.getByRole("region", { name: "The chosen jobs" }).getByText("Trigger").click();
  const told = page.locator("dialog", { hasText: "1 could not be done" });
  await told.getByText("shop/sync-0025").waitFor();
  await close();
});

test("the next fire is shown in the zone that is chosen, and the zone is named", async () => {
  const { page, close } = await here.open({ at: "/jobs?q=report" });
  const next = row(page, "report").locator("time").first();
  await next.waitFor();
  // 09:00 in Shanghai is 02:00 or 03:00 in Berlin, and 01:00 UTC.
  assert.match(await next.innerText(), /0[23]:00:00/);
  await page.getByText("Times in Europe/Berlin (UTC+").waitFor();
  await page.getByLabel("Times in").selectOption("job");
  await page.getByText(/09:00:00\s*Shanghai/).waitFor();
  await page.getByLabel("Times in").selectOption("utc");
  await page.getByText("01:00:00").waitFor();
  await page.reload();
  await page.getByText("Times in UTC").waitFor();
  await close();
});

test("the last runs are shown as they end", async () => {
  const { page, close } = await here.open({ at: "/jobs?app=demo&q=hello" });
  const bars = row(page, "hello").locator(".spark-bar");
  const first = await until(() => bars.count(), "bars of runs");
  await until(async () => (await bars.count()) > first || (await bars.count()) === 14,
    "one more, without a reload");
  await close();
});
