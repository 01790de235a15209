import assert from "node:assert/strict";
import { test } from "node:test";
import { goTo, row } from "./support/browser.js";
import { until } from "./support/scheduler.js";
import { stage } from "./support/stage.js";

const here = stage();

test("a token's secret is shown once, works, and does not when it is revoked", async () => {
  const { page, close } = await here.open({ at: "/access/tokens" });
  await page.getByText("New token").click();
  const form = page.locator("dialog");
  await form.getByLabel("What it is for").fill("a dashboard");
  await form.getByLabel("Ends after (days)").fill("30");
  await form.locator("button[type=submit]").click();
  const secret = (await page.locator("dialog pre").innerText()).trim();
  assert.match(secret, /^clawjob_/);
  await here.scheduler.call("JobService/ListJobs", { parent: "apps/-" }, secret);
  await page.getByText("I have kept it").click();
  await row(page, "a dashboard").getByText("holds").waitFor();
  assert.ok(!(await page.content()).includes(secret));
  await row(page, "a dashboard").getByText("Revoke").click();
  await page.locator("dialog button[type=submit]").click();
  await row(page, "a dashboard").getByText("revoked").waitFor();
  await assert.rejects(here.scheduler.call("JobService/ListJobs", { parent: "apps/-" }, secret),
    /unauthenticated/);
  await close();
});

test("users are made, changed, barred and deleted, and the audit log has it all", async () => {
  const { page, close } = await here.open({ at: "/access/users" });
  await page.getByText("New user").first().click();
  const form = page.locator("dialog");
  await form.getByLabel("User name").fill("grace");
  await form.getByLabel("First password").fill("short");
  await form.locator("button[type=submit]").click();
  await form.getByRole("alert").waitFor();
  await form.getByLabel("First password").fill("a long enough first one");
  await form.getByLabel("Role", { exact: true }).selectOption("ROLE_OPERATOR");
  await form.getByLabel("App, or * for all").fill("demo");
  await form.locator("button[type=submit]").click();
  await row(page, "grace").getByText("operator").waitFor();
  await row(page, "grace").getByText("must change the password").waitFor();
  await row(page, "grace").getByLabel("Edit").click();
  await form.getByLabel("May not sign in").check();
  await form.locator("button[type=submit]").click();
  await row(page, "grace").getByText("barred").waitFor();
  await row(page, "grace").getByLabel("Delete").click();
  await page.locator("dialog button[type=submit]").click();
  await until(async () => (await row(page, "grace").count()) === 0, "the user to be gone");

  await goTo(page, "/access/audit?q=grace");
  for (const method of ["CreateUser", "UpdateUser", "DeleteUser"]) {
    await page.locator("table.list tbody tr", { hasText: method }).first().waitFor();
  }
  const change = page.locator("table.list tbody tr", { hasText: "UpdateUser" }).first();
  // The token by its name; its id is told when it is pointed at.
  assert.match(await change.locator("td.first .person").getAttribute("title") ?? "", /^tokens\//);
  assert.doesNotMatch(await change.innerText(), /tokens\//);
  assert.match(await change.innerText(), /127\.0\.0\.1/);
  await page.getByLabel("Result").selectOption({ label: "INVALID_ARGUMENT" });
  await page.locator("table.list tbody tr", { hasText: "INVALID_ARGUMENT" }).first().waitFor();
  await close();
});

test("who is no admin finds nothing on the page", async () => {
  const { page, close } = await here.open({ token: await here.scheduler.tokenFor("EDITOR") });
  await goTo(page, "/access/users");
  await page.getByText("Only an admin sees this page").waitFor();
  await close();
});
