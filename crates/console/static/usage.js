// What calls of models cost, by day, model and account; and the calls themselves.
import { useState } from "./vendor/hooks.js";
import { Age, Copy, Dialog, Empty, Instead } from "./parts.js";
import { askJson, clock, count, href, html, money, refine, route, span, useRead, useWhileVisible } from "./kit.js";

const SPANS = [["1", "1 day"], ["7", "7 days"], ["30", "30 days"], ["90", "90 days"]];
const DAY = 86400000;
const PAGE = 50;

const FIELDS = ["calls", "succeeded", "generations", "charge_cents"];
function grouped(rows, by) {
  const groups = new Map();
  for (const row of rows) {
    const name = by(row);
    const sum = groups.get(name) ?? { name, calls: 0, succeeded: 0, generations: 0, charge_cents: 0 };
    for (const field of FIELDS) sum[field] += row[field];
    groups.set(name, sum);
  }
  return [...groups.values()].sort((a, b) => b.charge_cents - a.charge_cents || b.calls - a.calls);
}

// One column for each day; its height is money, or calls where nothing was billed.
function Days({ rows, from, until }) {
  const days = [];
  for (let at = Math.floor(from / DAY) * DAY; at < until; at += DAY) days.push(new Date(at).toISOString().slice(0, 10));
  const by = new Map(grouped(rows, (row) => row.day).map((it) => [it.name, it]));
  const billed = rows.some((row) => row.charge_cents > 0);
  const value = (day) => (billed ? by.get(day)?.charge_cents : by.get(day)?.calls) ?? 0;
  const most = Math.max(1, ...days.map(value));
  const step = 240 / days.length;
  const tell = (day) => `${day}: ${money(by.get(day)?.charge_cents)}, ${count(by.get(day)?.calls)} calls`;
  return html`<figure class="chart"><svg viewBox="0 0 240 60" preserveAspectRatio="none" role="img" aria-label=${`${billed ? "Spend" : "Calls"} by day, at most ${billed ? money(most) : count(most)}`}>
    ${days.map((day, place) => html`<rect class="money" x=${place * step + step * 0.12} y=${59.5 - (value(day) / most) * 56} width=${step * 0.76} height=${(value(day) / most) * 56}><title>${tell(day)}</title></rect>`)}
    <line x1="0" x2="240" y1="59.75" y2="59.75" /></svg>
    <figcaption><span>${days[0]}</span><span>${billed ? `at most ${money(most)} a day` : `at most ${count(most)} calls a day`}</span><span>${days[days.length - 1]}</span></figcaption></figure>`;
}

const Sums = ({ title, rows, link }) => html`<section><h2>${title}</h2><div class="table plain"><table><caption class="hidden">Usage ${title.toLowerCase()}</caption>
  <thead><tr><th scope="col">${title.replace("By ", "").replace(/^./, (it) => it.toUpperCase())}</th><th scope="col" class="number">Calls</th><th scope="col" class="number">Results</th><th scope="col" class="number">Spend</th></tr></thead>
  <tbody>${rows.map((row) => html`<tr key=${row.name}><td class="main">${link ? html`<a href=${link(row.name)}>${row.name}</a>` : row.name}</td>
    <td class="number">${count(row.calls)}</td><td class="number">${count(row.succeeded)}</td><td class="number">${money(row.charge_cents)}</td></tr>`)}</tbody></table></div></section>`;

function csv(rows, label) {
  const names = ["day", "workspace", "model", ...FIELDS, "api_key", ...(label ? ["label"] : [])];
  const cell = (value) => (/[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : value ?? "");
  return [names.join(","), ...rows.map((row) => names.map((name) => cell(row[name])).join(","))].join("\r\n");
}

export function Usage() {
  const { query } = route.value;
  const days = SPANS.some(([id]) => id === query.get("days")) ? query.get("days") : "30";
  const all = query.get("workspace") === "*";
  const label = query.get("label");
  const [text, setText] = useState(label ?? "");
  const state = useRead((signal) => {
    const from = new Date(Date.now() - days * DAY).toISOString();
    return askJson(`v1/usage?${new URLSearchParams({ by: "day,key", from, ...(label && { label }), ...(all && { workspace: "*" }) })}`, { signal });
  }, [days, all, label]);
  useWhileVisible(state.reload, 15000);
  const rows = state.data?.data;
  const total = rows && grouped(rows, () => "")[0];
  const save = () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv(rows, label)], { type: "text/csv" }));
    link.download = `usage-${days}-days.csv`;
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return html`<main>
    <header class="top"><h1>Usage</h1><div class="actions"><button onClick=${save} disabled=${!rows?.length}>CSV</button></div></header>
    <div class="filters"><div role="group" aria-label="Span" class="chips">${SPANS.map(([id, name]) => html`<button class="chip" aria-pressed=${days === id ? "true" : "false"} onClick=${() => refine({ days: id })}>${name}</button>`)}</div>
      <div role="group" aria-label="Accounts" class="chips"><button class="chip" aria-pressed=${all ? "true" : "false"} onClick=${() => refine({ workspace: all ? null : "*" })}>all accounts</button></div>
      <form onSubmit=${(event) => { event.preventDefault(); refine({ label: text.trim() || null }); }}><label class="hidden" for="label">Sum up by a label of calls</label>
        <input id="label" type="search" placeholder="By label, such as project" spellcheck="false" maxlength="40" value=${text} onInput=${(event) => setText(event.target.value)} /></form></div>
    <${Instead} state=${state} what="usage" />
    ${rows && (rows.length ? html`<div class="figures">
        <div class="figure"><span class="name">Spend</span><span class="value">${money(total.charge_cents)}</span></div>
        <div class="figure"><span class="name">Calls</span><span class="value">${count(total.calls)}</span></div>
        <div class="figure"><span class="name">Results</span><span class="value">${count(total.succeeded)}</span></div>
        <div class="figure"><span class="name">Generations</span><span class="value">${count(total.generations)}</span></div></div>
      <section><h2>By day</h2><${Days} rows=${rows} from=${+new Date(state.data.from)} until=${+new Date(state.data.until)} /></section>
      <div class="columns"><${Sums} title="By model" rows=${grouped(rows, (row) => row.model)} link=${(id) => href(["models", ...id.split("/")])} />
        ${all && html`<${Sums} title="By account" rows=${grouped(rows, (row) => row.workspace)} />`}
        ${label && html`<${Sums} title=${`By label ${label}`} rows=${grouped(rows, (row) => row.label ?? "no label")} />`}
        <${Sums} title="By key" rows=${grouped(rows, (row) => row.api_key ?? "no key")} />
        <${Sums} title="By day" rows=${grouped(rows, (row) => row.day).sort((a, b) => b.name.localeCompare(a.name)).slice(0, 31)} /></div>`
      : html`<${Empty} title="No calls in this span">Choose a longer one, or call a model.<//>`)}
  </main>`;
}

// --- Calls ---

const result = (call) => (call.status === "ok" ? "succeeded" : "failed");

function CallDialog({ call, close }) {
  const it = call.generation;
  const kept = useRead((signal) => askJson(`v1/generations/${call.request_id}?workspace=${encodeURIComponent(call.workspace)}`, { signal }), [call.request_id]);
  const files = kept.data?.results ?? [];
  const failed = it?.failed_attempts ?? [];
  const facts = [["Request", call.request_id], ["Account", call.workspace], ["API key", call.api_key], ["Model", call.model], ["Ended", call.status], ["Received", clock(call.received_at)],
    ["Answered", call.answered_at && clock(call.answered_at)], ["Delivered", call.delivered ? "yes" : "no"], ["Replayed", call.replayed ? "yes" : "no"],
    ["Generation", it && `${it.id}${it.began ? "" : " (began by another call)"}`], ["State", it?.status], ["Served by", it?.served_by], ["Partner's id", it?.task_id], ["Dispatched", it && clock(it.dispatched_at)],
    ["Accepted", it?.accepted_at && clock(it.accepted_at)], ["Settled", it?.settled_at && clock(it.settled_at)], ["Held", it && money(it.hold_cents)], ["Billed", it && it.charge_cents !== null && money(it.charge_cents)],
    ...Object.entries(call.labels ?? {}).map(([key, value]) => [`Label ${key}`, value || "(empty)"])];
  return html`<${Dialog} title=${call.model ?? "A call"} close=${close}><dl class="facts">${facts.filter(([, value]) => value).map(([name, value]) => html`<div><dt>${name}</dt><dd class="cut">${value}</dd></div>`)}</dl>
    ${failed.length > 0 && html`<h3>Attempts that failed before</h3><ul class="list">${failed.map((one) => html`<li key=${one.model}>${one.model} <span class="why">${one.status}${one.upstream_status ? ` (the partner said ${one.upstream_status})` : ""} after ${span(new Date(one.ended_at) - new Date(one.began_at))}: ${one.message}</span></li>`)}</ul>`}
    ${files.length > 0 && html`<h3>Kept results</h3><ul class="list">${files.map((file) => html`<li key=${file.pointer}>${file.url ? html`<a href=${file.url}>${file.pointer}</a>` : file.pointer} <span class="why">${file.state}${file.reason ? `: ${file.reason}` : ""}</span></li>`)}</ul>`}
    <div class="actions"><${Copy} text=${call.request_id} label="Copy the request's id" /></div><//>`;
}

export function Calls() {
  const { query } = route.value;
  const cursor = query.get("cursor");
  const all = query.get("workspace") === "*";
  const [shown, show] = useState(null);
  const search = new URLSearchParams({ limit: PAGE, ...(all && { workspace: "*" }), ...(cursor && { cursor }) });
  const state = useRead((signal) => askJson(`v1/calls?${search}`, { signal }), [search.toString()]);
  // Older pages stay as they are.
  useWhileVisible(() => cursor || state.reload(), 5000);
  const calls = state.data?.data;
  const filters = { workspace: all ? "*" : null };
  return html`<main>
    <header class="top"><h1>Calls</h1><div class="actions"><button onClick=${state.reload}>Look again</button></div></header>
    <div class="filters"><div role="group" aria-label="Accounts" class="chips"><button class="chip" aria-pressed=${all ? "true" : "false"} onClick=${() => refine({ cursor: null, workspace: all ? null : "*" })}>all accounts</button></div></div>
    <${Instead} state=${state} what="calls" />
    ${calls && (calls.length ? html`<div class="table" data-rows><table><caption class="hidden">Calls, newest first</caption>
      <thead><tr><th scope="col">Ended</th><th scope="col">Model</th><th scope="col" class="wide">Account</th><th scope="col" class="number">Took</th><th scope="col" class="number">Billed</th><th scope="col" class="number">Received</th></tr></thead>
      <tbody>${calls.map((call) => html`<tr key=${call.request_id} onClick=${() => show(call)}>
        <td><span class=${`status ${result(call)}`}>${call.status}</span></td>
        <td class="main"><button class="row" data-row onClick=${(event) => { event.stopPropagation(); show(call); }}>${call.model ?? "–"}</button>${call.replayed && html`<span class="why">replayed</span>`}</td>
        <td class="wide">${call.workspace}</td><td class="number">${call.answered_at ? span(new Date(call.answered_at) - new Date(call.received_at)) : "–"}</td>
        <td class="number">${call.generation?.charge_cents === undefined || call.generation?.charge_cents === null ? "–" : money(call.generation.charge_cents)}</td><td class="number"><${Age} time=${call.received_at} /></td></tr>`)}</tbody></table></div>`
      : html`<${Empty} title="No calls">Call a model, and it is on record here.<//>`)}
    ${calls && (cursor || state.data.next_cursor) && html`<nav class="pages" aria-label="Pages">${cursor && html`<a class="button" href=${href(["calls"], filters)}>Newest</a>`}
      ${state.data.next_cursor && html`<a class="button" href=${href(["calls"], { ...filters, cursor: state.data.next_cursor })}>Older</a>`}</nav>`}
    ${shown && html`<${CallDialog} call=${shown} close=${() => show(null)} />`}
  </main>`;
}
