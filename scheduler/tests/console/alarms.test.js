import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { goTo, row } from "./support/browser.js";
import { until } from "./support/scheduler.js";
import { stage } from "./support/stage.js";

const here = stage(async (scheduler) => {
  await scheduler.agent("ops", { broken: "exit 3" });
  await scheduler.shellJob("ops", "broken", "broken");
});

/** @type {any[]} */ const told = [];
/** @type {import("node:http").Server} */ let hook;
before(async () => {
  hook = createServer(async (request, response) => {
    let text = "";
    for await (const part of request) text += part;
    told.push(JSON.parse(text));
    response.end("ok");
  });
  await new Promise((go) => hook.listen(0, "127.0.0.1", () => go(undefined)));
});
after(() => hook.close());

test("a rule is made, tested, raises an alarm, which is seen and acknowledged", async () => {
  const { port } = /** @type {import("node:net").AddressInfo} */ (hook.address());
  const { page, close } = await here.open({ at: "/alarms/rules" });
  await page.getByText("No rules yet").waitFor();
  await page.getByText("New rule").first().click();
  const form = page.locator("dialog");
  await form.getByLabel("App", { exact: true }).selectOption("ops");
  await form.getByLabel("Id").fill("night");
  await form.getByLabel("URL").fill("not a url");
  await form.locator("button[type=submit]").click();
  await form.locator(".field.wrong", { hasText: "URL" }).waitFor();
  await form.getByLabel("URL").fill(`http://127.0.0.1:${port}/hook`);
  await form.getByLabel("Secret").fill("between us");
  await form.locator("button[type=submit]").click();
  await row(page, "night").waitFor();
  await row(page, "night").getByText("Test", { exact: true }).click();
  await page.locator("dialog").getByText("arrived", { exact: true }).waitFor();
  assert.equal(told[0].test, true);
  await page.locator("dialog").getByLabel("Close").click();
  assert.ok(!(await page.content()).includes("between us"));

  await here.scheduler.runOf("apps/ops/jobs/broken");
  await until(() => told.length === 2, "the webhook to be told");
  await goTo(page, "/");
  const finding = page.locator(".finding", { hasText: "alarm is not acknowledged" });
  // Alarms stand last, and of many findings the last are shown when they are asked for.
  const others = page.locator(".verdict button", { hasText: /Show \d+ more/ });
  await until(async () => {
    if ((await others.count()) > 0) await others.click({ timeout: 1000 }).catch(() => {});
    return finding.count();
  }, "what needs a look, alarms too");
  await finding.click();
  await page.locator("table.list").getByText("Acknowledge").click();
  await page.locator("table.list .person").waitFor();
  await page.getByLabel("Seen").selectOption("yes");
  await page.locator("table.list tbody tr").first().waitFor();
  await page.getByLabel("Seen").selectOption("");
  await page.getByText("No open alarms").waitFor();

  await goTo(page, "/alarms/rules");
  await row(page, "night").getByRole("switch").click();
  await row(page, "night").getByText("off", { exact: true }).waitFor();
  await row(page, "night").getByLabel("Delete").click();
  await page.locator("dialog button[type=submit]").click();
  await page.getByText("No rules yet").waitFor();
  await close();
});
