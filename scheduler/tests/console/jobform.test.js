import assert from "node:assert/strict";
import { test } from "node:test";
import { goTo, row } from "./support/browser.js";
import { until } from "./support/scheduler.js";
import { stage } from "./support/stage.js";

const here = stage();

const save = (/** @type {import("playwright-core").Page} */ page) =>
  page.locator("form.job-form button[type=submit]").click();

test("a job is written, checked as it is typed, and runs", async () => {
  const { page, close } = await here.open({ at: "/jobs/new", lastingNotes: true });
  await until(async () => (await page.getByLabel("App").inputValue()) === "demo",
    "the only app to be filled in");
  await page.getByText("Still to fill in: Id, Handler").waitFor();
  await until(() => page.evaluate(() => document.activeElement?.closest("[data-at]")
    ?.getAttribute("data-at") === "jobId"), "the focus on the first field to fill in");
  await page.getByLabel("Id").fill("Not A Name");
  await page.getByLabel("Id").press("Tab");
  await page.locator(".field.wrong", { hasText: "Id" }).getByText(/a-z/).last().waitFor();
  await page.getByLabel("Id").fill("greeter");
  // Handlers are those that connected executors offer.
  await until(async () => (await page.locator("#handlers option").count()) >= 3,
    "the handlers that are offered");
  await page.getByLabel("Handler").fill("nobody-has-it");
  await page.getByText("No connected executor offers it").waitFor();
  await page.getByLabel("Handler").fill("hello");
  await page.getByText("Offered by one executor").waitFor();
  // The handler's schema makes the form of its params.
  await page.getByText("The handler asks for name, too.").waitFor();
  await page.locator(".params").getByLabel("name").fill("Mei");
  await page.getByLabel("Cron expression").fill("61 * * * *");
  await page.getByLabel("Cron expression").press("Tab");
  await page.locator(".field.wrong", { hasText: "Cron" }).locator(".field-fault").waitFor();
  await page.getByLabel("Cron expression").fill("0 0 9 ? * 2-6");
  await page.getByLabel("Time zone").fill("Asia/Shanghai");
  await page.locator(".preview-words", { hasText: /Monday.*Friday/ }).waitFor();
  await page.locator(".preview .tag", { hasText: "Quartz" }).waitFor();
  await page.locator(".fires li").first().getByText("09:00:00").waitFor();
  await page.getByText("Times in Asia/Shanghai").waitFor();
  await page.getByText("The scheduler takes it as it is.").waitFor();
  await save(page);
  await page.getByText("demo/greeter is made.").waitFor();

  await page.getByText("Trigger", { exact: true }).click();
  await page.locator("dialog").getByLabel("name").fill("Lin");
  await page.locator("dialog button[type=submit]").click();
  await page.locator(".note").getByText("Show").click();
  await page.getByText("Hello, Lin!").waitFor();
  await close();
});

test("the only app is in a form from its start, and never comes where somebody types", async () => {
  const forms = { "/jobs/new": "", "/calendars": "New calendar", "/alarms/rules": "New rule" };
  await Promise.all(Object.entries(forms).map(async ([at, button]) => {
    const { page, close } = await here.open(
      { token: await here.scheduler.tokenFor("EDITOR", "demo") });
    /** @type {() => void} */
    let answer = () => {};
    const answered = new Promise((go) => { answer = () => go(undefined); });
    await page.route("**/clawjob.v1.ClusterService/ListApps", async (route) => {
      await answered;
      await route.continue();
    });
    await goTo(page, at);
    const loading = page.locator("main .loading");
    if (button) {
      const open = page.getByText(button).first();
      await open.waitFor();
      // The list's own: what comes then is the form's.
      await loading.waitFor({ state: "detached" });
      await open.click();
    }
    await loading.waitFor();
    const app = page.locator("form").getByLabel(/^App/);
    assert.equal(await app.count(), 0, at);
    answer();
    assert.equal(await app.inputValue(), "demo", at);
    await close();
  }));
});

test("a form can be filled in where the apps can't be told", async () => {
  const { page, close } = await here.open();
  await page.route("**/clawjob.v1.ClusterService/ListApps", (route) => route.abort());
  await goTo(page, "/calendars");
  await page.getByText("New calendar").first().click();
  await page.locator("dialog").getByLabel(/^App/).fill("demo");
  await close();
});

test("r76 typing in a box of params keeps the cursor", async () => {
  const { page, close } = await here.open({ at: "/jobs/new?app=demo" });
  await page.getByLabel("Handler").fill("hello");
  const name = page.locator(".params").getByLabel("name");
  await name.fill("ad");
  await name.press("ArrowLeft");
  await name.pressSequentially("1234");
  assert.equal(await name.inputValue(), "a1234d");
  await page.locator(".params").getByText("as JSON").click();
  const box = page.getByLabel("Params as JSON");
  await box.fill('{"name": "ad", "other": [1,2]}');
  await box.press("Home");
  for (let i = 0; i < 11; i += 1) await box.press("ArrowRight");
  // Half-way it is no JSON; what was typed stays as it was typed.
  await box.pressSequentially('x"y');
  await page.getByText("This is not valid JSON").waitFor();
  assert.equal(await box.inputValue(), '{"name": "ax"yd", "other": [1,2]}');
  await box.press("Backspace");
  await box.press("Backspace");
  await box.pressSequentially("z");
  assert.equal(await box.inputValue(), '{"name": "axzd", "other": [1,2]}');
  await close();
});

test("faults of a form stand at their fields, and what was typed stays", async () => {
  const { page, close } = await here.open({ at: "/jobs/new?app=demo" });
  await page.getByText("Retries", { exact: true }).click();
  await page.getByLabel("First wait").fill("soon");
  await page.getByLabel("First wait").press("Tab");
  await page.getByText("Write a length such as 90s").waitFor();
  await page.getByLabel("Attempts").fill("5000");
  await page.getByLabel("Attempts").press("Tab");
  await page.locator(".field.wrong", { hasText: "Attempts" }).locator(".field-fault").waitFor();
  await save(page);
  // Nothing was sent, and fields that are empty and needed say so now.
  await page.locator(".field.wrong", { hasText: "Handler" }).waitFor();
  assert.equal(await page.getByLabel("First wait").inputValue(), "soon");
  assert.match(page.url(), /jobs\/new/);
  await close();
});

test("a field is accused when it was left with a change or on save, and not before", async () => {
  const { page, close } = await here.open();
  // The scheduler's answer to the form as it is opened: what is wrong is known then.
  const checked = page.waitForResponse("**/clawjob.v1.JobService/CreateJob");
  await goTo(page, "/jobs/new?app=demo");
  const wrong = page.locator(".field.wrong");
  await page.getByText("Still to fill in: Id, Handler").waitFor();
  await checked;
  // To pass through is no fault.
  await page.getByLabel("Id").focus();
  await page.getByLabel("Handler").focus();
  await page.getByLabel("Owner").focus();
  assert.equal(await wrong.count(), 0);
  await page.getByText("Retries", { exact: true }).click();
  await page.getByLabel("First wait").pressSequentially("1");
  await page.getByLabel("First wait").pressSequentially("h3");
  assert.equal(await wrong.count(), 0, "half a length is no fault while it is typed");
  await page.getByLabel("First wait").fill("");
  await page.getByText("Retries", { exact: true }).click();
  await save(page);
  await page.locator(".field.wrong", { hasText: "Id" }).waitFor();
  await page.locator(".field.wrong", { hasText: "Handler" }).waitFor();
  await until(() => page.evaluate(() => document.activeElement?.closest("[data-at]")
    ?.getAttribute("data-at") === "jobId"), "the focus on the first fault");
  await close();
});

test("the app leads: with several to choose from the form waits for it", async () => {
  await here.scheduler.call("ClusterService/CreateApp", { appId: "second", app: {} });
  const { page, close } = await here.open({ at: "/jobs/new" });
  await page.getByText("Choose it first").waitFor();
  await page.getByText("Choose an app first: its executors offer the handlers.").waitFor();
  await until(() => page.evaluate(() => document.activeElement?.closest("[data-at]")
    ?.getAttribute("data-at") === "parent"), "the focus on the app");
  await page.getByLabel("App").fill("demo");
  await page.locator("[data-at=handler]").getByRole("button", { name: "hello" }).click();
  assert.equal(await page.getByLabel("Handler").inputValue(), "hello");
  await page.getByLabel("App").fill("second");
  await page.getByText("No connected executor offers it").waitFor();
  await here.scheduler.call("ClusterService/DeleteApp", { name: "apps/second" });
  await close();
});

test("what is left empty tells its default by its value, in the form and in the settings",
  async () => {
  const { page, close } = await here.open({ at: "/jobs/new?app=demo" });
  await page.getByText("Time and overlap", { exact: true }).click();
  for (const [label, usual] of [["Time to stop", "default: 10 s"],
    ["Timeout", "default: no limit"], ["Waiting at most", "default: 100"]]) {
    assert.equal(await page.getByLabel(label, { exact: true }).getAttribute("placeholder"), usual);
  }
  await page.locator("option", { hasText: "default: skip the new one" })
    .waitFor({ state: "attached" });
  await goTo(page, "/jobs/demo/report/settings");
  await page.locator(".facts > div", { hasText: "Time to stop" }).getByText("default: 10 s")
    .waitFor();
  await close();
});

test("a copy begins with the other's settings; a change can be taken back", async () => {
  const { page, close } = await here.open({ at: "/jobs/demo/risky" });
  await page.getByText("Copy", { exact: true }).click();
  await page.getByLabel("Id").fill("risky-two");
  assert.equal(await page.getByLabel("Attempts").inputValue(), "3");
  await save(page);
  await page.getByText("demo/risky-two is made.").waitFor();
  await page.getByText("Edit", { exact: true }).click();
  await page.getByLabel("Owner").fill("grace");
  await page.getByLabel("Attempts").fill("4");
  await save(page);
  await page.getByText("demo/risky-two is saved.").waitFor();
  await page.locator(".tabs").getByText("Revisions").click();
  const newest = page.locator(".revisions > li").first();
  await newest.getByText("retry.maxAttempts").waitFor();
  assert.deepEqual(await newest.locator("del").allInnerTexts(), ["3"]);
  assert.deepEqual((await newest.locator("ins").allInnerTexts()).sort(), ["4", "grace"]);
  await page.locator(".revisions > li").nth(1).getByText("Roll back").click();
  await page.locator("dialog").getByText("grace").waitFor();
  await page.locator("dialog button[type=submit]").click();
  await page.getByText("Revision 3").waitFor();
  const job = await here.scheduler.call("JobService/GetJob", { name: "apps/demo/jobs/risky-two" });
  assert.equal(job.retry.maxAttempts, 3);
  assert.equal(job.owner, undefined);
  await close();
});

test("who saves over somebody else's change is told, and loses nothing", async () => {
  await here.scheduler.call("JobService/CreateJob",
    { parent: "apps/demo", jobId: "contested", job: { handler: "hello" } });
  const { page, close } = await here.open({ at: "/jobs/demo/contested/edit" });
  await page.getByLabel("Owner").fill("me");
  await here.scheduler.call("JobService/UpdateJob",
    { job: { name: "apps/demo/jobs/contested", owner: "them" }, updateMask: "owner" });
  await save(page);
  await page.locator(".fault, .save .field-fault").first().waitFor();
  assert.equal(await page.getByLabel("Owner").inputValue(), "me");
  const job = await here.scheduler.call("JobService/GetJob", { name: "apps/demo/jobs/contested" });
  assert.equal(job.owner, "them");
  await close();
});

test("a fixed rate counts from the job's creation, in the coming fires and in the form", async () => {
  const job = await here.scheduler.call("JobService/CreateJob", { parent: "apps/demo",
    jobId: "rated", job: { handler: "hello", schedules: [{ interval: "7000s" }] } });
  const { page, close } = await here.open({ at: "/jobs/demo/rated/coming" });
  const first = page.locator(".fires li time").first();
  for (const at of ["/jobs/demo/rated/coming", "/jobs/demo/rated/edit"]) {
    await goTo(page, at);
    await first.waitFor();
    const shown = Date.parse(await first.getAttribute("datetime") ?? "");
    assert.equal(shown, Date.parse(job.nextFireTime), at);
  }
  await close();
});

test("in Chinese schedules are told in Chinese, and a length can be typed as it is shown",
  async () => {
  const { page, close } = await here.open({ at: "/jobs/new?app=demo", lang: "zh" });
  const [cron, words] = [page.getByLabel("Cron 表达式"), page.locator(".preview-words")];
  await page.locator("[data-at='schedules[0].timeZone'] input").fill("UTC");
  await words.getByText("UTC").waitFor();
  for (const [text, told] of [["0 2 * * *", "每天 02:00"], ["30 9 * * MON-FRI", "周一至周五 09:30"],
    ["*/15 9-17 * 3 1,3,5", "3月"], ["0 0 L * *", "每月最后一天 00:00"],
    ["0 9 ? * 2#1", "每月第一个周"], ["0 0 1,15 * *", "每月 1、15 日"], ["5 * * * *", "每小时第 5 分"],
    ["@every 90m", "每隔 1 小时 30 分"]]) {
    await cron.fill(text);
    await words.getByText(told).waitFor();
    assert.doesNotMatch((await words.innerText()).replace(/UTC|Quartz|Unix|Spring/g, ""),
      /[A-Za-z]/, text);
  }
  await page.getByText("时间与重叠").click();
  assert.equal(await page.getByLabel("停止宽限").getAttribute("placeholder"), "默认：10 秒");
  await page.getByLabel("停止宽限").fill("1 分 30 秒");
  await page.getByLabel("停止宽限").press("Tab");
  assert.equal(await page.locator("[data-at=killGrace].wrong").count(), 0);
  await close();
});

test("the coming fires are shown as a calendar and as a list, and a pause shows", async () => {
  const { page, close } = await here.open({ at: "/forecast?hours=72&q=report" });
  await page.locator(".heat").first().waitFor();
  await page.getByText("3 fires").waitFor();
  assert.equal(await page.locator(".panel table.small tbody tr").count(), 3);
  await page.locator(".heat", { hasText: "1" }).first().click();
  await page.getByText(/1 fires in the hour from/).waitFor();
  await goTo(page, "/jobs/demo/report/coming");
  await page.locator(".fires li").first().waitFor();
  await page.getByText("Pause", { exact: true }).click();
  await page.locator("dialog").getByLabel("Reason").fill("holidays");
  await page.locator("dialog button[type=submit]").click();
  await page.getByText("Paused: these are the times").waitFor();
  await page.locator(".lead", { hasText: "holidays" }).waitFor();
  await goTo(page, "/jobs?q=report");
  await row(page, "report").getByText("paused").waitFor();
  await close();
});
