// Pictures of every page in both themes, of a scheduler with something going on:
// node screenshots.js DIRECTORY [MINUTES]
import { mkdirSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { goTo, launch, open } from "./support/browser.js";
import { Scheduler, until } from "./support/scheduler.js";

const [directory = "screenshots", minutes = "0"] = process.argv.slice(2);
const MINUTE_MS = 60_000;
/** So long the scheduler is away, for fire times that it misses. */
const AWAY_MS = 45_000;
/** @type {Record<string, { width: number, height: number }>} */
const SIZES = { desk: { width: 1280, height: 800 }, phone: { width: 375, height: 812 },
  tablet: { width: 820, height: 1180 }, wall: { width: 3840, height: 2160 } };

/** @type {Record<string, string>} */
const SCRIPTS = {
  quick: "echo 'reading the ledger'; sleep 0.$(($$ % 9)); echo 'wrote 412 rows'",
  long: 'for i in $(seq 1 400); do echo "batch $i of 400 is written"; sleep 1; done',
  full: "echo 'connecting to ledger-db'; echo 'no space left on device' >&2; exit 28",
  wobbly: "echo trying; if [ $(($$ % 3)) = 0 ]; then echo 'the other side hung up' >&2; exit 7; fi",
};

/** @param {Scheduler} scheduler @param {string} hook */
async function furnish(scheduler, hook) {
  const every = (/** @type {number} */ s) => [{ interval: `${s}s` }];
  const nightly = (/** @type {string} */ cron, timeZone = "Europe/Berlin", more = {}) =>
    [{ cron, timeZone, ...more }];
  for (const app of ["billing", "warehouse"]) await scheduler.agent(app, SCRIPTS);
  /** @type {[string, string, string, object][]} */
  const jobs = [
    ["billing", "ledger-sync", "quick",
      { schedules: every(7), owner: "Ada Okafor", labels: { team: "ledger", tier: "1" } }],
    ["billing", "nightly-report", "quick",
      { schedules: nightly("0 2 * * MON-FRI", "Europe/Berlin",
        { excludeCalendars: ["apps/billing/calendars/holidays"] }), displayName: "Report for the finance team",
      owner: "Grace Lindqvist", labels: { team: "finance" }, retry: { maxAttempts: 3 } }],
    ["billing", "archive-invoices", "full",
      { schedules: every(45), owner: "Ada Okafor", labels: { team: "ledger" },
      displayName: "Old invoices to cold storage" }],
    ["billing", "month-end", "quick", { schedules: nightly("0 6 L * *"), owner: "Grace Lindqvist",
      onSuccess: ["apps/billing/jobs/nightly-report"] }],
    ["warehouse", "stock-count", "long", { owner: "Wei Zhang", labels: { site: "hamburg" } }],
    ["warehouse", "price-feed", "wobbly",
      { schedules: every(11), owner: "Wei Zhang", retry: { maxAttempts: 4,
      initialBackoff: "1s" } }],
    ["warehouse", "reindex", "quick",
      { schedules: nightly("30 3 * * *", "Asia/Shanghai"), placement: { shardTotal: 24 } }],
    ["warehouse", "restock-letters", "quick",
      { schedules: nightly("0 9 * * 1", "Asia/Shanghai"), owner: "Wei Zhang" }],
  ];
  const year = new Date().getFullYear() + 1;
  await scheduler.call("CalendarService/CreateCalendar", { parent: "apps/billing",
    calendarId: "holidays", calendar: { displayName: "Public holidays",
    dates: ["01-01", "05-01", "10-03", "12-25", "12-26"].map((day) => `${year}-${day}`) } });
  await scheduler.call("CalendarService/CreateCalendar", { parent: "apps/billing",
    calendarId: "closing", calendar: { displayName: "Books are closed", windows: [
    { startTime: `${year}-01-02T17:00:00Z`, endTime: `${year}-01-05T05:00:00Z` }] } });
  await scheduler.call("CalendarService/CreateCalendar", { parent: "apps/warehouse",
    calendarId: "working-days", calendar: { weekdays: [1, 2, 3, 4, 5] } });
  for (const [app, id, script, more] of jobs) await scheduler.shellJob(app, id, script, more);
  await scheduler.call("AlarmService/CreateAlarmRule",
    { parent: "apps/billing", alarmRuleId: "failures", alarmRule: {
    displayName: "Tell the ledger team", condition: "CONDITION_RUN_FAILED", threshold: 2,
    channels: [{ webhook: { url: hook } }] } });
  const user = (/** @type {string} */ id, /** @type {string} */ displayName,
    /** @type {pb.Grant[]} */ grants) =>
    scheduler.call("IdentityService/CreateUser", { userId: id, password: "something to begin with",
      user: { displayName, email: `${id}@example.com`, grants } });
  await user("ada", "Ada Okafor",
    [{ app: "billing", role: "ROLE_EDITOR" }, { app: "warehouse", role: "ROLE_VIEWER" }]);
  await user("grace", "Grace Lindqvist", [{ app: "*", role: "ROLE_ADMIN" }]);
  await user("wei", "Wei Zhang", [{ app: "warehouse", role: "ROLE_OPERATOR" }]);
  await scheduler.call("JobService/UpdateJob",
    { job: { name: "apps/billing/jobs/nightly-report", timeout: "600s",
    owner: "Grace Lindqvist" }, updateMask: "timeout,owner" });
  await scheduler.call("JobService/PauseJob", { name: "apps/warehouse/jobs/restock-letters" });
  await scheduler.call("JobService/TriggerJob", { name: "apps/warehouse/jobs/stock-count" });
  const [failed, split] = [await scheduler.runOf("apps/billing/jobs/archive-invoices"),
    await scheduler.runOf("apps/warehouse/jobs/reindex")];
  await scheduler.runOf("apps/billing/jobs/archive-invoices");
  await scheduler.process?.stop();
  await new Promise((go) => setTimeout(go, AWAY_MS));
  await scheduler.up();
  const missed = await until(async () => (await scheduler.call("RunService/ListRuns",
    { parent: "apps/-", filter: "state = SKIPPED" })).runs?.find(
    (/** @type {pb.Run} */ run) => (run.missedCount ?? 0) > 1), "missed fire times");
  const { runs } = await scheduler.call("RunService/ListRuns",
    { parent: "apps/warehouse", filter: "state = RUNNING" });
  const last = (/** @type {string} */ name) => name.replace("apps/", "").replace("/runs/", "/");
  return { failed: last(failed.name), split: last(split.name), missed: last(missed.name),
    long: last(runs[0]?.name ?? split.name) };
}

/** @param {Awaited<ReturnType<typeof furnish>>} runs @returns {[string, string][]} */
const pages = ({ failed, split, long, missed }) => [
  ["home", "/"], ["jobs", "/jobs"], ["job", "/jobs/billing/ledger-sync"],
    ["job-coming", "/jobs/billing/nightly-report/coming"],
  ["job-settings", "/jobs/billing/nightly-report/settings"],
    ["job-revisions", "/jobs/billing/nightly-report/revisions"],
  ["job-new", "/jobs/new?app=billing"], ["job-edit", "/jobs/billing/nightly-report/edit"],
    ["runs", "/runs"],
  ["runs-failed", "/runs?state=troubled&since=24h"], ["run-failed", `/runs/${failed}`],
    ["run-shards", `/runs/${split}`], ["run-missed", `/runs/${missed}`],
  ["run-live", `/runs/${long}`], ["forecast", "/forecast?app=warehouse&hours=72"],
    ["calendars", "/calendars"], ["calendar", "/calendars/billing/holidays"],
  ["executors", "/executors"],
  ["cluster", "/cluster"], ["alarms", "/alarms"], ["alarm-rules", "/alarms/rules"],
    ["users", "/access/users"],
  ["tokens", "/access/tokens"], ["audit", "/access/audit"],
];

/** Waits until a page has all it shows. @param {import("playwright-core").Page} page @param {string} name */
async function settled(page, name) {
  await page.locator("main h1").first().waitFor();
  await until(async () => (await page.locator(
    "main .loading, main .dots, main .spark.wait").count()) === 0, name);
  await page.waitForLoadState("networkidle", { timeout: 2000 }).catch(() => {});
}

const hook = createServer((_, response) => response.end("ok")).listen(0, "127.0.0.1");
const scheduler = await Scheduler.start();
const browser = await launch();
try {
  mkdirSync(directory, { recursive: true });
  const { port } = /** @type {import("node:net").AddressInfo} */ (hook.address());
  const runs = await furnish(scheduler, `http://127.0.0.1:${port}/hook`);
  await new Promise((go) => setTimeout(go, Number(minutes) * MINUTE_MS));
  for (const theme of /** @type {const} */ (["light", "dark"])) {
    for (const [name, size] of Object.entries(SIZES)) {
      const { page, close } = await open(browser, scheduler, { theme, size });
      const kind = name === "desk" ? theme : `${name}-${theme}`;
      for (const [name, at] of pages(runs)) {
        await goTo(page, at);
        await settled(page, name);
        await page.screenshot({ path: join(directory, `${name}-${kind}.png`) });
        if (name !== "run-live") continue;
        await page.locator(".log").scrollIntoViewIfNeeded();
        await page.screenshot({ path: join(directory, `run-log-${kind}.png`) });
      }
      await close();
    }
  }
  const { page, close } = await open(browser, scheduler, { token: "", size: SIZES.desk });
  await page.locator("form").waitFor();
  await page.screenshot({ path: join(directory, "sign-in-light.png") });
  await close();
  const zh = await open(browser, scheduler, { lang: "zh", size: SIZES.desk });
  for (const [name, at] of pages(runs)) {
    await goTo(zh.page, at);
    await settled(zh.page, name);
    await zh.page.screenshot({ path: join(directory, `${name}-zh-light.png`) });
  }
  await zh.close();
} finally {
  await browser.close();
  await scheduler.stop();
  hook.close();
}
