// The way in: user and password, or a token. A first password must be changed before all else.
import { html, useState } from "../lib/dom.js";
import { t } from "../lib/i18n.js";
import { prefer, prefs } from "../lib/prefs.js";
import { begin, session, signIn } from "../lib/session.js";
import { useStore } from "../lib/store.js";
import { Button, Fault, Loading } from "../parts/basics.js";
import { Mark } from "../parts/icon.js";
import { ChangePassword } from "../parts/password.js";

export function SignIn() {
  const { state } = useStore(session);
  const { lang } = useStore(prefs);
  return html`<div class="gate">
    <main class="gate-box">
      <div class="gate-brand"><${Mark} size=${34} /><h1>ClawJob</h1></div>
      ${state === "asking" && html`<${Loading} text=${t("sign.asking")} />`}
      ${state === "away" && html`<div class="stack"><p>${t("sign.away")}</p>
        <${Button} icon="refresh" onClick=${begin}>${t("do.again")}<//></div>`}
      ${state === "out" && html`<${Credentials} />`}
      ${state === "expired" && html`<div class="stack"><p>${t("password.expired")}</p>
        <${ChangePassword} /></div>`}
    </main>
    <button type="button" class="link" lang=${lang === "zh" ? "en" : "zh-CN"}
      onClick=${() => prefer({ lang: lang === "zh" ? "en" : "zh" })}>
      ${lang === "zh" ? "English" : "中文"}</button></div>`;
}

function Credentials() {
  const [byToken, setByToken] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(/** @type {unknown} */ (session.get().error ?? null));
  /** @param {Event} event */
  const submit = async (event) => {
    event.preventDefault();
    const data = new FormData(/** @type {HTMLFormElement} */ (event.target));
    /** @param {string} name */
    const text = (name) => String(data.get(name) ?? "").trim();
    setBusy(true);
    setError(null);
    try {
      await signIn(byToken
        ? { apiToken: text("token") }
        : { userId: text("user"), password: String(data.get("password") ?? "") });
    } catch (fault) {
      setError(fault);
      setBusy(false);
    }
  };
  return html`<form class="stack" onSubmit=${submit} key=${byToken}>
    ${byToken
      ? html`<label class="field"><span>${t("sign.token")}</span>
          <input name="token" type="password" autocomplete="off" required autofocus /></label>
          <p class="minor">${t("sign.tokenHint")}</p>`
      : html`<label class="field"><span>${t("sign.user")}</span>
          <input name="user" autocomplete="username" required autofocus spellcheck=${false}
            autocapitalize="none" /></label>
          <label class="field"><span>${t("sign.password")}</span>
            <input name="password" type="password" autocomplete="current-password" required />
              </label>`}
    <${Fault} error=${error} />
    <${Button} type="submit" kind="main" busy=${busy}>${t("sign.in")}<//>
    <button type="button" class="link" onClick=${() => { setError(null); setByToken(!byToken); }}>
      ${t(byToken ? "sign.byPassword" : "sign.byToken")}</button>
    ${!byToken && html`<p class="minor">${t("sign.tokenHint")}</p>`}</form>`;
}
