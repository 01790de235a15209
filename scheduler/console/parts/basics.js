// Buttons, notices and what stands where nothing is yet.
import { cls, html } from "../lib/dom.js";
import { has, t } from "../lib/i18n.js";
import { Icon } from "./icon.js";

/**
 * @param {{
 *   children?: any, icon?: string, kind?: "main" | "plain" | "quiet" | "danger",
 *   onClick?: (event: Event) => void, disabled?: boolean, busy?: boolean, title?: string,
 *   type?: "button" | "submit", label?: string, pressed?: boolean,
 * }} props
 */
export function Button(props) {
  const { children, icon, kind = "plain", onClick, disabled, busy, title, label, pressed } = props;
  return html`<button type=${props.type ?? "button"} class=${cls("button", kind, busy && "busy")}
    onClick=${onClick} disabled=${disabled || busy} title=${title ?? label} aria-label=${label}
    aria-pressed=${pressed}>
    ${icon && html`<${Icon} name=${icon} />`}${children && html`<span>${children}</span>`}
  </button>`;
}

/**
 * A link that looks like a button.
 * @param {{ href: string, icon?: string, kind?: string, children?: any }} props
 */
export const ButtonLink = ({ href, icon, kind = "plain", children }) =>
  html`<a class=${cls("button", kind)} href=${href}>
    ${icon && html`<${Icon} name=${icon} />`}<span>${children}</span></a>`;

/**
 * What went wrong, and what to do.
 * @param {{ error: unknown, again?: () => void }} props
 */
export function Fault({ error, again }) {
  if (!error) return null;
  const { code = "", message = "", requestId = "" } =
    /** @type {import("../lib/rpc.js").RpcError} */ (error);
  const advice = has(`error.${code}`) ?? t("error.other");
  return html`<div class="fault" role="alert">
    <${Icon} name="warn" />
    <div><strong>${advice}</strong>
      ${code !== "unreachable" && html`<p>${message}</p>`}
      ${requestId && html`<p class="minor">${t("error.request", { id: requestId })}</p>`}</div>
    ${again && html`<${Button} icon="refresh" onClick=${again}>${t("do.again")}<//>`}
  </div>`;
}

/**
 * Where a list is empty: why, and the next step.
 * @param {{ title: string, hint?: string, children?: any }} props
 */
export const Empty = ({ title, hint, children }) =>
  html`<div class="empty"><p class="empty-title">${title}</p>
    ${hint && html`<p>${hint}</p>`}${children &&
      html`<div class="row center">${children}</div>`}</div>`;

/** @param {{ text?: string }} props */
export const Loading = ({ text }) =>
  html`<div class="loading" role="status"><span class="dots" aria-hidden="true"></span>
    ${text ?? t("loading")}</div>`;

/**
 * The head of a page.
 * @param {{ title: any, lead?: any, children?: any, up?: { href: string, text: string } }} props
 */
export const PageHead = ({ title, lead, children, up }) =>
  html`<header class="page-head">
    <div class="page-title">
      ${up && html`<a class="up" href=${up.href}><${Icon} name="back" size=${12} />${up.text}</a>`}
      <h1>${title}</h1>${lead && html`<div class="lead">${lead}</div>`}</div>
    <div class="row">${children}</div></header>`;

/** A part of a page. @param {{ title?: any, aside?: any, children?: any, class?: string }} props */
export const Panel = ({ title, aside, children, class: extra }) =>
  html`<section class=${cls("panel", extra)}>
    ${(title || aside) && html`<header><h2>${title}</h2><div class="row">${aside}</div></header>`}
    ${children}</section>`;

/**
 * Facts as pairs; those without a value are left out.
 * @param {{ of: [string, any][] }} props
 */
export const Facts = ({ of }) =>
  html`<dl class="facts">${of
    .filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false)
    .map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;

/**
 * Pages beside each other.
 * @param {{ label: string, of: { href: string, text: any, on: boolean }[] }} props
 */
export const Tabs = ({ label, of }) =>
  html`<nav class="tabs" aria-label=${label}>${of.map(({ href, text, on }) =>
    html`<a key=${href} href=${href} class=${cls(on && "on")}
      aria-current=${on ? "page" : undefined}>${text}</a>`)}</nav>`;
