import assert from "node:assert/strict";
import { test } from "node:test";
import { goTo, row } from "./support/browser.js";
import { until } from "./support/scheduler.js";
import { stage } from "./support/stage.js";

const REPORT = "apps/demo/jobs/report";

const here = stage();

/** @param {import("playwright-core").Page} page */
const save = (page) => page.locator("dialog button[type=submit]").click();

/** The date on which the report fires next, on the clock of its schedule. */
async function nextDate() {
  const { nextFireTime } = await until(() =>
    here.scheduler.call("JobService/GetJob", { name: REPORT }).catch(() => null), "the demo's job");
  return new Intl.DateTimeFormat("en-CA", { timeZone: "Asia/Shanghai" }).format(
    new Date(nextFireTime));
}

test("a calendar is made, a job goes by it, a change reaches the job, and it is deleted",
  async () => {
  const date = await nextDate();
  const { page, close } = await here.open({ at: "/calendars" });
  await page.getByText("No calendars yet").waitFor();
  await page.getByText("New calendar").click();
  const form = page.locator("dialog");
  await form.getByLabel("App").fill("demo");
  await form.getByLabel("Id").fill("holidays");
  await form.getByLabel("Dates").fill(`${date}, 2030-02-30`);
  await save(page);
  // Half of what was typed is wrong; all of it is still there.
  await form.locator(".field.wrong", { hasText: "Dates" }).getByText("2030-02-30").waitFor();
  assert.equal(await form.getByLabel("Dates").inputValue(), `${date}, 2030-02-30`);
  await form.getByLabel("Dates").fill(`${date}\n2030-02-28`);
  await form.getByLabel("Sun").check();
  await save(page);
  await page.locator(".dates", { hasText: "02-28" }).waitFor();
  await page.locator(".panel", { hasText: "Weekdays" }).getByText("Sun").waitFor();
  await page.getByText("No job uses it").waitFor();
  assert.match(page.url(), /calendars\/demo\/holidays/);

  await goTo(page, "/jobs/demo/report/edit");
  await page.getByText("Start, end, spread, dates left out").click();
  await page.getByRole("group", { name: "Not on days of" }).getByLabel("holidays").check();
  await page.locator("form.job-form button[type=submit]").click();
  await page.getByText("demo/report is saved.").waitFor();
  assert.ok((await nextDate()) > date);
  await goTo(page, "/jobs/demo/report/settings");
  await page.locator(".facts").getByText("demo/holidays").click();
  const users = page.locator(".panel", { hasText: "Jobs that use it" });
  await users.locator("tr", { hasText: "demo/report" }).getByText("not on its days").waitFor();

  await page.getByLabel("Delete").click();
  await save(page);
  await form.getByRole("alert").getByText("it is used by 1 job").waitFor();
  await form.getByLabel("Close").click();
  await page.getByText("Edit", { exact: true }).click();
  await form.getByLabel("Dates").fill("2030-02-28");
  for (const day of ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]) await form.getByLabel(day).check();
  await form.getByLabel("Display name").fill("Every day");
  await save(page);
  await page.locator(".note", { hasText: "planned anew" }).waitFor();
  await goTo(page, "/jobs/demo/report");
  await page.locator(".failure").waitFor();

  const { schedules } = await here.scheduler.call("JobService/GetJob", { name: REPORT });
  delete schedules[0].excludeCalendars;
  await here.scheduler.call("JobService/UpdateJob",
    { job: { name: REPORT, schedules }, updateMask: "schedules" });
  assert.equal(await nextDate(), date);
  await goTo(page, "/calendars");
  await row(page, "holidays").getByText("Every day").waitFor();
  await until(async () =>
    (await row(page, "holidays").locator("[data-label=Jobs]").innerText()) === "0",
    "that no job uses it");
  await row(page, "holidays").getByLabel("Delete").click();
  await save(page);
  await page.getByText("No calendars yet").waitFor();
  await close();
});

test("a stretch of time is written by the clock that is shown, and its faults stand at it",
  async () => {
  const { page, close } = await here.open({ at: "/calendars" });
  await page.getByText("New calendar").first().click();
  const form = page.locator("dialog");
  await form.getByLabel("App").fill("demo");
  await form.getByLabel("Id").fill("freeze");
  await form.getByText("Add a stretch of time").click();
  await form.getByLabel("Begins").fill("2030-11-27T18:00");
  await form.getByLabel("Ends").fill("2030-11-26T18:00");
  await save(page);
  await form.locator(".field.wrong", { hasText: "Ends" }).locator(".field-fault").waitFor();
  await form.getByLabel("Ends").fill("2030-11-30T07:00");
  await save(page);
  await page.locator(".panel", { hasText: "Stretches of time" }).getByText("18:00:00").waitFor();
  const calendar = await here.scheduler.call("CalendarService/GetCalendar",
    { name: "apps/demo/calendars/freeze" });
  // The clock of Berlin in winter.
  assert.deepEqual(calendar.windows,
    [{ startTime: "2030-11-27T17:00:00Z", endTime: "2030-11-30T06:00:00Z" }]);
  await close();
});

test("who may only read finds the calendars, and nothing to change them by", async () => {
  await here.scheduler.call("CalendarService/CreateCalendar",
    { parent: "apps/demo", calendarId: "read", calendar: { dates: ["2030-01-01"] } });
  await here.scheduler.call("CalendarService/CreateCalendar",
    { parent: "apps/other", calendarId: "hidden", calendar: { dates: ["2030-01-01"] } });
  const { page, close } = await here.open(
    { at: "/calendars", token: await here.scheduler.tokenFor("VIEWER", "demo") });
  await row(page, "read").waitFor();
  assert.equal(await row(page, "hidden").count(), 0);
  for (const name of ["New calendar", "Edit", "Delete"]) {
    assert.equal(await page.getByText(name).or(page.getByLabel(name)).count(), 0, name);
  }
  await row(page, "read").locator("a.name").click();
  await page.locator(".dates", { hasText: "01-01" }).waitFor();
  assert.equal(await page.getByText("Edit", { exact: true }).count(), 0);
  await close();

  const editor = await here.open(
    { at: "/calendars", token: await here.scheduler.tokenFor("EDITOR", "demo") });
  await row(editor.page, "read").getByLabel("Edit").waitFor();
  await editor.close();
});
