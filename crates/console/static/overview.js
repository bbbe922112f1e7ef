// What goes on: the queue, what runs, what failed lately, and the figures that the server counts.
import { Age, Bar, Empty, Instead, State, Status } from "./parts.js";
import { ask, askJson, count, has, href, html, isOver, merge, money, now, ran, short, size, span, useLive, useRead, useWhileVisible, waited } from "./kit.js";

const RECENT = 100;

// The samples of a text in the format of Prometheus: [{ name, labels, value }].
function samples(text) {
  return text.split("\n").filter((line) => line && !line.startsWith("#")).map((line) => {
    const [, name, inside, value] = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
    const labels = Object.fromEntries([...(inside ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, label, it]) => [label, it]));
    return { name, labels, value: Number(value) };
  });
}

const Figure = ({ name, value, note, to, tone }) => html`<div class=${`figure ${tone ?? ""}`}><span class="name">${to ? html`<a href=${to}>${name}</a>` : name}</span>
  <span class="value">${value}</span>${note && html`<span class="hint">${note}</span>`}</div>`;

// Jobs by the time at which they were made, in 24 equal spans, by how they ended.
function Chart({ jobs }) {
  const end = now.value;
  const first = Math.min(...jobs.map((job) => +new Date(job.created_at)), end - 60000);
  const step = (end - first) / 24;
  const kinds = ["succeeded", "failed", "other"];
  const bins = Array.from({ length: 24 }, () => ({ succeeded: 0, failed: 0, other: 0 }));
  for (const job of jobs) {
    const bin = bins[Math.min(23, Math.floor((new Date(job.created_at) - first) / step))];
    bin[job.status === "succeeded" ? "succeeded" : ["failed", "expired"].includes(job.status) ? "failed" : "other"] += 1;
  }
  const most = Math.max(1, ...bins.map((bin) => bin.succeeded + bin.failed + bin.other));
  const said = kinds.map((kind) => `${jobs.length && bins.reduce((sum, bin) => sum + bin[kind], 0)} ${kind === "other" ? "waiting, running or canceled" : kind}`).join(", ");
  return html`<figure class="chart"><svg viewBox="0 0 240 60" preserveAspectRatio="none" role="img" aria-label=${`The last ${jobs.length} jobs by time: ${said}`}>
    ${bins.map((bin, place) => {
      let top = 60;
      return kinds.map((kind) => {
        const height = (bin[kind] / most) * 56;
        top -= height;
        return height > 0 && html`<rect class=${kind} x=${place * 10 + 1} y=${top} width="8" height=${height} />`;
      });
    })}<line x1="0" x2="240" y1="59.75" y2="59.75" /></svg>
    <figcaption><span>${span(end - first)} ago</span><span class="legend"><i class="succeeded" /> succeeded <i class="failed" /> failed <i class="other" /> other</span><span>now</span></figcaption></figure>`;
}

const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];

export function Overview() {
  const [state, live] = useLive((signal) => askJson(`api/v2/jobs?limit=${RECENT}`, { signal }), [],
    (data, news) => ({ jobs: merge(data.jobs, news, () => true).slice(0, RECENT) }), has("workflows"));
  const figures = useRead(async (signal) => samples(await (await ask("metrics", { signal })).text()), []);
  const spend = useRead((signal) => askJson(`v1/usage?from=${new Date(Date.now() - 86400000).toISOString()}`, { signal }), [], has("models"));
  const ready = useRead((signal) => askJson("ready", { signal }), []);
  useWhileVisible(() => { figures.reload(); ready.reload(); }, 10000);
  // Money is summed up from rows, and not counted as the figures are.
  useWhileVisible(spend.reload, 60000);
  const jobs = state.data?.jobs;
  const sum = (name, fits = () => true) => {
    const found = figures.data?.filter((it) => it.name === name && fits(it.labels));
    return found?.length ? found.reduce((total, it) => total + it.value, 0) : undefined;
  };
  const underWay = jobs?.filter((job) => !isOver(job.status));
  const running = underWay?.filter((job) => job.status !== "queued");
  const failed = jobs?.filter((job) => ["failed", "expired"].includes(job.status));
  const done = jobs?.filter((job) => job.metrics.execution_ms !== null);
  const calls = figures.data?.filter((it) => it.name === "easel_router_calls_total") ?? [];
  const models = Object.entries(calls.reduce((all, { labels, value }) => {
    const row = (all[labels.model] ??= { ok: 0, other: 0 });
    row[labels.bucket === "ok" ? "ok" : "other"] += value;
    return all;
  }, {})).sort(([, a], [, b]) => b.ok + b.other - a.ok - a.other).slice(0, 8);
  // Those that take no jobs come first.
  const takes = (it) => ["ready", "busy"].includes(it.state);
  const workers = figures.data?.filter((it) => it.name === "easel_worker_state" && it.value === 1)
    .map(({ labels }) => ({ name: labels.worker, state: labels.state, jobs: sum("easel_worker_jobs", (it) => it.worker === labels.worker) ?? 0 }))
    .sort((a, b) => takes(a) - takes(b) || a.name.localeCompare(b.name));
  // Whoever is not signed in sees the form alone.
  const locked = [has("workflows") ? state : spend].find((it) => it.error?.status === 401);
  const reasons = ready.error?.status === 503 ? ["The server is not ready: " + ready.error.message] : [...(ready.data?.notes ?? [])];
  return html`<main>
    <header class="top"><h1>Overview</h1><span class=${`live ${live ? "on" : ""}`} role="status">${live ? "Live" : ""}</span></header>
    ${reasons.map((reason) => html`<p class="note" role="status">${reason}</p>`)}
    ${(locked || has("workflows")) && html`<${Instead} state=${locked ?? state} what=${has("workflows") ? "jobs" : "models"} />`}
    ${!locked && html`<div class="figures">
      ${jobs && html`<${Figure} name="Queued" value=${count(sum("easel_jobs_queued") ?? underWay.length - running.length)} to=${href(["jobs"], { status: "queued" })} note="waiting for a slot" />
        <${Figure} name="Running" value=${count(sum("easel_jobs_running") ?? running.length)} to=${href(["jobs"], { status: "running" })} note="at work now" />
        <${Figure} name="Failed" value=${count(failed.length)} tone=${failed.length ? "bad" : ""} to=${href(["jobs"], { status: ["failed", "expired"] })} note=${`of the last ${jobs.length} jobs`} />
        <${Figure} name="Waited" value=${done.length ? span(median(done.map(waited))) : "–"} note="median" />
        <${Figure} name="Ran" value=${done.length ? span(median(done.map(ran))) : "–"} note="median" />`}
      ${has("models") && figures.data && html`<${Figure} name="Calls" value=${count(sum("easel_router_calls_total") ?? 0)} to=${href(["models"])} note=${`${count(sum("easel_router_calls_total", (it) => it.bucket !== "ok") ?? 0)} without a result`} />`}
      ${spend.data && html`<${Figure} name="Spend" value=${money(spend.data.data.reduce((all, it) => all + it.charge_cents, 0))} to=${href(["usage"])} note="in 24 hours" />`}
      ${workers?.length > 0 && html`<${Figure} name="Workers" value=${`${workers.filter(takes).length} of ${workers.length}`} to=${href(["workers"])} note="take jobs" />`}
      ${sum("easel_disk_free_bytes") !== undefined && html`<${Figure} name="Disk" value=${size(sum("easel_disk_free_bytes"))} note="free" />`}
    </div>`}
    ${jobs?.length > 0 && html`<section><h2>Jobs over time</h2><${Chart} jobs=${jobs} /></section>`}
    <div class="columns">
      ${jobs && html`<section><h2>Under way</h2>${underWay.length ? html`<ul class="list" data-rows>${underWay.slice(0, 8).map((job) => html`<li key=${job.id}><${Status} status=${job.status} />
        <a data-row href=${href(["jobs", job.id])}>${job.metadata?.name ?? short(job.id)}</a>${job.status === "queued" ? html`<span class="muted">waited ${span(waited(job))}</span>` : html`<${Bar} value=${job.progress.value} />`}</li>`)}</ul>`
        : html`<${Empty} title="Nothing runs">No job waits or runs.<//>`}</section>
      <section><h2>Failed lately</h2>${failed.length ? html`<ul class="list" data-rows>${failed.slice(0, 8).map((job) => html`<li key=${job.id}><${Status} status=${job.status} />
        <a data-row href=${href(["jobs", job.id])}>${job.metadata?.name ?? short(job.id)}</a><span class="muted grow">${job.error?.message ?? ""}</span><${Age} time=${job.created_at} /></li>`)}</ul>`
        : html`<${Empty} title="No failures">None of the last ${jobs.length} jobs failed.<//>`}</section>`}
      ${workers?.length > 0 && html`<section><h2>Workers</h2><ul class="list">${workers.slice(0, 8).map((it) => html`<li key=${it.name}><${State} state=${it.state} />
        <a href=${href(["workers"])}>${it.name}</a><span class="muted push">${it.jobs} ${it.jobs === 1 ? "job" : "jobs"}</span></li>`)}</ul></section>`}
      ${has("models") && figures.data && html`<section><h2>Calls since the start, by model</h2>${models.length ? html`<ul class="list">${models.map(([model, { ok, other }]) => html`<li key=${model}>
        <a href=${href(["models", ...model.split("/")])}>${model}</a><span class="muted push">${count(ok)} with a result${other ? `, ${count(other)} without` : ""}</span></li>`)}</ul>`
        : html`<${Empty} title="No calls yet">Call a model from its page under Models.<//>`}</section>`}
    </div>
    ${figures.error && !locked && html`<p class="muted">The server's own figures are not shown: ${figures.error.message}</p>`}
  </main>`;
}
