// Deployments, for operators: how each is, its workers, revisions, events and logs, and what an operator changes about it.
import { useState } from "./vendor/hooks.js";
import { Age, Copy, Dialog, Empty, Icon, Instead, State } from "./parts.js";
import { address, askJson, clock, count, go, href, html, useRead, useWhileVisible } from "./kit.js";
import { Facts, Older, Table, at, useChange, usePage } from "./operate.js";

const seconds = (ms) => (ms === null || ms === undefined ? "" : `${(ms / 1000).toFixed(1)} s`);
const workersOf = (it) => `${it.workers.length} of ${it.min} to ${it.max}`;

export function Deployments() {
  const state = usePage(at("deployments"), 5000);
  const all = state.data?.deployments;
  return html`<main><header class="top"><h1>Deployments</h1></header>${state.error?.status === 404 ? html`<${Empty} title="No deployments here">This server has none.<//>` : html`<${Instead} state=${state} what="operating the server" />`}
    ${all && (all.length ? html`<${Table} caption="Deployments" names=${["Deployment", "State", "Why", "Revision", "Workers here", "Last start"]}>${all.map((it) => html`<tr key=${it.name}>
      <td class="main"><a data-row href=${href(["deployments", it.name])}>${it.name}</a><span class="why">${it.path}</span></td><td><${State} state=${it.state} /></td><td class="cut">${it.why}</td>
      <td>${it.revision ?? "–"}${it.next_revision ? ` (next ${it.next_revision})` : ""}</td><td>${workersOf(it)}</td><td>${seconds(it.start_ms)}</td></tr>`)}<//><${Older} next=${state.data.next_cursor} path=${["deployments"]} />`
      : html`<${Empty} title="No deployments"><code>deployment apply FILE.toml</code> makes one.<//>`)}</main>`;
}

// How many workers it has, until the next revision.
function Scale({ it, change, busy }) {
  const [bounds, set] = useState(null);
  const { min, max } = bounds ?? it;
  const field = (name, value) => html`<label>${name === "min" ? "Least" : "Most"} <input type="number" min="0" max="1000" required value=${value} onInput=${(event) => set({ min, max, [name]: event.target.valueAsNumber })} /></label>`;
  const submit = async (event) => {
    event.preventDefault();
    if (await change(at("deployments", it.name, "scale"), { body: JSON.stringify({ min, max }) })) set(null);
  };
  return html`<form class="adds inline" aria-label="Scale" onSubmit=${submit}>${field("min", min)}${field("max", max)}<button type="submit" disabled=${busy || !bounds}>Scale</button></form>`;
}

// A new revision, from what the newest one says.
function NewRevision({ it, change, problem, busy, close }) {
  const [text, set] = useState(JSON.stringify(it.revisions.at(-1)?.definition ?? {}, null, 2));
  const [wrong, say] = useState("");
  const submit = async (event) => {
    event.preventDefault();
    try { JSON.parse(text); } catch (error) { return say(`This is no JSON: ${error.message}`); }
    say("");
    if (await change(at("deployments", it.name), { method: "PUT", body: text })) close();
  };
  return html`<${Dialog} title="New revision" close=${close} wide><form class="adds" onSubmit=${submit}>
    <label for="definition">The definition</label><textarea id="definition" class="mono" rows="16" spellcheck="false" value=${text} onInput=${(event) => set(event.target.value)} />
    <p class="hint">Its workers start while those of the current revision still run, and replace them once one is ready.</p>
    <div><button type="submit" class="primary" disabled=${busy}>Apply</button></div>${wrong ? html`<p class="problem" role="alert">${wrong}</p>` : problem}</form><//>`;
}

export function Deployment({ path: [name] }) {
  const path = at("deployments", name);
  const state = useRead((signal) => Promise.all([path, `${path}/events`, `${path}/logs`].map((part) => askJson(part, { signal }))), [name]);
  const [change, problem, busy] = useChange(state.reload);
  const [applies, setApplies] = useState(false);
  // What is removed is not read again.
  const [drop, stays, goes] = useChange();
  useWhileVisible(() => goes || state.reload(), 3000);
  const [it, told, written] = state.data ?? [];
  const runs = it && !["stopped", "failed"].includes(it.state);
  const remove = async () => {
    if (!confirm(`Remove the deployment ${name}? Its workers end.`)) return;
    if (await drop(path, { method: "DELETE" })) go(["deployments"]);
  };
  return html`<main><header class="top"><a class="back" href=${href(["deployments"])} aria-label="All deployments"><${Icon} name="back" /></a><h1>${name}</h1>
    ${it && html`<div class="actions"><button disabled=${busy} onClick=${() => change(`${path}/start`)}>Start</button><button disabled=${busy} onClick=${() => change(`${path}/stop`)}>Stop</button>
      <button disabled=${busy} onClick=${() => setApplies(true)}>New revision</button><button disabled=${busy || goes || runs} title=${runs ? "Stop it first" : undefined} onClick=${remove}>Remove</button></div>`}</header>
    <${Instead} state=${state} what="operating the server" />${!applies && problem}${stays}
    ${it && html`<section><h2>Deployment</h2><${Facts} facts=${[["State", html`<${State} state=${it.state} />`], ["Why", it.why], ["Base address", html`<span class="code-line"><code>${it.path}</code><${Copy} text=${address(it.path.slice(1)).href} label="Copy the base address" /></span>`],
        ["Revision", it.revision], ["Next revision", it.next_revision], ["Workers here", workersOf(it)], ["Last start", seconds(it.start_ms)]]} />
        <${Scale} it=${it} change=${change} busy=${busy} /></section>
      <section><h2>Workers</h2>${it.workers.length ? html`<${Table} caption="Workers" names=${["Worker", "Revision", "State", "Why", "Jobs", "Breaker", "Process", "Since"]}>${it.workers.map((one) => html`<tr key=${one.name}><td class="main">${one.name}<span class="why">${one.version}</span></td><td>${one.revision}</td>
        <td><${State} state=${one.state} /></td><td class="cut">${one.why}</td><td>${count(one.jobs)} of ${count(one.slots)}</td><td>${one.breaker?.replace("_", " ") ?? "–"}</td><td>${one.pid ?? "–"}</td><td><${Age} time=${one.since} /></td></tr>`)}<//>`
        : html`<${Empty} title="No workers here">A job that waits starts one.<//>`}</section>
      <section><h2>Revisions</h2><${Table} caption="Revisions" names=${["Revision", "Applied", "Command or addresses", ""]}>${it.revisions.toReversed().map((one) => html`<tr key=${one.number}><td>${one.number}${one.number === it.revision ? " (current)" : one.number === it.next_revision ? " (next)" : ""}</td><td><${Age} time=${one.created_at} /></td>
        <td class="mono cut">${(one.definition.command ?? one.definition.urls ?? []).join(" ")}</td>
        <td class="number">${one.number !== it.revision && html`<button data-row disabled=${busy} aria-label=${`Go back to revision ${one.number}`} onClick=${() => change(`${path}/rollback`, { body: JSON.stringify({ revision: one.number }) })}>Go back</button>`}</td></tr>`)}<//></section>
      <section><h2>Events</h2><${Table} caption="The newest events" names=${["When", "Event", "What happened"]}>${told.events.map((one) => html`<tr key=${one.number}><td><time datetime=${one.at}>${clock(one.at)}</time></td><td>${one.kind}</td><td class="cut">${one.text}</td></tr>`)}<//></section>
      ${written.logs.map((log) => html`<section key=${log.worker}><h2>Log of ${log.worker}</h2><div class="code-box"><${Copy} text=${log.text} label=${`Copy the log of ${log.worker}`} /><pre tabindex="0">${log.text}</pre></div></section>`)}`}
    ${it && applies && html`<${NewRevision} it=${it} change=${change} problem=${problem} busy=${busy} close=${() => setApplies(false)} />`}</main>`;
}
