// The list of jobs: filters in the address, one page at a time, kept live by one stream of the account's events.
import { useEffect, useRef, useState } from "./vendor/hooks.js";
import { Age, Bar, Empty, Instead, Labels, Status } from "./parts.js";
import { askJson, go, href, html, merge, ran, refine, route, short, span, useLive, waited } from "./kit.js";

const STATUSES = ["queued", "running", "succeeded", "failed", "canceled", "expired"];
const PAGE = 50;

const name = (job) => job.metadata?.name ?? short(job.id);

function JobTable({ jobs, caption }) {
  return html`<div class="table" data-rows><table>
    <caption class="hidden">${caption}</caption>
    <thead><tr><th scope="col">Status</th><th scope="col">Job</th><th scope="col" class="wide">Labels</th><th scope="col" class="wide">Nodes</th>
      <th scope="col" class="number">Waited</th><th scope="col" class="number">Ran</th><th scope="col" class="number">Created</th></tr></thead>
    <tbody>${jobs.map((job) => html`<tr key=${job.id} onClick=${(event) => event.target.closest("a") || go(["jobs", job.id])}>
      <td><${Status} status=${job.status} /></td>
      <td class="main"><a data-row href=${href(["jobs", job.id])}>${name(job)}</a>${job.error && html`<span class="why">${job.error.message}</span>`}</td>
      <td class="wide"><${Labels} metadata=${job.metadata} /></td>
      <td class="wide">${job.status === "running" ? html`<${Bar} value=${job.progress.value} label=${`Progress of ${name(job)}`} />`
        : job.status === "queued" ? html`<span class="muted">${job.queue_position === null ? "" : job.queue_position === 0 ? "next" : `${job.queue_position} before it`}</span>`
        : html`<span class="muted">${job.progress.nodes_done} of ${job.progress.nodes_total}</span>`}</td>
      <td class="number">${span(waited(job))}</td><td class="number">${span(ran(job))}</td><td class="number"><${Age} time=${job.created_at} /></td>
    </tr>`)}</tbody>
  </table></div>`;
}

export function Jobs() {
  const { query } = route.value;
  const statuses = query.getAll("status");
  const labels = query.getAll("label");
  const cursor = query.get("cursor");
  const [text, setText] = useState(labels.join(" "));
  const field = useRef();
  const search = new URLSearchParams({ limit: PAGE });
  for (const status of statuses) search.append("status", status);
  for (const label of labels) {
    const [left, ...right] = label.split("=");
    if (right.length) search.append(`metadata[${left}]`, right.join("="));
  }
  if (cursor) search.set("cursor", cursor);
  const fits = (job) => !cursor && (!statuses.length || statuses.includes(job.status))
    && labels.every((label) => label.split("=").length < 2 || job.metadata?.[label.split("=")[0]] === label.split("=").slice(1).join("="));
  const [state, live] = useLive((signal) => askJson(`api/v2/jobs?${search}`, { signal }), [search.toString()],
    (data, news) => ({ ...data, jobs: merge(data.jobs, news, fits).slice(0, PAGE * 2) }));
  const jobs = state.data?.jobs;

  useEffect(() => {
    const onKey = (event) => {
      if (event.key !== "/" || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
      field.current?.focus();
      event.preventDefault();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  const toggle = (status) => refine({ cursor: null, status: statuses.includes(status) ? statuses.filter((it) => it !== status) : [...statuses, status] });
  const filter = (event) => { event.preventDefault(); refine({ cursor: null, label: text.split(/\s+/).filter((it) => it.includes("=")).slice(0, 3) }); };

  return html`<main>
    <header class="top"><h1>Jobs</h1><span class=${`live ${live ? "on" : ""}`} role="status">${live ? "Live" : ""}</span></header>
    <div class="filters">
      <div role="group" aria-label="Statuses" class="chips">${STATUSES.map((status) => html`<button class="chip" aria-pressed=${statuses.includes(status) ? "true" : "false"} onClick=${() => toggle(status)}>${status}</button>`)}</div>
      <form role="search" onSubmit=${filter}><label class="hidden" for="labels">Labels, as name=value</label>
        <input id="labels" ref=${field} type="search" placeholder="Labels: name=value" spellcheck="false" value=${text} onInput=${(event) => setText(event.target.value)} /><kbd aria-hidden="true">/</kbd></form>
    </div>
    <${Instead} state=${state} what="jobs" />
    ${jobs && (jobs.length ? html`<${JobTable} jobs=${jobs} caption="Jobs, newest first" />`
      : statuses.length || labels.length || cursor ? html`<${Empty} title="No job fits">Take a filter away, or look again later.<//>`
      : html`<${Empty} title="No jobs yet">Submit a graph to <code>POST /api/v2/jobs</code>, or with <code>easel run graph.json</code>. It shows up here at once.<//>`)}
    ${jobs && (cursor || state.data.next_cursor) && html`<nav class="pages" aria-label="Pages">
      ${cursor && html`<a class="button" href=${href(["jobs"], { status: statuses, label: labels })}>Newest</a>`}
      ${state.data.next_cursor && html`<a class="button" href=${href(["jobs"], { status: statuses, label: labels, cursor: state.data.next_cursor })}>Older</a>`}</nav>`}
  </main>`;
}
