// What a file of tests plays on: a scheduler and a browser, there before the first test and gone
// after the last.
import { after, before } from "node:test";
import { launch, open } from "./browser.js";
import { Scheduler } from "./scheduler.js";

/**
 * @param {(scheduler: Scheduler) => Promise<unknown>} [prepare]
 * @param {string[]} [args] of the scheduler
 */
export function stage(prepare, args = []) {
  /** @type {{ scheduler?: Scheduler, browser?: import("playwright-core").Browser }} */
  const here = {};
  before(async () => {
    await Promise.all([
      launch().then((browser) => { here.browser = browser; }),
      Scheduler.start("dev", args).then((scheduler) => { here.scheduler = scheduler; }),
    ]);
    await prepare?.(/** @type {Scheduler} */ (here.scheduler));
  });
  after(async () => {
    await here.browser?.close();
    await here.scheduler?.stop();
  });
  return {
    get scheduler() {
      return /** @type {Scheduler} */ (here.scheduler);
    },
    /** A page of the console, signed in. @param {import("./browser.js").Opening} [opening] */
    open: (opening) => open(/** @type {any} */ (here.browser), /** @type {any} */ (here.scheduler),
      opening),
  };
}
