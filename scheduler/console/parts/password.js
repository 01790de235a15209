// Another password for the viewer.
import { html, useState } from "../lib/dom.js";
import { t } from "../lib/i18n.js";
import { changePassword } from "../lib/session.js";
import { Button, Fault } from "./basics.js";
import { say } from "./dialog.js";

/** @param {{ done?: () => void }} props */
export function ChangePassword({ done }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const [unlike, setUnlike] = useState(false);
  /** @param {Event} event */
  const submit = async (event) => {
    event.preventDefault();
    const data = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const [now, next, twice] = ["now", "next", "twice"].map((name) => String(data.get(name) ?? ""));
    setUnlike(next !== twice);
    if (next !== twice) return;
    setBusy(true);
    setError(null);
    try {
      await changePassword(now, next);
      say(t("password.changed"));
      done?.();
    } catch (fault) {
      setError(fault);
    }
    setBusy(false);
  };
  return html`<form class="stack" onSubmit=${submit}>
    <label class="field"><span>${t("password.now")}</span>
      <input name="now" type="password" autocomplete="current-password" required /></label>
    <label class="field"><span>${t("password.next")}</span>
      <input name="next" type="password" autocomplete="new-password" required /></label>
    <label class="field"><span>${t("password.twice")}</span>
      <input name="twice" type="password" autocomplete="new-password" required
        aria-invalid=${unlike} /></label>
    ${unlike && html`<p class="field-fault" role="alert">${t("password.unlike")}</p>`}
    <${Fault} error=${error} />
    <${Button} type="submit" kind="main" busy=${busy}>${t("password.change")}<//></form>`;
}
