import assert from "node:assert/strict";
import { test } from "node:test";
import { row } from "./support/browser.js";
import { until } from "./support/scheduler.js";
import { stage } from "./support/stage.js";

const here = stage(async (scheduler) => {
  await scheduler.agent("ops", { nap: "sleep 300" });
  await scheduler.shellJob("ops", "nap", "nap");
});

test("executors are shown with what they run; one is cordoned and uncordoned", async () => {
  const { page, close } = await here.open({ at: "/executors" });
  await row(page, "demo/").getByText("online").waitFor();
  await here.scheduler.call("JobService/TriggerJob", { name: "apps/ops/jobs/nap" });
  await until(async () => /\b1\b/.test(await row(page, "ops/").locator(
    "[data-label='Running now']").innerText()),
    "a run on the agent");
  await row(page, "ops/").locator("a.name").click();
  await page.locator(".panel", { hasText: "Handlers" }).getByText("shell").waitFor();
  await row(page, "nap").waitFor();
  await page.getByText("Cordon", { exact: true }).click();
  await page.locator("dialog").getByLabel("Reason").fill("new disk");
  await page.locator("dialog button[type=submit]").click();
  await page.locator(".lead .tag", { hasText: "Cordoned" }).waitFor();
  await page.getByText("Uncordon").click();
  await page.getByText("Cordon", { exact: true }).waitFor();
  await close();
});

test("an executor that is disconnected with its runs comes back without them", async () => {
  await here.scheduler.call("JobService/TriggerJob", { name: "apps/ops/jobs/nap" });
  const { page, close } = await here.open({ at: "/executors?app=ops" });
  await row(page, "ops/").locator("a.name").click();
  await page.getByText("Disconnect", { exact: true }).click();
  await page.locator("dialog").getByLabel("Stop its runs, too").check();
  await page.locator("dialog button[type=submit]").click();
  await until(async () => {
    const { runs = [] } = await here.scheduler.call("RunService/ListRuns",
      { parent: "apps/ops", filter: "state = RUNNING" });
    return runs.length === 0;
  }, "its runs to be stopped");
  await page.locator(".lead .state", { hasText: "online" }).waitFor();
  await close();
});

test("an executor that is killed is told of on the home page, with since when", async () => {
  const agent = await here.scheduler.agent("brief", { nap: "sleep 300" });
  const { page, close } = await here.open();
  await page.locator("table.small a", { hasText: "brief" }).waitFor();
  await agent.stop("SIGKILL");
  const finding = page.locator(".finding", { hasText: /brief/ });
  await finding.first().waitFor();
  assert.match(await finding.first().innerText(), /since ([\d-]+ )?\d\d:\d\d:\d\d/);
  await close();
});

test("an executor that leaves stays in sight as it is now, whatever the filter", async () => {
  const agent = await here.scheduler.agent("leaving", { nap: "sleep 300" });
  const { page, close } = await here.open({ at: "/executors?app=leaving&state=ONLINE" });
  await row(page, "leaving/").getByText("online").waitFor();
  await agent.stop("SIGTERM");
  await row(page, "leaving/").getByText("offline").waitFor();
  await close();
});

test("the cluster's page shows the node, its partitions and its backlog", async () => {
  const { page, close } = await here.open({ at: "/cluster" });
  await page.getByLabel("64 of 64 partitions are held").waitFor();
  await page.locator(".panel h2", { hasText: "active" }).waitFor();
  assert.equal(await page.locator(".partitions .share.free").count(), 0);
  await page.locator(".facts", { hasText: "sqlite" }).waitFor();
  await close();
});
