// Two schedulers on one Postgres.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, open } from "./support/browser.js";
import { postgres } from "./support/postgres.js";
import { Scheduler, until } from "./support/scheduler.js";

/** @type {Awaited<ReturnType<typeof postgres>>} */ let database;
/** @type {import("playwright-core").Browser} */ let browser;
/** @type {Scheduler[]} */ const nodes = [];
before(async () => {
  [database, browser] = await Promise.all([postgres(), launch()]);
  for (let i = 0; i < 2; i += 1) {
    nodes.push(await Scheduler.start("server", ["--database", database.url]));
  }
});
after(async () => {
  await browser?.close();
  for (const node of nodes) await node.stop();
  await database?.stop();
});

test("a node is drained: the other takes all its partitions, and the last one stays", async () => {
  const [one, other] = nodes;
  const idOf = async (/** @type {Scheduler} */ node) =>
    (await node.call("ClusterService/GetServerInfo", {}, one.token)).nodeId;
  const { page, close } = await open(browser, one, { at: "/cluster" });
  await page.getByLabel("64 of 64 partitions are held").waitFor();
  const panelOf = (/** @type {string} */ id) => page.locator(".panel:has(header .state)",
    { has: page.locator("h2", { hasText: id }) });
  const [staying, leaving] = [panelOf(await idOf(one)), panelOf(await idOf(other))];
  const held = (/** @type {import("playwright-core").Locator} */ panel) =>
    panel.locator(".facts > div", { hasText: "Partitions" }).locator("dd").innerText();
  await until(async () => (await held(staying)) === "32" && (await held(leaving)) === "32",
    "each node to hold its half");

  await leaving.getByText("Drain", { exact: true }).click();
  await page.locator("dialog button[type=submit]").click();
  await leaving.getByText("draining").waitFor();
  await until(async () => (await held(staying)) === "64" && (await held(leaving)) === "0",
    "one node to hold all");
  await page.getByLabel("64 of 64 partitions are held").waitFor();
  assert.equal(await leaving.getByText("Drain", { exact: true }).count(), 0);

  await staying.getByText("Drain", { exact: true }).click();
  await page.locator("dialog button[type=submit]").click();
  await page.locator("dialog").getByRole("alert").getByText("no other node").waitFor();
  await page.locator("dialog").getByLabel("Close").click();
  await staying.getByText("active").waitFor();
  await close();
});
