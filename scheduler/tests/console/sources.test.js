// What the console's files promise of themselves.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { contract } from "./contract.js";

const HOME = new URL("../../console/", import.meta.url);
const LINES_MAX = 300;
const COLUMNS_MAX = 100;
/** Paths have no place to be broken at. */
const DRAWINGS = "parts/icon.js";

/** Names of files under a directory of the console. @param {string} [at] @returns {string[]} */
function files(at = "") {
  return readdirSync(new URL(at, HOME), { withFileTypes: true }).flatMap((one) =>
    (one.isDirectory() ? files(`${at}${one.name}/`) : [`${at}${one.name}`]));
}

const read = (/** @type {string} */ name) => readFileSync(new URL(name, HOME), "utf8");
const own = files().filter((name) => !name.startsWith("vendor/"));
const code = own.filter((name) => name.endsWith(".js") && !name.startsWith("i18n/"));

/** @param {string} lang @returns {Promise<Record<string, string>>} */
const texts = async (lang) => (await import(new URL(`i18n/${lang}.js`, HOME).href)).default;

/** A key for one thing; languages without such a form have none. @param {string} key */
const isSingle = (key) => key.endsWith(".one");

test("both languages have the same texts, with the same values in them", async () => {
  const [en, zh] = [await texts("en"), await texts("zh")];
  const plain = (/** @type {Record<string, string>} */ all) =>
    Object.keys(all).filter((key) => !isSingle(key)).sort();
  assert.deepEqual(plain(zh), plain(en));
  const values = (/** @type {string} */ text) => [...new Set(text.match(/\{\w+\}/g))].sort();
  for (const [key, text] of Object.entries(zh)) assert.deepEqual(values(text), values(en[key]),
    key);
  for (const key of Object.keys(en).filter(isSingle)) assert.ok(en[key.replace(/\.one$/, "")], key);
});

test("every text is used, and every text that is used is there", async () => {
  const all = code.map(read).join("\n");
  const whole = new Set([...all.matchAll(/"([a-z]\w*(?:\.\w+)+)"/gi)].map((found) => found[1]));
  const begun = [...all.matchAll(/`([a-z]+\.)[^`]*\$\{/gi)].map((found) => found[1]);
  const open = [...all.matchAll(/`([a-zA-Z.]+)\$\{/g)].map((found) => found[1]).filter((head) =>
    head.includes("."));
  const en = await texts("en");
  const unused = Object.keys(en).filter((key) => {
    const name = key.replace(/\.one$/, "");
    return !whole.has(name) && name !== "loading" &&
      ![...begun, ...open].some((head) => name.startsWith(head));
  });
  assert.deepEqual(unused, []);
  const asked = [...all.matchAll(/\bt\("([^"]+)"/g)].map((found) => found[1]);
  assert.deepEqual(asked.filter((key) => !(key in en)), []);
});

const SCHEDULER = "../../src/";
const EXECUTOR = "../../../executor-rs/src/";

/** Rust sources below these folders; lines that go on are joined. @param {string[]} homes */
function rust(...homes) {
  return homes.flatMap((home) => {
    const at = new URL(home, import.meta.url);
    return readdirSync(at, { recursive: true }).map(String).filter((name) => name.endsWith(".rs"))
      .map((name) => readFileSync(new URL(name, at), "utf8"));
  }).join("\n").replace(/\\\n\s*/g, "");
}

test("every phrase that is translated is one that the scheduler or an executor says", async () => {
  const said = rust(SCHEDULER, EXECUTOR);
  const { default: phrases } = await import(new URL("i18n/zh/phrases.js", HOME).href);
  /** @type {[string, string][]} */
  const pairs = phrases;
  for (const [english, text] of pairs) {
    for (const part of english.split(/\{\w+[~#@!]?\}|\d+|\n/)) {
      assert.ok(said.includes(part.trim()), part);
    }
    const blanks = (/** @type {string} */ of) => [...of.matchAll(/\{(\w+)/g)].map((one) => one[1]);
    assert.ok(blanks(text).every((name) => blanks(english).includes(name)), english);
  }
});

test("the defaults that the form names are the scheduler's", async () => {
  const said = rust(SCHEDULER);
  const { SECTIONS } = await import(new URL("pages/jobform/fields.js", HOME).href);
  /** @type {import("../../console/pages/jobform/fields.js").Setting[]} */
  const fields = SECTIONS.flatMap((/** @type {any} */ section) => section.fields);
  let compared = 0;
  for (const { label, usual, kind, options } of fields) {
    const name = label.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();
    const [, value] = new RegExp(`const ${name}_DEFAULT: \\w+ = (.*);`).exec(said) ?? [];
    if (kind === "choice") {
      const [, first] = /#\[default\]\s+(\w+),/.exec(
        said.slice(said.indexOf(`pub enum ${ENUMS[label]} `))) ?? [];
      assert.equal(first?.replace(/(?<=[a-z])[A-Z]/g, (letter) => `_${letter}`).toUpperCase(),
        options?.[0], label);
    } else if (value) {
      const [, seconds] = /from_secs\((.*)\)/.exec(value) ?? [];
      const product = (seconds ?? value).split("*").reduce((all, one) => all * Number(one), 1);
      assert.equal(usual, seconds ? `${product}s` : product, label);
    } else continue;
    compared += 1;
  }
  assert.ok(compared >= 14, `${compared} were compared`);
});

/** Enums of choices in the scheduler's sources. @type {Record<string, string>} */
const ENUMS = { overlap: "OverlapPolicy", misfire: "MisfirePolicy", route: "RouteStrategy",
  lostPolicy: "LostPolicy", disconnectPolicy: "DisconnectPolicy" };

test("files are short, and their lines too", () => {
  const faults = own.filter((name) => /\.(js|css|html)$/.test(name)).flatMap((name) => {
    const lines = read(name).split("\n");
    const wide = name.startsWith("i18n/") || name.endsWith(".css") || name === DRAWINGS ? [] :
      lines.filter((line) => line.length > COLUMNS_MAX);
    return [
      ...(lines.length > LINES_MAX ? [`${name} has ${lines.length} lines`] : []),
      ...wide.map((line) => `${name}: ${line.length} columns: ${line.trim().slice(0, 60)}`),
    ];
  });
  assert.deepEqual(faults, []);
});

test("text is put as text, and nothing is in the page that its policy forbids", () => {
  for (const name of code) {
    const text = read(name);
    const banned = ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
      "new Function", "dangerouslySet", 'style="'];
    assert.deepEqual(banned.filter((word) => text.includes(word)), [], name);
  }
  const page = read("index.html");
  assert.ok(!/<script(?![^>]*\bsrc=)|<style|style=|\son\w+=|https?:/.test(page), "index.html");
});

test("layers point down: lib knows no part, and no part a page", () => {
  for (const name of code) {
    const text = read(name);
    const banned = name.startsWith("lib/") ? /\.\.\/(parts|pages)\// : name.startsWith("parts/") ?
      /\.\.\/pages\// : null;
    assert.ok(!banned?.test(text), name);
  }
});

test("what every page needs is named in the first file, so that it comes at once", () => {
  const named = [...read("index.html").matchAll(/"modulepreload" href="([^"]+)"/g)].map((found) =>
    found[1]);
  const needed = own.filter((name) => /^(lib|parts|i18n)\/.*\.js$/.test(name) &&
    name !== "parts/plot.js");
  assert.deepEqual(named.filter((name) => !name.startsWith("vendor/")).sort(), needed.sort());
});

test("copies of libraries are what their packages have", () => {
  const copies = {
    "preact.js": "preact/dist/preact.mjs",
    "hooks.js": "preact/hooks/dist/hooks.mjs",
    "htm.js": "htm/dist/htm.module.js",
    "uplot.js": "uplot/dist/uPlot.esm.js",
    "uplot.css": "uplot/dist/uPlot.min.css",
  };
  for (const [copy, source] of Object.entries(copies)) {
    const original = readFileSync(new URL(`node_modules/${source}`, import.meta.url), "utf8");
    const expected = original.replace('from"preact"', 'from"./preact.js"').replace(
      /^\/\/# sourceMappingURL.*\n/m, "");
    assert.equal(read(`vendor/${copy}`), expected, copy);
  }
  const { devDependencies } = JSON.parse(
    readFileSync(new URL("package.json", import.meta.url), "utf8"));
  for (const name of ["preact", "htm", "uplot"]) {
    assert.match(read("vendor/README.md"),
      new RegExp(`\\| ${name}[^|]*\\| ${devDependencies[name]} \\|`));
  }
});

test("the types of the contract are those of proto/", () => {
  assert.equal(readFileSync(new URL("types/contract.d.ts", import.meta.url), "utf8"), contract());
});
