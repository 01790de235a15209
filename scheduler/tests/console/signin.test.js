import assert from "node:assert/strict";
import { test } from "node:test";
import { goTo, row, settled, signInByToken } from "./support/browser.js";
import { until } from "./support/scheduler.js";
import { stage } from "./support/stage.js";

const here = stage();

test("a token that does not hold is told of; one that does leads to the page asked for",
  async () => {
  const { page, close } = await here.open({ at: "/jobs?q=risky", token: "" });
  await page.getByText("Sign in with a token").click();
  await page.locator("input[name=token]").fill("clawjob_nobody_knows");
  await page.locator("form button[type=submit]").click();
  await page.getByRole("alert").waitFor();
  assert.equal(await page.locator(".shell").count(), 0);
  await page.locator("input[name=token]").fill(here.scheduler.token);
  await page.locator("form button[type=submit]").click();
  await row(page, "risky").waitFor();
  assert.equal(await row(page, "hello").count(), 0);
  await close();
});

test("a user signs in, must change a password that somebody else gave, and goes on", async () => {
  const user = { displayName: "Ada", grants: [{ app: "*", role: "ROLE_ADMIN" }] };
  await here.scheduler.call("IdentityService/CreateUser",
    { userId: "ada", user, password: "first-of-all-words" });
  const { page, close } = await here.open({ token: "" });
  await page.locator("input[name=user]").fill("ada");
  await page.locator("input[name=password]").fill("not that one at all");
  await page.locator("form button[type=submit]").click();
  await page.getByRole("alert").waitFor();
  await page.locator("input[name=password]").fill("first-of-all-words");
  await page.locator("form button[type=submit]").click();

  await page.locator("input[name=now]").fill("first-of-all-words");
  await page.locator("input[name=next]").fill("a much better secret 7");
  await page.locator("input[name=twice]").fill("another one");
  await page.locator("form button[type=submit]").click();
  await page.getByText("The two are not the same.").waitFor();
  await page.locator("input[name=twice]").fill("a much better secret 7");
  await page.locator("form button[type=submit]").click();
  await page.locator(".shell").waitFor();
  assert.match(await page.locator(".who-name").innerText(), /Ada/);

  await page.reload();
  await page.locator(".shell").waitFor();
  await page.getByLabel("Sign out").click();
  await page.locator("input[name=user]").waitFor();
  await close();
});

test("no script of a page can read the session", async () => {
  const { page, close } = await here.open();
  const kept = await page.evaluate(() =>
    [document.cookie, ...Object.values(sessionStorage), ...Object.values(localStorage)]);
  assert.ok(!kept.join().includes("clawjob_"), kept.join());
  await close();
});

test("roles decide what is shown", async () => {
  const viewer = await here.open({ at: "/jobs", token: await here.scheduler.tokenFor("VIEWER") });
  await row(viewer.page, "hello").waitFor();
  for (const name of ["New job", "Access", "Trigger hello now"]) {
    assert.equal(await viewer.page.getByText(name).or(viewer.page.getByLabel(name)).count(), 0,
      name);
  }
  assert.equal(await viewer.page.getByRole("switch").count(), 0);
  assert.equal(await viewer.page.getByRole("checkbox").count(), 0);
  await viewer.close();

  const operator = await here.open(
    { at: "/jobs", token: await here.scheduler.tokenFor("OPERATOR", "demo") });
  await operator.page.getByLabel("Trigger hello now").waitFor();
  assert.ok(await operator.page.getByRole("switch").count() > 0);
  assert.equal(await operator.page.getByText("New job").count(), 0);
  await operator.close();

  const editor = await here.open(
    { at: "/jobs", token: await here.scheduler.tokenFor("EDITOR", "demo") });
  await editor.page.getByText("New job").waitFor();
  assert.equal(await editor.page.locator("nav").getByText("Access").count(), 0);
  await editor.close();
});

test("a viewer of one app sees that app alone on every page, and no fault", async () => {
  const secret = "a job of another app";
  await here.scheduler.call("JobService/CreateJob",
    { parent: "apps/other", jobId: "hidden", job: { handler: "hello", displayName: secret } });
  const { page, close } = await here.open(
    { token: await here.scheduler.tokenFor("VIEWER", "demo") });
  const pages = ["/", "/jobs", "/runs", "/forecast?hours=1", "/calendars", "/executors",
    "/cluster", "/alarms", "/alarms/rules", "/jobs/demo/hello", "/jobs/demo/hello/revisions",
    "/jobs/demo/hello/settings"];
  for (const at of pages) {
    await goTo(page, at);
    await page.locator("main h1").first().waitFor();
    await until(async () => (await page.locator("main .loading").count()) === 0, at);
    assert.equal(await page.locator("main .fault").count(), 0, at);
    assert.ok(!(await page.locator("main").innerText()).includes(secret), at);
  }
  await goTo(page, "/jobs/other/hidden");
  await page.locator(".fault", { hasText: "not yours to see" }).waitFor();
  await close();
});

test("who is signed out elsewhere comes to the way in, and back to the same page", async () => {
  const secret = await here.scheduler.tokenFor("VIEWER");
  const { page, close } = await here.open({ at: "/jobs?q=hello", token: secret });
  await row(page, "hello").waitFor();
  const { tokens } = await here.scheduler.call("IdentityService/ListTokens", { pageSize: 1000 });
  const name = tokens.find((/** @type {any} */ token) => secret.startsWith(token.prefix)).name;
  await here.scheduler.call("IdentityService/RevokeToken", { name });
  await page.locator("input[name=user], input[name=token]").waitFor();
  await signInByToken(page, here.scheduler.token);
  await row(page, "hello").waitFor();
  assert.match(page.url(), /q=hello/);
  await close();
});

test("what becomes known while a page is being drawn is on the page", async () => {
  const { page, close } = await here.open({ token: "" });
  await page.locator("form .link").waitFor();
  const shown = await page.evaluate(async (base) => {
    const { html, render } = await import(new URL("lib/dom.js", base).href);
    const { store, useStore } = await import(new URL("lib/store.js", base).href);
    const state = store("asking");
    const Part = () => useStore(state);
    const place = document.createElement("div");
    document.body.append(place);
    render(html`<${Part} />`, place);
    // As an answer does that comes before the browser has painted.
    state.set("out");
    const frame = () => new Promise((go) => requestAnimationFrame(() => setTimeout(go)));
    for (let left = 60; left > 0 && place.textContent !== "out"; left -= 1) await frame();
    return place.textContent;
  }, here.scheduler.url);
  assert.equal(shown, "out");
  await close();
});

test("a page of which a file did not arrive says so, and is loaded again once somebody answers",
  async () => {
  const context = await here.browser.newContext({ locale: "en-US" });
  const page = await context.newPage();
  let cut = true;
  await page.route("**/lib/time.js", (route) => (cut ? route.abort() : route.continue()));
  await page.goto(here.scheduler.url);
  // From here on nobody answers.
  await page.route("**/*", (route) => (cut ? route.abort() : route.fallback()));
  await page.getByText("The console did not arrive whole").waitFor();
  cut = false;
  await page.locator("form .link").waitFor();
  await context.close();
});

test("a part of the console that did not arrive says so, and is loaded again", async () => {
  const { page, context, faults } = await here.open();
  await settled(page);
  let cut = true;
  await page.route("**/pages/runs.js", (route) => (cut ? route.abort() : route.continue()));
  await goTo(page, "/runs");
  await page.getByText("The console did not arrive whole").waitFor();
  cut = false;
  await page.locator("main h1", { hasText: "Runs" }).waitFor();
  await context.close();
  assert.ok(faults.some((fault) => fault.includes("runs.js")), "the browser's log tells of it");
});

test("a form that is open is not thrown away for a part that did not arrive", async () => {
  const { page, context } = await here.open({ at: "/jobs/new?app=demo" });
  await page.getByLabel("Id").waitFor();
  let cut = true;
  await page.route("**/pages/forecast.js", (route) => (cut ? route.abort() : route.continue()));
  await goTo(page, "/forecast");
  await page.getByText("The console did not arrive whole").waitFor();
  await goTo(page, "/jobs/new?app=demo");
  await page.getByLabel("Id").fill("half-written");
  cut = false;
  const looked = () => page.waitForResponse(`${here.scheduler.url}/`);
  await looked();
  await looked();
  assert.equal(await page.getByLabel("Id").inputValue(), "half-written");
  await context.close();
});
