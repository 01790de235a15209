// What people need who see little, hear the page, or use no pointer.
import assert from "node:assert/strict";
import { test } from "node:test";
import { goTo, row, settled } from "./support/browser.js";
import { PAGES, oddCalendar } from "./support/pages.js";
import { until } from "./support/scheduler.js";
import { stage } from "./support/stage.js";
import { edges, faint, focus, nameless, outline, unreachable } from "./support/wcag.js";

const TABS_MAX = 150;

const here = stage((scheduler) => oddCalendar(scheduler, "A few days"));

/** What falls short on a page. @param {import("playwright-core").Page} page @param {string} at */
async function shortcomings(page, at) {
  const found = [];
  for (const rule of [faint, nameless, unreachable, outline, edges]) {
    for (const one of await page.evaluate(rule)) found.push(`${rule.name} at ${at}: ${one}`);
  }
  return found;
}

test("pages pass by contrast, names, outline and reach, in both themes", async () => {
  const run = await here.scheduler.riskyRun();
  const pages = [...PAGES, `/runs/demo/${run.name.split("/").pop()}`];
  await Promise.all(/** @type {const} */ (["light", "dark"]).map(async (theme) => {
    const { page, close } = await here.open({ theme });
    const found = [];
    for (const at of pages) {
      await goTo(page, at);
      await settled(page);
      await page.evaluate(() => document.querySelectorAll("main details").forEach((fold) =>
        fold.setAttribute("open", "")));
      found.push(...await shortcomings(page, `${theme} ${at}`));
    }
    assert.deepEqual(found, []);
    await close();
  }));
});

test("dialogs and faults pass, too", async () => {
  await Promise.all(/** @type {const} */ (["light", "dark"]).map(async (theme) => {
    const { page, close } = await here.open({ theme, at: "/jobs/demo/hello" });
    const dialog = page.locator("dialog");
    const found = [];
    for (const [at, name] of [["/jobs/demo/hello", "Trigger"], ["/jobs/demo/hello", "Pause"],
      ["/jobs/demo/hello", "Backfill"], ["/calendars", "New calendar"],
      ["/alarms/rules", "New rule"], ["/access/users", "New user"],
      ["/access/tokens", "New token"]]) {
      await goTo(page, at);
      await settled(page);
      await page.getByRole("button", { name, exact: true }).first().click();
      await dialog.waitFor();
      found.push(...await shortcomings(page, `${theme} ${name}`));
      await dialog.getByLabel("Close").click();
      await dialog.waitFor({ state: "detached" });
    }
    await goTo(page, "/jobs/new");
    await settled(page);
    await page.locator("form.job-form button[type=submit]").click();
    await page.locator(".field.wrong").first().waitFor();
    found.push(...await shortcomings(page, `${theme} faults of a form`));
    assert.deepEqual(found, []);
    await close();
  }));
});

test("the focus goes through a page from top to bottom, and is always to be seen", async () => {
  const { page, close } = await here.open({ at: "/jobs?app=demo" });
  for (const at of ["/jobs?app=demo", "/jobs/new", "/jobs/demo/hello/settings", "/alarms/rules"]) {
    await goTo(page, at);
    await settled(page);
    await page.locator(".skip").focus();
    await page.keyboard.press("Tab");
    let last = -1;
    let steps = 0;
    for (; steps < TABS_MAX; steps += 1) {
      const now = await page.evaluate(focus);
      if (!now || now.place < last) break;
      assert.ok(now.seen, `the focus is not to be seen at ${at}: ${now.words}`);
      last = now.place;
      await page.keyboard.press("Tab");
    }
    assert.ok(steps > 10 && steps < TABS_MAX, `${steps} steps at ${at}`);
  }
  await close();
});

test("the keyboard alone leads from the list to a run of a job", async () => {
  const { page, close } = await here.open({ at: "/jobs?app=demo", lastingNotes: true });
  await row(page, "report").waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("report");
  await until(async () => (await page.locator("table.list tbody tr").count()) === 1, "one row");
  await page.keyboard.press("Escape");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.locator(".tabs").waitFor();
  assert.equal(await page.evaluate(() => document.activeElement?.id), "main");
  await page.getByRole("button", { name: "Trigger", exact: true }).focus();
  await page.keyboard.press("Enter");
  await page.locator("dialog").waitFor();
  await page.locator("dialog button[type=submit]").focus();
  await page.keyboard.press("Enter");
  // Until the dialog is gone nothing behind it takes the focus, and then it gives the focus back.
  await page.locator("dialog").waitFor({ state: "detached" });
  const shown = page.locator(".note a");
  await until(async () => {
    await shown.focus();
    return shown.evaluate((link) => link === document.activeElement);
  }, "the focus at what was triggered");
  await page.keyboard.press("Enter");
  await page.locator(".log-line").first().waitFor();
  await page.locator(".log-lines").focus();
  await page.keyboard.press("j");
  await page.locator(".log-one").getByText("record 1").waitFor();
  await close();
});
