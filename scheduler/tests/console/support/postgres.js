// A Postgres for schedulers that share one, as the scheduler's own tests have it: the server that
// CLAWJOB_TEST_POSTGRES names, else a private one.
import { execFileSync, spawn } from "node:child_process";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { createServer } from "node:net";
import { createInterface } from "node:readline";

const KEEPER = new URL("../../support/postgres.sh", import.meta.url);
const HOME = "/usr/lib/postgresql";
const TRIES = 3;

/** The directory with the newest server's programs. */
function binaries() {
  const versions = existsSync(HOME) ? readdirSync(HOME).map(Number).filter(Number.isFinite) : [];
  const found = [...versions.sort((a, b) => b - a).map((version) => `${HOME}/${version}/bin`),
    ...(process.env.PATH ?? "").split(":")].find((bin) => existsSync(`${bin}/initdb`));
  if (!found) throw new Error("there is no Postgres: install it (Debian: postgresql)");
  return found;
}

/**
 * An empty schema of the named server, or a private server of its own.
 * @returns {Promise<{ url: string, stop: () => Promise<unknown> }>}
 */
export async function postgres() {
  const server = process.env.CLAWJOB_TEST_POSTGRES;
  if (server) return schemaOf(server);
  for (let tried = 1; ; tried += 1) {
    try {
      return await start(binaries(), await freePort());
    } catch (error) {
      // Another process may have taken the port before Postgres did.
      if (tried === TRIES) throw error;
    }
  }
}

/** A port that nobody listens on. @returns {Promise<number>} */
function freePort() {
  return new Promise((give) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
      server.close(() => give(port));
    });
  });
}

/** @param {string} server */
function schemaOf(server) {
  const name = `t_console_${process.pid}`;
  const tell = (/** @type {string} */ sql) => execFileSync("psql", [server, "-qc", sql]);
  tell(`CREATE SCHEMA ${name}`);
  const url = `${server}${server.includes("?") ? "&" : "?"}options=-csearch_path%3D${name}`;
  const drop = `SET client_min_messages = error; DROP SCHEMA ${name} CASCADE`;
  return { url, stop: async () => tell(drop) };
}

/** @param {string} bin @param {number} port */
async function start(bin, port) {
  const shell = ["sh", "-c", readFileSync(KEEPER, "utf8"), "keeper", bin, String(port), "off"];
  // Postgres does not run as root: then its own user runs it.
  const [program, ...args] = process.getuid?.() === 0 ?
    ["runuser", "-u", "postgres", "--", ...shell] : shell;
  const keeper = spawn(program, args, { cwd: "/", stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise((go) => keeper.on("exit", go));
  const lines = createInterface({ input: keeper.stdout })[Symbol.asyncIterator]();
  const [dir, ready] = [await lines.next(), await lines.next()];
  if (ready.done) throw new Error("the private Postgres of the tests did not start");
  return {
    url: `postgresql://clawjob@${dir.value.replaceAll("/", "%2F")}:${port}/postgres?sslmode=disable`,
    stop: async () => {
      keeper.stdin.end();
      await ended;
    },
  };
}
