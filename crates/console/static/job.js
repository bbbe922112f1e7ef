// One job: when it waited and worked, node by node; its pictures, graph and log; cancel, and run again with changes.
import { useEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
import { Age, Bar, Copy, Dialog, Empty, Icon, Instead, Labels, Status, Tabs, labels } from "./parts.js";
import { ask, askJson, clock, go, href, html, isOver, local, now, ran, route, short, size, span, useEvents, useRead, waited } from "./kit.js";

const title = (graph, id) => graph?.[id]?._meta?.title;
const classOf = (graph, id, known) => graph?.[id]?.class_type ?? known ?? "";
const links = (graph, id) => Object.values(graph?.[id]?.inputs ?? {}).filter((it) => Array.isArray(it) && it.length === 2 && graph[it[0]]).map(([from]) => String(from));

// The nodes in an order in which each stands after those that it needs.
function inOrder(graph) {
  const order = [];
  const seen = new Set();
  const visit = (id) => {
    if (seen.has(id)) return;
    seen.add(id);
    links(graph, id).forEach(visit);
    order.push(id);
  };
  Object.keys(graph ?? {}).forEach(visit);
  return order;
}

// --- The waterfall ---

// The nodes that are done for sure in a job that runs: those that gave an output, and all that the node at work needs. More than the
// server counts cannot be done: then an input was not needed, and which one is not known.
function doneOf(job, graph) {
  const { current_node: current, nodes_done: most } = job.progress;
  const done = new Set();
  const visit = (id) => links(graph, id).forEach((from) => { if (!done.has(from)) { done.add(from); visit(from); } });
  if (current) visit(current);
  if (done.size > most) done.clear();
  for (const output of job.outputs) done.add(output.node_id);
  done.delete(current);
  return done;
}

function Waterfall({ job, graph, runs }) {
  const done = isOver(job.status) ? new Set() : doneOf(job, graph);
  const known = new Map((runs ?? []).map((run) => [run.node_id, run]));
  const created = +new Date(job.created_at);
  const started = job.started_at ? +new Date(job.started_at) : null;
  const end = job.completed_at ? +new Date(job.completed_at) : now.value;
  const total = Math.max(end - created, 1);
  const place = (from, to) => ({ left: `${Math.max(0, (from - created) / total) * 100}%`, width: `max(2px, ${(Math.max(to - from, 0) / total) * 100}%)` });
  const order = inOrder(graph);
  const ids = [...new Set([...order.filter((id) => done.has(id) && !known.has(id)), ...known.keys(), ...order])];
  const rows = ids.map((id) => {
    const run = known.get(id);
    const from = run?.started_at && +new Date(run.started_at);
    const to = run?.ended_at ? +new Date(run.ended_at) : from && (isOver(job.status) ? end : now.value);
    const failed = job.error?.node_id === id;
    const word = failed ? "failed" : run?.cached ? "known already" : from ? span(to - from) : !runs && isOver(job.status) ? "–" : isOver(job.status) ? "not run" : done.has(id) ? "done" : "waits";
    return { id, run, from, to, failed, word: run?.early ? `over ${word}` : word };
  });
  const unseen = rows.some(({ run, word }) => run?.early || word === "done");
  const marks = [0, 0.25, 0.5, 0.75, 1];
  const inQueue = (started ?? end) - created;
  return html`<div class="waterfall"><table><caption class="hidden">When the job waited and when its nodes worked</caption>
    <thead><tr><th scope="col">Node</th><th scope="col" class="number">Time</th><th scope="col" class="axis" aria-label="Chart">
      ${marks.map((mark) => html`<span style=${{ left: `${mark * 100}%` }} class=${mark === 1 ? "last" : ""}>${span(total * mark)}</span>`)}</th></tr></thead>
    <tbody>
      <tr><th scope="row"><span class="node">In the queue</span></th><td class="number">${span(inQueue)}</td>
        <td class="lane"><span class="wait" style=${place(created, started ?? end)} title=${`waited ${span(inQueue)}`} /></td></tr>
      ${rows.map(({ id, run, from, to, failed, word }) => html`<tr key=${id} class=${from || failed ? "" : "idle"}>
        <th scope="row"><span class="node" title=${`node ${id}: ${classOf(graph, id, run?.class_type)}`}>${title(graph, id) ?? classOf(graph, id, run?.class_type)}</span>
          ${title(graph, id) && html`<span class="class">${classOf(graph, id, run?.class_type)}</span>`}</th>
        <td class="number">${word}</td>
        <td class="lane">${from && started && !run.early && from - started > total / 400 && html`<span class="wait thin" style=${place(started, from)} title=${`waited ${span(from - started)} for other nodes`} />`}
          ${from && html`<span class=${`work ${failed ? "failed" : ""} ${run.ended_at || isOver(job.status) ? "" : "live"}`} style=${place(from, to)} title=${`worked ${span(to - from)}`} />`}</td>
      </tr>`)}
    </tbody></table>
    <p class="legend"><span><i class="wait" /> waiting</span><span><i class="work" /> working</span>
      ${unseen && html`<span>The times of nodes that this page did not see come once the job ends.</span>`}
      ${!runs && isOver(job.status) && job.status !== "canceled" && html`<span>The times of this job's nodes were not kept.</span>`}</p>
  </div>`;
}

// --- The graph ---

function Graph({ graph, job }) {
  const depth = {};
  const columns = [];
  for (const id of inOrder(graph)) {
    depth[id] = Math.max(-1, ...links(graph, id).map((from) => depth[from] ?? 0)) + 1;
    (columns[depth[id]] ??= []).push(id);
  }
  const [w, h, gapX, gapY] = [168, 44, 56, 16];
  const at = {};
  columns.forEach((ids, column) => ids.forEach((id, row) => { at[id] = { x: column * (w + gapX) + 1, y: row * (h + gapY) + 1 }; }));
  const width = columns.length * (w + gapX) - gapX + 2;
  const height = Math.max(1, ...columns.map((ids) => ids.length)) * (h + gapY) - gapY + 2;
  const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
  return html`<div class="graph" tabindex="0" role="region" aria-label="The graph"><svg width=${width} height=${height} role="img" aria-label=${`A graph of ${Object.keys(graph).length} nodes`}>
    ${inOrder(graph).flatMap((id) => links(graph, id).map((from) => {
      const [a, b] = [at[from], at[id]];
      const [x1, y1, x2, y2] = [a.x + w, a.y + h / 2, b.x, b.y + h / 2];
      return html`<path class="edge" d=${`M${x1} ${y1}C${x1 + gapX / 2} ${y1} ${x2 - gapX / 2} ${y2} ${x2} ${y2}`} />`;
    }))}
    ${inOrder(graph).map((id) => html`<g transform=${`translate(${at[id].x} ${at[id].y})`} class=${job.error?.node_id === id ? "failed" : ""}>
      <rect width=${w} height=${h} rx="6" /><text x="10" y="18">${cut(title(graph, id) ?? graph[id].class_type, 22)}</text>
      <text x="10" y="34" class="small">${cut(title(graph, id) ? graph[id].class_type : `node ${id}`, 26)}</text></g>`)}
  </svg></div>`;
}

// --- Running again ---

function Again({ workflow, job, close }) {
  const [text, set] = useState(() => JSON.stringify(workflow, null, 2));
  const [problem, tell] = useState(null);
  const [busy, work] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    let graph;
    try { graph = JSON.parse(text); } catch (error) { tell(`This is not JSON: ${error.message}`); return; }
    work(true);
    try {
      const body = JSON.stringify({ workflow: graph, metadata: job.metadata });
      const made = await askJson("api/v2/jobs", { method: "POST", body, headers: { "Idempotency-Key": crypto.randomUUID() } });
      close();
      go(["jobs", made.id]);
    } catch (error) { tell(error.message); work(false); }
  };
  return html`<${Dialog} title="Run again" close=${close} wide>
    <form onSubmit=${submit}><label for="again">The graph, with the changes that you make here</label>
      <textarea id="again" class="code" rows="22" spellcheck="false" value=${text} onInput=${(event) => set(event.target.value)} />
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      <div class="actions"><button type="button" onClick=${close}>Leave</button><button class="primary" type="submit" disabled=${busy}>Submit</button></div></form><//>`;
}

// --- Outputs ---

export function Output({ output, open }) {
  const picture = output.type === "image";
  return html`<button class="output" onClick=${open}>
    <span class="frame">${picture ? html`<img src=${local(output.url)} alt="" loading="lazy" decoding="async" />` : html`<span class="kind">${output.type}</span>`}</span>
    <span class="name">${output.name}</span><span class="muted">${size(output.size_bytes)}</span></button>`;
}

export function OutputDialog({ output, close, job }) {
  const url = local(output.url);
  return html`<${Dialog} title=${output.name} close=${close} wide>
    <div class="viewer">${output.type === "image" ? html`<img src=${url} alt=${output.name} />`
      : output.type === "video" ? html`<video src=${url} controls />`
      : output.type === "audio" ? html`<audio src=${url} controls />` : html`<p class="muted">There is no preview of this kind of file.</p>`}</div>
    <dl class="facts"><div><dt>Type</dt><dd>${output.content_type}</dd></div><div><dt>Size</dt><dd>${size(output.size_bytes)}</dd></div>
      <div><dt>Node</dt><dd>${output.node_id}</dd></div>
      <div><dt>Asset</dt><dd class="mono">${output.id} <${Copy} text=${output.id} label="Copy the asset's id" /></dd></div>
      ${output.hash && html`<div><dt>Hash</dt><dd class="mono cut">${output.hash}</dd></div>`}
      ${job && html`<div><dt>Job</dt><dd><a href=${href(["jobs", output.job_id])} onClick=${close}>${short(output.job_id)}</a></dd></div><div><dt>Kept until</dt><dd>${clock(job.expires_at)}</dd></div>`}</dl>
    ${job && html`<${Holds} id=${output.id} close=${close} />`}
    <div class="actions"><a class="button" href=${url} download=${output.name}>Download</a><a class="button" href=${url} target="_blank" rel="noopener">Open</a></div><//>`;
}

const KEEPS = {
  input: (job) => html`job ${job}, which reads it, until that job ends`,
  output: (job) => html`job ${job}, which made it, as long as that job is kept`,
  operator: () => "an operator, until it is released",
};

// For operators: what keeps an asset from being deleted and swept, and a hold of their own.
function Holds({ id, close }) {
  const [told, tell] = useState({});
  const path = `api/v2/admin/assets/${id}`;
  const look = async (method) => {
    try {
      if (method) await ask(`${path}/hold`, { method });
      tell(await askJson(path));
    } catch (error) { tell({ error }); }
  };
  const { error, holds, has_more_holds: more } = told;
  const isHeld = holds?.some(({ kind }) => kind === "operator");
  const link = (job) => job && html`<a href=${href(["jobs", job])} onClick=${close}>${short(job)}</a>`;
  const kept = holds?.map(({ kind, job_id: job }) => KEEPS[kind](link(job))) ?? [];
  if (more) kept.push("more jobs");
  return html`<div role="status">${error && html`<p class="problem">${error.message}</p>`}
      ${holds && html`<dl class="facts">${(kept.length ? kept : ["nothing: it can be deleted"]).map((by) => html`<div><dt>Kept by</dt><dd>${by}</dd></div>`)}</dl>`}</div>
    <div class="actions">${holds ? html`<button onClick=${() => look(isHeld ? "DELETE" : "PUT")}>${isHeld ? "Release" : "Hold"}</button>` : html`<button onClick=${() => look()}>What keeps it</button>`}</div>`;
}

// Why a job waits, for operators: what else runs, and each worker that does not take it.
function Why({ id }) {
  const [told, tell] = useState({});
  const look = async () => {
    try { tell(await askJson(`api/v2/admin/jobs/${id}`)); } catch (error) { tell({ error }); }
  };
  return html`<p><button class="quiet" onClick=${look}>Why it waits</button></p>
    ${told.error && html`<p class="problem" role="alert">${told.error.message}</p>`}
    ${told.workers && html`<div class="note" role="status"><p>${told.account} runs ${told.account_running} of at most ${told.account_room} jobs at once.</p>
      ${told.workers.length > 0 && html`<ul>${told.workers.map((one) => html`<li key=${one.worker}>${one.worker}: ${one.has_job ? "has the job" : one.why_not ?? "can take it now"}</li>`)}</ul>`}</div>`}`;
}

// --- The view ---

export function Job({ path: [id] }) {
  const base = `api/v2/jobs/${encodeURIComponent(id)}`;
  const state = useRead((signal) => askJson(base, { signal }), [id]);
  const job = state.data;
  const over = job && isOver(job.status);
  const graph = useRead((signal) => askJson(`${base}/workflow`, { signal }), [id]);
  const log = useRead((signal) => askJson(`${base}/logs`, { signal }), [id, over], over === true);
  const [seen, see] = useState([]);
  const [preview, setPreview] = useState(null);
  const [shown, show] = useState(null);
  const [again, setAgain] = useState(false);
  const [problem, setProblem] = useState(null);
  const tab = route.value.query.get("tab") ?? "time";
  useEffect(() => { see([]); setPreview(null); setProblem(null); }, [id]);

  // Until the server has written down when nodes began and ended, what this page saw of it is shown. What a stream tells first may have
  // begun long ago (`early`), and when the node before it ended is not known.
  const saw = (progress, early) => see((before) => {
    const at = new Date().toISOString();
    const current = progress.current_node;
    const last = before[before.length - 1];
    if (last && !last.ended_at && last.node_id !== current) before = [...before.slice(0, -1), ...(early ? [] : [{ ...last, ended_at: at }])];
    if (!current || (last?.node_id === current && !last.ended_at)) return before;
    return [...before, { node_id: current, class_type: progress.current_node_class, started_at: at, ended_at: null, early }];
  });
  const begins = useRef(true);
  const live = useEvents(job && !over ? `${base}/events` : null, (event, news) => {
    if (event === "progress") { saw(news, begins.current); begins.current = false; state.set((it) => it && { ...it, progress: news }); }
    if (event === "output") state.set((it) => it && { ...it, outputs: [...it.outputs.filter((other) => other.id !== news.id), news] });
    if (event === "preview") setPreview(news);
    if (event === "status") {
      if (isOver(news.status) || (news.status === "running" && !job.started_at)) state.reload();
      else state.set((it) => it && { ...it, status: news.status, queue_position: news.queue_position });
    }
  }, () => over);
  useEffect(() => { if (!live) begins.current = true; }, [live]);

  const workflow = graph.data?.workflow;
  const runs = log.data?.nodes ?? (seen.length ? seen : null);
  const cancel = async () => {
    setProblem(null);
    try { const now = await askJson(`${base}/cancel`, { method: "POST" }); state.set((it) => ({ ...it, ...now })); } catch (error) { setProblem(error.message); }
  };
  if (!job) return html`<main><header class="top"><a class="back" href=${href(["jobs"])}><${Icon} name="back" />Jobs</a></header><${Instead} state=${state} what="jobs" /></main>`;
  const name = job.metadata?.name ?? short(job.id);
  return html`<main>
    <header class="top"><a class="back" href=${href(["jobs"])} aria-label="All jobs"><${Icon} name="back" /></a><h1>${name}</h1><${Status} status=${job.status} />
      <span class=${`live ${live ? "on" : ""}`} role="status">${live ? "Live" : ""}</span>
      <div class="actions">${!over && html`<button onClick=${cancel} disabled=${job.status === "canceling"}>Cancel</button>`}
        <button onClick=${() => setAgain(true)} disabled=${!workflow}>Run again …</button></div></header>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <dl class="facts row">
      <div><dt>Job</dt><dd class="mono">${job.id} <${Copy} text=${job.id} label="Copy the job's id" /></dd></div>
      <div><dt>Created</dt><dd><${Age} time=${job.created_at} /></dd></div>
      <div><dt>Waited</dt><dd>${span(waited(job))}</dd></div><div><dt>Ran</dt><dd>${span(ran(job))}</dd></div>
      <div><dt>Nodes</dt><dd>${job.progress.nodes_done} of ${job.progress.nodes_total}</dd></div>
      <div><dt>Kept until</dt><dd>${clock(job.expires_at)}</dd></div>
      ${labels(job.metadata).length > 0 && html`<div><dt>Labels</dt><dd><${Labels} metadata=${job.metadata} /></dd></div>`}</dl>
    ${job.status === "queued" && html`<p class="note" role="status">${job.queue_position ? `Waits for a free slot, behind ${job.queue_position} other ${job.queue_position === 1 ? "job" : "jobs"} of this account.` : "Waits for a free slot; it is the next job of this account."}</p>`}
    ${job.status === "queued" && html`<${Why} key=${job.id} id=${job.id} />`}
    ${!over && html`<${Bar} value=${job.progress.value} /><p class="hidden" role="status">${job.progress.current_node_class ? `Node ${job.progress.current_node}, ${job.progress.current_node_class}` : ""}</p>`}
    ${job.error && html`<section class="problem" role="alert"><strong>${job.error.code}</strong>${job.error.node_id && html` <span>in node ${job.error.node_id} (${job.error.class_type ?? classOf(workflow, job.error.node_id)})</span>`}
      <p>${job.error.message}</p>${job.error.traceback && html`<details><summary>Traceback</summary><pre>${job.error.traceback}</pre></details>`}
      ${job.error.details && html`<details><summary>Details</summary><pre>${JSON.stringify(job.error.details, null, 2)}</pre></details>`}</section>`}
    ${(job.outputs.length > 0 || preview) && html`<section><h2>Outputs</h2><div class="gallery">
      ${job.outputs.map((output) => html`<${Output} key=${output.id} output=${output} open=${() => show(output)} />`)}
      ${preview && !over && html`<figure class="output preview"><span class="frame"><img src=${`data:${preview.content_type};base64,${preview.data_base64}`} alt=${`Preview of node ${preview.node_id}`} /></span><figcaption class="name">Preview of node ${preview.node_id}</figcaption></figure>`}</div></section>`}
    <${Tabs} label="About this job" names=${[["time", "Waterfall"], ["graph", "Graph"], ["json", "JSON"], ["log", "Log"]]} chosen=${tab}
      choose=${(next) => { location.replace(href(["jobs", id], next === "time" ? {} : { tab: next })); }}>
      ${tab === "time" && html`<${Waterfall} job=${job} graph=${workflow} runs=${runs} />`}
      ${tab === "graph" && (workflow ? html`<${Graph} graph=${workflow} job=${job} />` : html`<${Instead} state=${graph} what="jobs" />`)}
      ${tab === "json" && (workflow ? html`<div class="code-box"><${Copy} text=${JSON.stringify(workflow, null, 2)} label="Copy the graph" /><pre tabindex="0">${JSON.stringify(workflow, null, 2)}</pre></div>` : html`<${Instead} state=${graph} what="jobs" />`)}
      ${tab === "log" && (log.data ? html`<div class="code-box"><${Copy} text=${log.data.text} label="Copy the log" /><pre tabindex="0">${log.data.text}</pre></div>${log.data.truncated && html`<p class="muted">The beginning of a long log is not kept.</p>`}`
        : html`<${Empty} title="No log">${over ? "This job wrote none." : "It is written when the job ends."}<//>`)}
    <//>
    ${shown && html`<${OutputDialog} output=${shown} close=${() => show(null)} />`}
    ${again && html`<${Again} workflow=${workflow} job=${job} close=${() => setAgain(false)} />`}
  </main>`;
}
