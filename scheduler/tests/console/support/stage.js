// What a file of tests plays on: a scheduler and a browser, there before the first test and gone
// after the last.
import { after, before } from "node:test";
import { launch, open } from "./browser.js";
import { Scheduler, until } from "./scheduler.js";

/** The demo makes its jobs once it listens, this one after the others. */
const LAST_OF_DEMO = "apps/demo/jobs/report";

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
    const scheduler = /** @type {Scheduler} */ (here.scheduler);
    await until(() => scheduler.call("JobService/GetJob", { name: LAST_OF_DEMO }).catch(() => null),
      "the demo's jobs");
    await prepare?.(scheduler);
  });
  after(async () => {
    await here.browser?.close();
    await here.scheduler?.stop();
  });
  return {
    get scheduler() {
      return /** @type {Scheduler} */ (here.scheduler);
    },
    get browser() {
      return /** @type {import("playwright-core").Browser} */ (here.browser);
    },
    /** A page of the console, signed in. @param {import("./browser.js").Opening} [opening] */
    open: (opening) => open(/** @type {any} */ (here.browser), /** @type {any} */ (here.scheduler),
      opening),
  };
}
