import assert from "node:assert/strict";
import { test } from "node:test";
import { goTo, row, settled } from "./support/browser.js";
import { PAGES, oddCalendar } from "./support/pages.js";
import { until } from "./support/scheduler.js";
import { stage } from "./support/stage.js";

const SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(2)>";
const here = stage(async (scheduler) => {
  await scheduler.agent("odd",
    { say: `printf '%s\\n' '${SCRIPT}'; printf '%s' '${SCRIPT}' >&2; exit 4` });
  await oddCalendar(scheduler, SCRIPT);
});

test("every page is there in both languages, and no text is missing", async () => {
  const run = await here.scheduler.riskyRun();
  await Promise.all(/** @type {const} */ (["en", "zh"]).map(async (lang) => {
    const { page, close } = await here.open({ lang });
    for (const at of [...PAGES, `/runs/demo/${run.name.split("/").pop()}`]) {
      await goTo(page, at);
      await settled(page);
      const text = await page.locator("body").innerText();
      assert.deepEqual(await page.evaluate(untold), [], `${lang} ${at}`);
      assert.equal(/[\u4e00-\u9fff]/.test(text.replace("中文", "")), lang === "zh", `${lang} ${at}`);
    }
    await close();
  }));
});

test("the language is switched and remembered, and so is the theme", async () => {
  const { page, close } = await here.open({ at: "/jobs" });
  await page.getByText("中文").click();
  await page.getByRole("heading", { name: "任务" }).waitFor();
  await page.getByLabel("深色").click();
  await page.reload();
  await page.getByRole("heading", { name: "任务" }).waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  assert.equal(await page.evaluate(() => document.documentElement.lang), "zh-CN");
  await page.getByText("EN", { exact: true }).click();
  await page.getByRole("heading", { name: "Jobs" }).waitFor();
  await close();
});

test("a script in any field is text", async () => {
  const { scheduler } = here;
  const payload = (/** @type {any} */ value) =>
    ({ contentType: "application/json", data: btoa(JSON.stringify(value)) });
  await scheduler.call("JobService/CreateJob", { parent: "apps/odd", jobId: "odd", job: {
    handler: "shell", displayName: SCRIPT, description: SCRIPT, owner: SCRIPT,
      labels: { html: SCRIPT },
    params: payload({ command: "say" }),
  } });
  const run = await scheduler.runOf("apps/odd/jobs/odd", { labels: { html: SCRIPT } });
  await scheduler.call("AlarmService/CreateAlarmRule",
    { parent: "apps/odd", alarmRuleId: "odd", alarmRule: {
    displayName: SCRIPT, condition: "CONDITION_RUN_FAILED", filter: 'owner : "<script>"',
    channels: [{ webhook: { url: "http://127.0.0.1:9/?q=<script>" } }],
  } });
  await scheduler.runOf("apps/odd/jobs/odd");
  await scheduler.call("IdentityService/CreateToken",
    { token: { displayName: SCRIPT, grants: [{ app: "odd", role: "ROLE_VIEWER" }] } });
  await scheduler.call("IdentityService/CreateUser",
    { userId: "odd", password: "a long enough first one",
    user: { displayName: SCRIPT, grants: [{ app: "odd", role: "ROLE_VIEWER" }] } });
  const { page, close } = await here.open();
  const places = ["/", "/jobs?app=odd", "/jobs/odd/odd", "/jobs/odd/odd/settings",
    "/jobs/odd/odd/edit", "/jobs/odd/odd/revisions",
    "/runs?app=odd", `/runs/odd/${run.name.split("/").pop()}`, "/alarms?seen=all", "/alarms/rules",
      "/access/tokens",
    "/calendars", "/calendars/odd/odd",
    "/access/users", "/access/audit", `/jobs?q=${encodeURIComponent(SCRIPT)}`];
  let shown = 0;
  for (const at of places) {
    await goTo(page, at);
    await settled(page);
    shown += (await page.locator("main").innerText()).includes(SCRIPT) ? 1 : 0;
    assert.equal(await page.locator("main script, main img").count(), 0, at);
  }
  assert.ok(shown >= 6, `shown on ${shown} pages`);
  await goTo(page, "/jobs/odd/odd/edit");
  assert.equal(await page.getByLabel("Owner").inputValue(), SCRIPT);
  await goTo(page, `/runs/odd/${run.name.split("/").pop()}`);
  await page.locator(".log-line", { hasText: "<script>alert(1)" }).first().waitFor();
  await close();
});

test("the keyboard leads through lists, to pages and to help", async () => {
  const { page, close } = await here.open({ at: "/jobs?app=demo" });
  await row(page, "hello").waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("k");
  assert.match(await page.locator("tr.at").innerText(), /hello/);
  await page.keyboard.press("x");
  await page.getByText("1 chosen").waitFor();
  await page.keyboard.press("?");
  await page.locator("dialog", { hasText: "next and previous row" }).waitFor();
  await page.keyboard.press("Escape");
  await until(async () => (await page.locator("dialog").count()) === 0, "help to be closed");
  await page.keyboard.press("Enter");
  await page.locator(".tabs").waitFor();
  // The letter counts for a moment after g, which may have passed on a busy machine.
  await until(async () => {
    await page.keyboard.press("g");
    await page.keyboard.press("r");
    return page.getByRole("heading", { name: "Runs", exact: true, level: 1 }).isVisible();
  }, "the page of runs");
  await page.keyboard.press("/");
  assert.equal(await page.evaluate(() => document.activeElement?.matches("[data-search]")), true);
  await close();
});

test("pages can be read on a telephone, a tablet and a wall", async () => {
  const sizes = [{ width: 375, height: 740 }, { width: 780, height: 1000 },
    { width: 900, height: 1000 }, { width: 1100, height: 800 }, { width: 3840, height: 2160 }];
  for (const size of sizes) {
    const { page, close } = await here.open({ size });
    for (const at of PAGES) {
      await goTo(page, at);
      await settled(page);
      const beyond = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(beyond <= 0, `${at} is ${beyond} px wider than ${size.width} px`);
      const head = (await page.locator(".rail").boundingBox())?.height ?? 0;
      assert.ok(size.width >= 960 || head < 100, `${at}: its head is ${head} px high`);
    }
    const strips = await page.locator(".tabs, .rail nav").evaluateAll((all) => all.filter((one) =>
      one.scrollHeight > one.clientHeight || one.scrollWidth > one.clientWidth).length);
    assert.equal(strips, 0, `${size.width} px: pages or tabs beyond the edge`);
    await close();
  }
});

/** Keys without a text: they are shown as they are. */
function untold() {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent?.trim() ?? "";
    const own = walker.currentNode.parentElement?.closest(".mono, .under, pre");
    if (!own && /^[a-z]+(\.[A-Za-z]\w*)+$/.test(text)) found.push(text);
  }
  return found;
}
