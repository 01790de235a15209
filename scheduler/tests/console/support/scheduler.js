// Real processes: a scheduler with its demo executor, and agents.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const BINARY = process.env.CLAWJOB_TEST_BINARY ?? "";
/** On a busy machine everything may take this long. */
export const PATIENCE_MS = 60_000;
const LOOK_MS = 100;

/** The environment without settings of a scheduler. */
const CLEAN = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !name.startsWith("CLAWJOB_")));

/**
 * Looks again and again until there is something to see.
 * @template T
 * @param {() => Promise<T | undefined | null | false> | T | undefined | null | false} look
 * @param {string} what is waited for
 * @returns {Promise<T>}
 */
export async function until(look, what) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const seen = await look();
    if (seen) return seen;
    if (Date.now() > end) throw new Error(`waited in vain for ${what}`);
    await new Promise((go) => setTimeout(go, LOOK_MS));
  }
}

/**
 * Starts a process, and waits for a line that says it is up.
 * @param {string[]} args
 * @param {RegExp | null} ready
 */
async function start(args, ready) {
  if (!BINARY) throw new Error("CLAWJOB_TEST_BINARY names no binary: build clawjob and set it");
  const child = spawn(BINARY, args, { env: CLEAN, stdio: ["ignore", "pipe", "pipe"] });
  /** @type {string[]} */
  const said = [];
  /** @type {Promise<string>} */
  const up = new Promise((go, fail) => {
    /** @param {string} line */
    const hear = (line) => {
      said.push(line);
      if (said.length > 500) said.shift();
      if (ready?.test(line)) go(line);
    };
    createInterface({ input: child.stdout }).on("line", hear);
    createInterface({ input: child.stderr }).on("line", hear);
    child.on("error", fail);
    child.on("exit", (code) =>
      fail(new Error(`clawjob ${args[0]} ended with ${code}:\n${said.join("\n")}`)));
    setTimeout(() => fail(new Error(`no sign of ${ready}:\n${said.join("\n")}`)),
      PATIENCE_MS).unref();
  });
  up.catch(() => {});
  const line = ready ? await up : "";
  const ended = new Promise((go) => child.on("exit", go));
  return {
    child,
    /** The line that said it is up. */
    line,
    said,
    /** @param {NodeJS.Signals} [signal] */
    stop: async (signal = "SIGTERM") => {
      child.kill(signal);
      const hard = setTimeout(() => child.kill("SIGKILL"), PATIENCE_MS);
      await ended;
      clearTimeout(hard);
    },
  };
}

/** A scheduler of its own directory; `dev` has the app demo with an executor and four jobs. */
export class Scheduler {
  /** @param {"dev" | "server"} kind @param {string[]} [args] */
  static async start(kind = "dev", args = []) {
    const made = new Scheduler();
    made.args = [kind, ...args];
    made.dir = mkdtempSync(join(tmpdir(), "clawjob-console-"));
    await made.up();
    return made;
  }

  /** @type {string[]} */ args = [];
  dir = "";
  /** The first start takes one that is free, later ones the same. */
  port = 0;
  token = "";
  /** @type {Awaited<ReturnType<typeof start>> | undefined} */ process;
  /** @type {Awaited<ReturnType<typeof start>>[]} */ others = [];

  async up() {
    const place = ["--data-dir", join(this.dir, "data"), "--listen", `127.0.0.1:${this.port}`];
    this.process = await start([...this.args, ...place], /^listening on http/);
    this.port = Number(new URL(this.process.line.replace("listening on ", "")).port);
    // The first of those that share a database has one for all.
    const token = join(this.dir, "data", "admin.token");
    if (existsSync(token)) this.token = readFileSync(token, "utf8").trim();
  }

  get url() {
    return `http://127.0.0.1:${this.port}`;
  }

  /**
   * Calls a method of the contract.
   * @param {string} method
   * @param {object} [body]
   * @param {string} [token]
   * @returns {Promise<any>}
   */
  async call(method, body = {}, token = this.token) {
    const response = await fetch(`${this.url}/clawjob.v1.${method}`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
      body: JSON.stringify(body),
    });
    const answer = await response.json();
    if (!response.ok) throw new Error(`${method}: ${JSON.stringify(answer)}`);
    return answer;
  }

  /** A token with a role. @param {string} role @param {string} [app] */
  async tokenFor(role, app = "*") {
    const grants = [{ app, role: `ROLE_${role}` }];
    const made = await this.call("IdentityService/CreateToken",
      { token: { displayName: role, grants } });
    return made.secret;
  }

  /**
   * An agent that runs these shell scripts.
   * @param {string} app
   * @param {Record<string, string>} scripts by the name of the command
   */
  async agent(app, scripts) {
    const token = join(this.dir, `${app}.token`);
    writeFileSync(token, await this.tokenFor("EXECUTOR", app));
    const commands = Object.fromEntries(Object.entries(scripts).map(([name, script]) =>
      [name, { program: "/bin/sh", args: ["-c", script] }]));
    const config = join(this.dir, `${app}.agent.yaml`);
    // JSON is YAML, too.
    writeFileSync(config, JSON.stringify({ app, token_file: token,
      endpoints: [`http://127.0.0.1:${this.port}`], shell: { commands } }));
    const agent = await start(["agent", "--config", config], null);
    this.others.push(agent);
    await until(async () => {
      if (agent.child.exitCode !== null) throw new Error(
        `the agent ended:\n${agent.said.join("\n")}`);
      const { executors = [] } = await this.call("FleetService/ListExecutors",
        { parent: "apps/-" });
      return executors.some((/** @type {any} */ one) => one.name.startsWith(`apps/${app}/`));
    }, `the agent of ${app}`);
    return agent;
  }

  /**
   * A job of a shell command.
   * @param {string} app
   * @param {string} id
   * @param {string} command
   * @param {object} [more]
   */
  async shellJob(app, id, command, more = {}) {
    const params = { contentType: "application/json", data: btoa(JSON.stringify({ command })) };
    const job = { handler: "shell", params, ...more };
    return this.call("JobService/CreateJob", { parent: `apps/${app}`, jobId: id, job });
  }

  /**
   * Jobs by the score.
   * @param {string} app
   * @param {string} prefix
   * @param {number} count
   * @param {object} [more]
   */
  async manyJobs(app, prefix, count, more = {}) {
    const ids = Array.from({ length: count }, (_, i) => `${prefix}-${String(i).padStart(4, "0")}`);
    const work = [...ids];
    const one = async () => {
      for (let id = work.shift(); id; id = work.shift()) {
        await this.call("JobService/CreateJob",
          { parent: `apps/${app}`, jobId: id, job: { handler: "hello", ...more } });
      }
    };
    await Promise.all(Array.from({ length: 8 }, one));
    return ids;
  }

  /**
   * Triggers a job, and gives its run when it has ended.
   * @param {string} name
   * @param {object} [more]
   */
  async runOf(name, more = {}) {
    const run = await this.call("JobService/TriggerJob", { name, ...more });
    return until(async () => {
      const now = await this.call("RunService/GetRun", { name: run.name });
      return now.endTime ? now : null;
    }, `the end of a run of ${name}`);
  }

  /**
   * A run of the demo's handler that fails twice, when it has ended. The demo's own job starts by
   * itself, and skips a run that is asked for meanwhile; this one has no schedule.
   */
  async riskyRun() {
    const params = { contentType: "application/json", data: btoa("{}") };
    const job = { handler: "risky", params, retry: { maxAttempts: 3, initialBackoff: "1s" } };
    await this.call("JobService/CreateJob", { parent: "apps/demo", jobId: "unplanned", job });
    return this.runOf("apps/demo/jobs/unplanned");
  }

  async stop() {
    await Promise.all(this.others.map((other) => other.stop("SIGKILL")));
    await this.process?.stop("SIGKILL");
    rmSync(this.dir, { recursive: true, force: true });
  }
}
