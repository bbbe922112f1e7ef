// Parts that several views share.
import { useEffect, useRef, useState } from "./vendor/hooks.js";
import { ago, clock, html, key, signIn } from "./kit.js";

const paths = {
  overview: "M2.5 9.5h4v4h-4zM9.5 2.5h4v11h-4zM2.5 2.5h4v4h-4z",
  jobs: "M2.5 4h11M2.5 8h11M2.5 12h7",
  assets: "M2.5 3.5h11v9h-11zM2.5 11l3.5-3 2.5 2 2-1.5 3 2.5M10.5 6.2h.01",
  models: "M8 2l5.5 3v6L8 14l-5.5-3V5zM2.5 5L8 8l5.5-3M8 8v6",
  calls: "M3 5h9l-2.5-2.5M13 11H4l2.5 2.5",
  usage: "M2.5 13.5h11M4 11V8M8 11V4M12 11V6.5",
  accounts: "M8 8.2a2.8 2.8 0 1 0 0-5.6 2.8 2.8 0 0 0 0 5.6M2.5 13.5c.6-2.4 2.8-3.4 5.5-3.4s4.9 1 5.5 3.4",
  webhooks: "M8 2.5v5M8 7.5l-4.5 4M8 7.5l4.5 4M3.5 11.5h9",
  workers: "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01",
  deployments: "M8 2.5l5.5 2.7L8 8 2.5 5.2zM2.5 8L8 10.8 13.5 8M2.5 10.8L8 13.5l5.5-2.7",
  published: "M8 10V2.5M5 5.5l3-3 3 3M2.5 9v4.5h11V9",
  settings: "M2.5 4.5h6M11.5 4.5h2M10 3v3M2.5 11.5h2M7.5 11.5h6M6 10v3",
  copy: "M5.5 5.5h8v8h-8zM3 10.5H2.5v-8h8V3",
  check: "M3 8.5l3.5 3.5L13 4.5",
  out: "M9.5 2.5h4v4M13.5 2.5l-6 6M7 3.5H2.5v10h10V9",
  close: "M4 4l8 8M12 4l-8 8",
  back: "M9.5 3.5L5 8l4.5 4.5",
};
export const Icon = ({ name }) => html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d=${paths[name]} /></svg>`;

// A word and a mark for each status, so that no meaning is in a colour alone.
export const Status = ({ status }) => html`<span class=${`status ${status}`}><svg viewBox="0 0 14 14" aria-hidden="true">
  ${status === "queued" && html`<circle cx="7" cy="7" r="5" stroke-dasharray="2.4 2.2" />`}
  ${["running", "canceling"].includes(status) && html`<circle cx="7" cy="7" r="5" opacity=".3" /><path class="spin" d="M7 2a5 5 0 0 1 5 5" />`}
  ${status === "succeeded" && html`<circle cx="7" cy="7" r="5" class="fill" /><path class="mark" d="M4.7 7.2l1.6 1.6 3-3.4" />`}
  ${status === "failed" && html`<circle cx="7" cy="7" r="5" class="fill" /><path class="mark" d="M5.2 5.2l3.6 3.6M8.8 5.2L5.2 8.8" />`}
  ${status === "expired" && html`<circle cx="7" cy="7" r="5" /><path d="M7 4.2V7l1.8 1.2" />`}
  ${status === "canceled" && html`<circle cx="7" cy="7" r="5" /><path d="M4.8 7h4.4" />`}
</svg>${status}</span>`;

// What is neither a job nor a call, in the marks of jobs.
const LIKE = { ready: "succeeded", busy: "succeeded", offered: "succeeded", starting: "running", draining: "running", stopped: "canceled", withdrawn: "canceled", switched_off: "canceled" };
export const State = ({ state }) => html`<span class=${`status ${LIKE[state] ?? "failed"}`}>${state.replaceAll("_", " ")}</span>`;

export const Age = ({ time }) => html`<time datetime=${time} title=${clock(time)}>${ago(time)}</time>`;

// The label `name` is the job's title.
export const labels = (metadata) => Object.entries(metadata ?? {}).filter(([label]) => label !== "name");
export const Labels = ({ metadata }) => labels(metadata).map(([name, value]) =>
  html`<span class="label"><span>${name}</span>${value}</span>`);

export const Bar = ({ value, label }) => html`<div class="bar" role="progressbar" aria-label=${label ?? "Progress"}
  aria-valuemin="0" aria-valuemax="100" aria-valuenow=${Math.round(value * 100)}><div style=${{ width: `${value * 100}%` }} /></div>`;

export function Copy({ text, label }) {
  const [done, set] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(typeof text === "function" ? text() : text);
    set(true);
    setTimeout(() => set(false), 1500);
  };
  return html`<button class="quiet icon-only" onClick=${copy} aria-label=${label} title=${label}><${Icon} name=${done ? "check" : "copy"} /></button>`;
}

export const Empty = ({ title, children }) => html`<div class="empty"><strong>${title}</strong><p>${children}</p></div>`;

export function SignIn({ what }) {
  const [text, set] = useState("");
  const submit = (event) => { event.preventDefault(); signIn(text); };
  return html`<form class="signin" onSubmit=${submit}>
    <h2>Sign in</h2>
    <p>${key.value ? `This key cannot be used for ${what}. Try another one.` : `An API key is needed for ${what}. A server on this machine prints one at its start, and operators make keys with `}
      ${!key.value && html`<code>key add</code>.`}</p>
    <label for="key">API key</label>
    <input id="key" type="password" autocomplete="off" spellcheck="false" required value=${text} onInput=${(event) => set(event.target.value)} />
    <button class="primary" type="submit">Sign in</button>
    <p class="hint">The key stays in this tab and is forgotten when you close it.</p>
  </form>`;
}

// What a view shows instead of its data: a form, an error, or that it loads. Nothing once there are data.
export function Instead({ state, what }) {
  const { data, error, loading, reload } = state;
  if (error?.status === 401) return html`<${SignIn} what=${what} />`;
  if (error) {
    return html`<div class="problem" role="alert"><strong>${error.status === 403 ? "Not allowed" : error.status === 404 ? "Not found" : "That did not work"}</strong>
      <p>${error.message}</p><button onClick=${reload}>Try again</button></div>`;
  }
  if (!data && loading) return html`<p class="loading" role="status">Loading …</p>`;
  return null;
}

// A dialog that takes the keyboard and gives it back; Escape and the backdrop close it.
export function Dialog({ title, close, children, wide }) {
  const box = useRef();
  useEffect(() => {
    const before = document.activeElement;
    box.current.showModal();
    return () => before?.focus?.();
  }, []);
  return html`<dialog ref=${box} class=${wide ? "wide" : ""} aria-label=${title} onClose=${close} onClick=${(event) => event.target === box.current && close()}>
    <header><h2>${title}</h2><button class="quiet icon-only" aria-label="Close" onClick=${close}><${Icon} name="close" /></button></header>
    <div class="inside">${children}</div>
  </dialog>`;
}

// Tabs that the arrow keys move between.
export function Tabs({ label, names, chosen, choose, children }) {
  const list = useRef();
  const onKeyDown = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = (names.findIndex(([id]) => id === chosen) + step + names.length) % names.length;
    choose(names[next][0]);
    list.current.children[next].focus();
    event.preventDefault();
  };
  return html`<div class="tabs"><div role="tablist" aria-label=${label} ref=${list} onKeyDown=${onKeyDown}>
    ${names.map(([id, name]) => html`<button role="tab" id=${`tab-${id}`} aria-controls="tab-panel" aria-selected=${chosen === id ? "true" : "false"}
      tabindex=${chosen === id ? 0 : -1} onClick=${() => choose(id)}>${name}</button>`)}
  </div><div role="tabpanel" id="tab-panel" aria-labelledby=${`tab-${chosen}`} tabindex="0">${children}</div></div>`;
}

// j and k move between rows, Enter opens one (a row's first link has the focus).
export function moveInRows(event) {
  const step = { j: 1, k: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step || event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
  if (event.key.startsWith("Arrow") && !event.target.closest("[data-rows]")) return;
  if (document.querySelector("dialog[open]")) return;
  const links = [...document.querySelectorAll("[data-rows] [data-row]")];
  if (!links.length) return;
  const at = links.indexOf(document.activeElement);
  links[Math.min(Math.max(at + step, 0), links.length - 1)].focus();
  event.preventDefault();
}
