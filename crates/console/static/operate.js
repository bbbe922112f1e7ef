// What operators see: accounts with their keys, budgets and webhooks, workers, and the settings in force. A key without the scope `admin`
// is told that it may not. Webhooks are everybody's: those of one's own account, and for operators all of them.
import { useState } from "./vendor/hooks.js";
import { Age, Copy, Dialog, Empty, Icon, Instead, State } from "./parts.js";
import { askJson, clock, count, go, href, html, money, route, size, useRead, useWhileVisible } from "./kit.js";

const ADMIN = "api/v2/admin";
export const at = (...path) => [ADMIN, ...path.map(encodeURIComponent)].join("/");
// All webhooks are shown where the address says so.
const everyones = () => route.value.query.get("all") === "true";
const hookAt = (all, ...path) => (all ? at("webhooks", ...path) : ["api/v2/webhooks", ...path.map(encodeURIComponent)].join("/"));
const shown = (all) => (all ? { all: "true" } : {});
const EVENTS = ["job.created", "job.ended", "call.ended", "budget.reached", "webhook.disabled"];

// A change that is asked for, and what it was answered; `after` reads again what is shown.
export function useChange(after) {
  const [state, set] = useState({});
  const run = async (path, options) => {
    set({ busy: true });
    try {
      const done = await askJson(path, { method: "POST", ...options });
      set({});
      after?.();
      return done ?? true;
    } catch (error) {
      set({ error });
      return undefined;
    }
  };
  return [run, state.error && html`<p class="problem" role="alert">${state.error.message}</p>`, state.busy];
}

// A form of some fields for one change: [name, label, what its field is]. It is empty again once the change is made.
function Asks({ fields, button, path, body = (values) => values, method = "POST", done }) {
  const [values, set] = useState({});
  const [change, problem, busy] = useChange();
  const submit = async (event) => {
    event.preventDefault();
    const made = await change(path, { method, body: JSON.stringify(body(values)) });
    if (made) { set({}); done(made); }
  };
  return html`<form class="adds inline" onSubmit=${submit}>${fields.map(([name, label, { options, ...its }]) => {
    const onInput = (event) => set({ ...values, [name]: event.target.value });
    const value = values[name] ?? "";
    return html`<label>${label} ${options ? html`<select required value=${value} onInput=${onInput}><option value="">choose</option>${options.map((it) => html`<option value=${it}>${it}</option>`)}</select>`
      : html`<input autocomplete="off" spellcheck="false" ...${its} value=${value} onInput=${onInput} />`}</label>`;
  })}<button type="submit" disabled=${busy}>${button}</button></form>${problem}`;
}

export const Facts = ({ facts }) => html`<dl class="facts row">${facts.filter(([, value]) => value !== undefined && value !== null && value !== "").map(([name, value]) => html`<div><dt>${name}</dt><dd class="cut">${value}</dd></div>`)}</dl>`;
const Head = ({ names }) => html`<thead><tr>${names.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>`;
export const Table = ({ caption, names, children }) => html`<div class="table plain" data-rows tabindex="0" role="region" aria-label=${caption}><table><caption class="hidden">${caption}</caption><${Head} names=${names} /><tbody>${children}</tbody></table></div>`;
export const Mark = ({ good, children }) => html`<span class=${`status ${good ? "succeeded" : "failed"}`}>${children}</span>`;
export const Older = ({ next, path, query }) => next && html`<nav class="pages" aria-label="Pages"><a class="button" href=${href(path, { ...query, cursor: next })}>More</a></nav>`;

// A page of a list; the cursor is in the address.
export function usePage(path, pause) {
  const cursor = route.value.query.get("cursor");
  const state = useRead((signal) => askJson(`${path}${cursor ? `?cursor=${encodeURIComponent(cursor)}` : ""}`, { signal }), [path, cursor]);
  useWhileVisible(state.reload, pause ?? 15000);
  return state;
}

// --- Accounts ---

export function Accounts() {
  const state = usePage(at("accounts"));
  const accounts = state.data?.accounts;
  return html`<main><header class="top"><h1>Accounts</h1></header><${Instead} state=${state} what="operating the server" />
    ${accounts && html`<${Table} caption="Accounts" names=${["Account", "State", "Balance", "Held", "Budgets", "Created"]}>${accounts.map((it) => html`<tr key=${it.id}>
      <td class="main"><a data-row href=${href(["accounts", it.id])}>${it.id}</a>${it.name !== it.id && html`<span class="why">${it.name}</span>`}</td>
      <td><${Mark} good=${!it.suspended}>${it.suspended ? "suspended" : "active"}<//></td><td>${money(it.balance_cents)}</td><td>${money(it.held_cents)}</td>
      <td>${it.budgets.map((budget) => `${money(budget.left_cents)} of ${money(budget.limit_cents)} a ${budget.window}`).join(", ") || "none"}</td><td><${Age} time=${it.created_at} /></td></tr>`)}<//>
      <${Older} next=${state.data.next_cursor} path=${["accounts"]} />
      <${Asks} fields=${[["id", "Id of a new account", { required: true, maxlength: 64 }]]} button="Add account" path=${at("accounts")} done=${(made) => go(["accounts", made.id])} />`}</main>`;
}

const Budget = ({ budget, scope }) => {
  const used = budget.limit_cents ? Math.min(1, 1 - budget.left_cents / budget.limit_cents) : 1;
  return html`<li><span>${money(budget.left_cents)} of ${money(budget.limit_cents)} left this ${budget.window}${scope && html`, <code>${scope}</code>`}</span><div class="bar grow" role="meter" aria-label=${`Used of the budget of this ${budget.window}${scope ? ` of ${scope}` : ""}`}
    aria-valuemin="0" aria-valuemax="100" aria-valuenow=${Math.round(used * 100)}><div style=${{ width: `${used * 100}%` }} /></div><span class="muted">until ${clock(budget.ends_at)}</span></li>`;
};

export function Account({ path: [id] }) {
  const state = useRead((signal) => Promise.all([askJson(at("accounts", id), { signal }), askJson(at("accounts", id, "keys"), { signal }), askJson(at("accounts", id, "webhooks"), { signal })]), [id]);
  const [change, problem, busy] = useChange(state.reload);
  const [made, show] = useState(null);
  const [account, keys, hooks] = state.data ?? [];
  const budgets = account && [{ budgets: account.budgets }, ...account.scoped_budgets].flatMap(({ scope, budgets }) => budgets.map((budget) => ({ budget, scope })));
  return html`<main><header class="top"><a class="back" href=${href(["accounts"])} aria-label="All accounts"><${Icon} name="back" /></a><h1>${id}</h1>
    ${account && html`<div class="actions"><button disabled=${busy} onClick=${() => change(at("accounts", id), { method: "PATCH", body: JSON.stringify({ state: account.suspended ? "active" : "suspended" }) })}>${account.suspended ? "Resume" : "Suspend"}</button></div>`}</header>
    <${Instead} state=${state} what="operating the server" />${problem}
    ${account && html`<section><h2>Account</h2><${Facts} facts=${[["Name", account.name], ["State", account.suspended ? "suspended" : "active"], ["Balance", money(account.balance_cents)], ["Held", money(account.held_cents)], ["Billing", account.billed ? "on" : "off"],
        ["Subscription", account.subscribed ? "on" : "off"], ["Router", account.router ? "on" : "off"], ["Created", clock(account.created_at)]]} /></section>
      <section><h2>Budgets</h2>${budgets.length ? html`<ul class="list">${budgets.map((it) => html`<${Budget} ...${it} />`)}</ul>` : html`<${Empty} title="No budgets">The limit <code>budgets</code>, below, sets those of the account.<//>`}
        <${Asks} fields=${[["scope", "Budgets of a key or label", { required: true, placeholder: "key:ID or label:KEY=VALUE" }], ["budgets", "US cents", { required: true, placeholder: "500/hour or none" }]]} button="Set budgets" path=${at("accounts", id)} method="PATCH"
          body=${({ scope, budgets }) => ({ "scoped-budgets": `${budgets} ${scope}` })} done=${state.reload} /></section>
      <section><h2>Keys</h2>${keys.keys.length ? html`<${Table} caption="Keys" names=${["Key", "Name", "State", "Scopes", "Created", ""]}>${keys.keys.map((it) => html`<tr key=${it.id}><td class="mono">${it.id}</td><td>${it.name}</td>
        <td><${Mark} good=${it.state === "active"}>${it.state}<//></td><td>${it.scopes}</td><td><${Age} time=${it.created_at} /></td>
        <td class="number">${it.state === "active" && html`<button data-row disabled=${busy} aria-label=${`Revoke the key ${it.id}`} onClick=${() => confirm(`Revoke the key ${it.id}? It cannot be made valid again.`) && change(at("keys", it.id, "revoke"))}>Revoke</button>`}</td></tr>`)}<//>`
        : html`<${Empty} title="No keys">A program shows its key with each request.<//>`}
        <${Asks} fields=${[["name", "Name of a new key", { maxlength: 100 }], ["scopes", "Scopes", { placeholder: "all but admin" }]]} button="Add key" path=${at("accounts", id, "keys")}
          body=${({ name, scopes }) => ({ name: name || null, scopes: scopes || null })} done=${(added) => { show(added.key); state.reload(); }} /></section>
      <section><h2>Webhooks</h2><${HookTable} hooks=${hooks.webhooks} all /><${NewHook} path=${at("accounts", id, "webhooks")} done=${state.reload} /></section>
      <section><h2>Limits</h2><${Table} caption="Limits" names=${["Limit", "Value", "From"]}>${account.limits.map((it) => html`<tr key=${it.name}><td>${it.name}</td><td class="cut">${it.value}</td><td class="muted">${it.own ? "the account" : "the installation"}</td></tr>`)}<//>
        <${Asks} fields=${[["limit", "Limit", { options: account.limits.map((it) => it.name) }], ["value", "Value", { required: true, placeholder: "default" }]]} button="Set" path=${at("accounts", id)} method="PATCH"
          body=${({ limit, value }) => ({ [limit]: value })} done=${state.reload} /><p class="hint"><code>default</code> takes the installation's value.</p></section>`}
    ${made && html`<${Secret} text=${made} title="The key" close=${() => show(null)}>It is shown this once. Give it to its user now.<//>`}</main>`;
}

// --- Webhooks ---

const HookState = ({ hook }) => html`<${Mark} good=${hook.state === "enabled" && !hook.failures}>${hook.state === "disabled" ? `disabled (${hook.disabled_reason})` : hook.failures ? `failing (${hook.failures})` : "enabled"}<//>`;

const HookTable = ({ hooks, all }) => (hooks.length ? html`<${Table} caption="Webhooks" names=${["Address", "Account", "State", "Events", "Created"]}>${hooks.map((it) => html`<tr key=${it.id}>
  <td class="main"><a data-row href=${href(["webhooks", it.id], shown(all))}>${it.url}</a></td><td>${it.account}</td><td><${HookState} hook=${it} /></td><td>${it.events.join(", ")}</td><td><${Age} time=${it.created_at} /></td></tr>`)}<//>`
  : html`<${Empty} title="No webhooks">A webhook is an address to which events of jobs and calls are sent.<//>`);

// A secret that was just made; it is in this page's memory alone.
const Secret = ({ text, close, title = "The secret", children = "It signs the messages, and is shown this once. Give it to the receiver now." }) => html`<${Dialog} title=${title} close=${close}><p>${children}</p>
  <p class="code-line"><code class="cut">${text}</code><${Copy} text=${text} label="Copy it" /></p><//>`;

function NewHook({ path, done }) {
  const [url, setUrl] = useState("");
  const [events, setEvents] = useState(["job.ended"]);
  const [secret, show] = useState(null);
  const [change, problem, busy] = useChange(done);
  const submit = async (event) => {
    event.preventDefault();
    const added = await change(path, { body: JSON.stringify({ url, events }) });
    if (added) { show(added.secret); setUrl(""); }
  };
  return html`<form class="adds" onSubmit=${submit}><label for="hook-url">Address of a new webhook</label>
    <input id="hook-url" type="url" required value=${url} onInput=${(event) => setUrl(event.target.value)} />
    <fieldset class="chips"><legend class="hidden">Events</legend>${EVENTS.map((name) => html`<label class="choice"><input type="checkbox" checked=${events.includes(name)} onChange=${() => setEvents(events.includes(name) ? events.filter((it) => it !== name) : [...events, name])} />${name}</label>`)}</fieldset>
    <div><button type="submit" disabled=${busy || !events.length}>Add webhook</button></div>${problem}</form>
    ${secret && html`<${Secret} text=${secret} close=${() => show(null)} />`}`;
}

export function Webhooks() {
  const all = everyones();
  const state = usePage(hookAt(all));
  return html`<main><header class="top"><h1>${all ? "All webhooks" : "Webhooks"}</h1><div class="actions"><a class="button" href=${href(["webhooks"], shown(!all))}>${all ? "Own account" : "All accounts"}</a></div></header>
    <${Instead} state=${state} what=${all ? "operating the server" : "your webhooks"} />
    ${state.data && html`<${HookTable} hooks=${state.data.webhooks} all=${all} /><${Older} next=${state.data.next_cursor} path=${["webhooks"]} query=${shown(all)} />
      ${!all && html`<${NewHook} path=${hookAt(false)} done=${state.reload} />`}`}</main>`;
}

export function Webhook({ path: [id] }) {
  const all = everyones();
  const state = useRead((signal) => Promise.all([askJson(hookAt(all, id), { signal }), askJson(hookAt(all, id, "deliveries"), { signal })]), [id, all]);
  const [secret, show] = useState(null);
  const [change, problem, busy] = useChange(state.reload);
  // What is gone is not read again.
  const [drop, stays] = useChange();
  useWhileVisible(state.reload, 3000);
  const [hook, page] = state.data ?? [];
  const on = hook?.state === "enabled";
  const remove = async () => {
    if (confirm("Remove this webhook? No more events are sent to it.") && await drop(hookAt(all, id), { method: "DELETE" })) go(["webhooks"], shown(all));
  };
  return html`<main><header class="top"><a class="back" href=${href(["webhooks"], shown(all))} aria-label="All webhooks"><${Icon} name="back" /></a><h1>${hook?.url ?? "Webhook"}</h1>
    ${hook && html`<div class="actions"><button disabled=${busy || !on} onClick=${() => change(hookAt(all, id, "test"))}>Test</button>
      <button disabled=${busy} onClick=${async () => { const made = await change(hookAt(all, id, "rotate")); if (made) show(made.secret); }}>New secret</button>
      <button disabled=${busy} onClick=${() => change(hookAt(all, id), { method: "PATCH", body: JSON.stringify({ enabled: !on }) })}>${on ? "Disable" : "Enable"}</button>
      <button disabled=${busy} onClick=${remove}>Remove</button></div>`}</header>
    <${Instead} state=${state} what="your webhooks" />${problem}${stays}
    ${hook && html`<section><h2>Webhook</h2><${Facts} facts=${[["State", html`<${HookState} hook=${hook} />`], ["Account", all ? html`<a href=${href(["accounts", hook.account])}>${hook.account}</a>` : hook.account], ["Events", hook.events.join(", ")], ["Failing since", hook.failing_since && clock(hook.failing_since)],
        ["Paused until", hook.paused_until && clock(hook.paused_until)], ["Disabled since", hook.disabled_at && clock(hook.disabled_at)], ["Second secret until", hook.previous_secret_until && clock(hook.previous_secret_until)], ["Created", clock(hook.created_at)]]} /></section>
      <section><h2>Messages</h2>${page.deliveries.length ? html`<${Table} caption="The newest messages" names=${["Event", "State", "Attempts", "Status", "Happened", "What came of it"]}>${page.deliveries.map((it) => html`<tr key=${it.id}><td>${it.event}</td>
        <td><${Mark} good=${it.state === "delivered" || !it.error}>${it.state}<//></td><td>${count(it.attempts)}</td><td>${it.status ?? "–"}</td><td><${Age} time=${it.created_at} /></td><td class="cut">${it.error ?? (it.delivered_at ? "taken" : "")}</td></tr>`)}<//>`
        : html`<${Empty} title="No messages yet">Test sends one.<//>`}</section>`}
    ${secret && html`<${Secret} text=${secret} close=${() => show(null)} />`}</main>`;
}

// --- Workers and settings ---

export function Workers() {
  const state = usePage(at("workers"), 5000);
  const [change, problem, busy] = useChange(state.reload);
  const workers = state.data?.workers;
  const drains = (it) => ["draining", "stopped"].includes(it.state);
  return html`<main><header class="top"><h1>Workers</h1></header>${state.error?.status === 404 ? html`<${Empty} title="No workers here">This server runs no ComfyUI workers.<//>` : html`<${Instead} state=${state} what="operating the server" />`}${problem}
    ${workers && (workers.length ? html`<${Table} caption="ComfyUI workers" names=${["Worker", "State", "Why", "Jobs", "Succeeded", "Failed", "Lost", "Staged", "Answers in", ""]}>${workers.map((it) => html`<tr key=${it.name}><td class="main">${it.name}<span class="why">${it.version}</span></td>
      <td><${State} state=${it.state} /></td><td class="cut">${it.why}</td><td>${count(it.jobs)} of ${count(it.slots)}</td><td>${count(it.succeeded)}</td><td>${count(it.failed)}</td><td>${count(it.lost)}</td><td>${size(it.staged_bytes)}</td><td>${it.answer_ms === null ? "" : `${it.answer_ms.toFixed(1)} ms`}</td>
      <td class="number"><button data-row disabled=${busy} aria-label=${`${drains(it) ? "Resume" : "Drain"} ${it.name}`} onClick=${() => change(at("workers", drains(it) ? "resume" : "drain"), { body: JSON.stringify({ name: it.name }) })}>${drains(it) ? "Resume" : "Drain"}</button> <button disabled=${busy} aria-label=${`Remove ${it.name}`}
        onClick=${() => confirm(`Remove ${it.name}?`) && change(at("workers", "remove"), { body: JSON.stringify({ name: it.name }) })}>Remove</button></td></tr>`)}<//>`
      : html`<${Empty} title="No workers">A worker is a ComfyUI server that runs jobs.<//>`)}
    ${workers && html`<${Asks} fields=${[["url", "Address of a new worker", { type: "url", required: true, placeholder: "http://gpu-box:8188" }], ["name", "Name", { placeholder: "host:port" }]]} button="Add worker" path=${at("workers")}
      body=${({ url, name }) => ({ url, name: name || null })} done=${state.reload} />`}</main>`;
}

export function Settings() {
  const state = useRead((signal) => askJson(at("settings"), { signal }), []);
  const [text, find] = useState("");
  const all = state.data?.settings;
  const shown = all?.filter((it) => `${it.name} ${it.value} ${it.origin}`.toLowerCase().includes(text.toLowerCase()));
  return html`<main><header class="top"><h1>Settings</h1></header><${Instead} state=${state} what="operating the server" />
    ${all && html`<div class="filters"><form onSubmit=${(event) => event.preventDefault()}><input aria-label="Find a setting" placeholder="Find a setting" value=${text} onInput=${(event) => find(event.target.value)} /></form></div>
      <${Table} caption="Settings in force" names=${["Setting", "Value", "From"]}>${shown.map((it) => html`<tr key=${it.name}><td class="mono">${it.name}</td><td class="mono cut">${it.value ?? html`<span class="muted">not set</span>`}</td><td class="muted">${it.origin}</td></tr>`)}<//>
      <p class="hint">Secrets are masked. SIGHUP makes the server read its settings again; some wait for a restart, which its log names.</p>`}</main>`;
}
