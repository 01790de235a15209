// What surrounds every page: the way around, and how the viewer likes to see it.
import { cls, html, useEffect, useState } from "../lib/dom.js";
import { t } from "../lib/i18n.js";
import { focusSearch, useKeys } from "../lib/keys.js";
import { prefer, prefs } from "../lib/prefs.js";
import { go, href, useRoute } from "../lib/router.js";
import { can, session, signOut } from "../lib/session.js";
import { useStore } from "../lib/store.js";
import { LOCAL_ZONE, zoneName } from "../lib/time.js";
import { Dialog, Notes, sayFault } from "./dialog.js";
import { Icon, Mark } from "./icon.js";
import { ChangePassword } from "./password.js";

/** @type {{ id: string, path: string, key: string, role?: "ADMIN" }[]} */
const PAGES = [
  { id: "home", path: "/", key: "h" },
  { id: "jobs", path: "/jobs", key: "o" },
  { id: "runs", path: "/runs", key: "r" },
  { id: "forecast", path: "/forecast", key: "f" },
  { id: "calendars", path: "/calendars", key: "l" },
  { id: "executors", path: "/executors", key: "e" },
  { id: "alarms", path: "/alarms", key: "a" },
  { id: "cluster", path: "/cluster", key: "c" },
  { id: "access", path: "/access", key: "u", role: "ADMIN" },
];

/** @param {{ children?: any }} props */
export function Shell({ children }) {
  const { parts } = useRoute();
  const [help, setHelp] = useState(false);
  const here = parts[0] ?? "home";
  useGoKeys();
  useKeys({ "/": focusSearch, "?": () => setHelp(true) });
  const shown = PAGES.filter((page) => !page.role || can(page.role));
  return html`<div class="shell">
    <a class="skip" href="#main" onClick=${skip}>${t("shell.skip")}</a>
    <aside class="rail">
      <a class="brand" href=${href("/")}><${Mark} /><b>ClawJob</b></a>
      <nav aria-label=${t("shell.pages")}>${shown.map(({ id, path }) =>
        html`<a key=${id} href=${href(path)} class=${cls(here === id && "on")}
          aria-current=${here === id ? "page" : undefined}>
          <${Icon} name=${id} /><span>${t(`page.${id}`)}</span></a>`)}</nav>
      <${Corner} help=${() => setHelp(true)} />
    </aside>
    <main id="main" tabindex="-1">${children}</main>
    ${help && html`<${Help} close=${() => setHelp(false)} />`}
    <${Notes} /></div>`;
}

/** @param {Event} event */
function skip(event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

/** g and a letter goes to a page. */
function useGoKeys() {
  const [armed, setArmed] = useState(false);
  useEffect(() => {
    if (!armed) return undefined;
    const timer = setTimeout(() => setArmed(false), 1500);
    return () => clearTimeout(timer);
  }, [armed]);
  /** @type {import("../lib/keys.js").Keys} */
  const keys = { g: () => setArmed(true) };
  if (armed) {
    for (const { key, path } of PAGES) {
      keys[key] = () => {
        setArmed(false);
        go(href(path));
      };
    }
  }
  useKeys(keys);
}

/** Language, theme, zone, the viewer. @param {{ help: () => void }} props */
function Corner({ help }) {
  const { lang, theme, zone } = useStore(prefs);
  const { principal, displayName } = useStore(session);
  const [password, setPassword] = useState(false);
  const dark = document.documentElement.dataset.theme === "dark";
  /** @param {Event} event */
  const setZone = (event) => {
    const { value } = /** @type {HTMLSelectElement} */ (event.target);
    prefer({ zone: /** @type {any} */ (value) });
  };
  const isUser = principal.startsWith("users/");
  const who = displayName || principal.replace(/^users\//, "");
  return html`<div class="corner">
    <label class="zone-pick"><span class="sr">${t("zone.label")}</span>
      <${Icon} name="clock" size=${14} />
      <select value=${zone} onChange=${setZone} aria-label=${t("zone.label")}>
        <option value="local">${zoneName(LOCAL_ZONE)}</option>
        <option value="job">${t("zone.job")}</option>
        ${LOCAL_ZONE !== "UTC" && html`<option value="utc">UTC</option>`}
      </select></label>
    <div class="row">
      <button type="button" class="tool" onClick=${() => prefer({ theme: dark ? "light" : "dark" })}
        aria-label=${t(dark ? "theme.light" : "theme.dark")}
          title=${t(dark ? "theme.light" : "theme.dark")}>
        <${Icon} name=${dark ? "sun" : "moon"} key=${theme} /></button>
      <button type="button" class="tool text" lang=${lang === "zh" ? "en" : "zh-CN"}
        onClick=${() => prefer({ lang: lang === "zh" ? "en" : "zh" })}>
        ${lang === "zh" ? "EN" : "中文"}</button>
      <button type="button" class="tool" onClick=${help} aria-label=${t("keys.title")}
        title=${t("keys.title")}><${Icon} name="keyboard" /></button>
    </div>
    <div class="row who"><span class="who-name" title=${principal}>
      <${Icon} name="user" size=${14} /><span>${who}</span></span>
      ${isUser && html`<button type="button" class="tool" onClick=${() => setPassword(true)}
        aria-label=${t("password.change")} title=${t("password.change")}><${Icon} name="edit" />
          </button>`}
      <button type="button" class="tool" onClick=${() => signOut().catch(sayFault)}
        aria-label=${t("sign.out")} title=${t("sign.out")}><${Icon} name="out" /></button></div>
    ${password && html`<${Dialog} title=${t("password.change")} close=${() => setPassword(false)}>
      <${ChangePassword} done=${() => setPassword(false)} /><//>`}</div>`;
}

/** @param {{ close: () => void }} props */
function Help({ close }) {
  /** @type {[string, string][]} */
  const keys = [
    ["/", t("keys.search")],
    ["j  k", t("keys.move")],
    ["Enter", t("keys.open")],
    ["x", t("keys.choose")],
    ["?", t("keys.help")],
    ["Esc", t("keys.escape")],
    ...PAGES.filter((page) => !page.role || can(page.role)).map(({ id, key }) =>
      /** @type {[string, string]} */ ([`g ${key}`, t("keys.go", { page: t(`page.${id}`) })])),
  ];
  return html`<${Dialog} title=${t("keys.title")} close=${close}>
    <dl class="keys">${keys.map(([key, text]) => html`<div key=${key}>
      <dt>${key.split(/\s+/).map((one) => html`<kbd key=${one}>${one}</kbd>`)}</dt>
      <dd>${text}</dd></div>`)}</dl><//>`;
}
