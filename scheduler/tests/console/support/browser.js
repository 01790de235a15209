// A real browser on the console, that notes what a page must not do.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";
import { PATIENCE_MS, until } from "./scheduler.js";

const CHROMIUM = [process.env.CLAWJOB_TEST_CHROMIUM, "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome"].find((path) => path && existsSync(path));

/** Starts the browser. */
export async function launch() {
  if (!CHROMIUM) throw new Error(
    "there is no Chromium: install it (Debian: chromium), or name it in CLAWJOB_TEST_CHROMIUM");
  return chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
}

/**
 * @typedef {object} Opening
 * @property {string} [at] the part of the address behind #
 * @property {string} [token] signs in with it; the admin's by default, none with ""
 * @property {"en" | "zh"} [lang]
 * @property {"light" | "dark"} [theme]
 * @property {{ width: number, height: number }} [size]
 * @property {string} [timeZone]
 * @property {boolean} [lastingNotes] notes of the console stay until they are closed
 */

/**
 * A page of the console, signed in, in a browser context of its own.
 * @param {import("playwright-core").Browser} browser
 * @param {{ url: string, token: string }} scheduler
 * @param {Opening} [opening]
 */
export async function open(browser, scheduler, opening = {}) {
  const { at = "/", lang = "en", theme = "light", size = { width: 1440, height: 900 } } = opening;
  const context = await browser.newContext({
    viewport: size,
    colorScheme: theme,
    locale: lang === "zh" ? "zh-CN" : "en-US",
    timezoneId: opening.timeZone ?? "Europe/Berlin",
  });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  /** @type {string[]} */
  const lost = [];
  page.on("requestfailed", (request) =>
    lost.push(`${request.url()}: ${request.failure()?.errorText}`));
  if (opening.lastingNotes) await page.addInitScript(keepNotes);
  /** @type {string[]} */
  const faults = [];
  const own = new URL(scheduler.url).host;
  page.on("pageerror", (error) => faults.push(`error: ${error.stack}`));
  page.on("dialog", (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("console", (message) => {
    // A browser says this of each answer that is an error; what the page makes of it is tested.
    const told = message.text().startsWith("Failed to load resource");
    if (["error", "warning"].includes(message.type()) && !told) faults.push(
      `console: ${message.text()}`);
  });
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.host !== own && !["data:", "blob:", "about:"].includes(url.protocol)) {
      faults.push(`request to another host: ${request.url()}`);
    }
  });
  await page.goto(`${scheduler.url}/#${at}`);
  const token = opening.token ?? scheduler.token;
  if (token) {
    await signInByToken(page, token).catch(async (fault) => {
      const shown = await page.locator("body").innerText();
      throw new Error(`${fault.message}\nshown: ${shown}\nnot arrived: ${lost.slice(0, 5).join(", ")}`);
    });
  }
  return { page, context, faults, close: () => close(context, faults) };
}

/** Within a page: a note's six seconds may pass on a busy machine before it is acted on. */
function keepNotes() {
  const here = /** @type {any} */ (window);
  const usual = here.setTimeout.bind(here);
  here.setTimeout = (/** @type {any} */ act, /** @type {number} */ ms) =>
    usual(act, ms === 6000 ? 600_000 : ms);
}

/** @param {import("playwright-core").Page} page @param {string} token */
export async function signInByToken(page, token) {
  await page.locator("form .link").click();
  await page.locator("input[name=token]").fill(token);
  await page.locator("form button[type=submit]").click();
  await page.locator(".shell").waitFor();
}

/** @param {import("playwright-core").BrowserContext} context @param {string[]} faults */
async function close(context, faults) {
  await context.close();
  assert.deepEqual(faults, [], "what a page must not do");
}

/**
 * The row of a list whose name has this text.
 * @param {import("playwright-core").Page} page
 * @param {string | RegExp} text
 */
export const row = (page, text) =>
  page.locator("table.list tbody tr").filter({ has: page.locator("td.first", { hasText: text }) });

/**
 * Goes to another part of the console.
 * @param {import("playwright-core").Page} page
 * @param {string} at
 */
export const goTo = (page, at) => page.evaluate((to) => { location.hash = to; }, at);

/** Waits until the page has something to show. @param {import("playwright-core").Page} page */
export async function settled(page) {
  await page.locator("main h1").first().waitFor();
  await until(async () => (await page.locator("main .loading").count()) === 0,
    "the page to be loaded");
}
