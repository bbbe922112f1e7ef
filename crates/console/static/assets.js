// The outputs of jobs as a gallery, newest first, one page of jobs at a time.
import { useState } from "./vendor/hooks.js";
import { Age, Empty, Instead } from "./parts.js";
import { Output, OutputDialog } from "./job.js";
import { askJson, href, html, refine, route, useRead } from "./kit.js";

const KINDS = ["image", "video", "audio", "text", "file"];
const PAGE = 50;

export function Assets() {
  const { query } = route.value;
  const cursor = query.get("cursor");
  const kind = query.get("type");
  const [shown, show] = useState(null);
  const search = new URLSearchParams({ limit: PAGE, status: "succeeded" });
  for (const status of ["running", "failed", "canceled"]) search.append("status", status);
  if (cursor) search.set("cursor", cursor);
  const state = useRead((signal) => askJson(`api/v2/jobs?${search}`, { signal }), [search.toString()]);
  const jobs = state.data?.jobs;
  const fits = (output) => !kind || output.type === kind;
  const groups = jobs?.map((job) => ({ job, outputs: job.outputs.filter(fits) })).filter(({ outputs }) => outputs.length);
  return html`<main>
    <header class="top"><h1>Assets</h1></header>
    <div class="filters"><div role="group" aria-label="Kinds" class="chips">${KINDS.map((it) => html`<button class="chip" aria-pressed=${kind === it ? "true" : "false"}
      onClick=${() => refine({ type: kind === it ? null : it })}>${it}</button>`)}</div></div>
    <${Instead} state=${state} what="assets" />
    ${groups && (groups.length ? html`<div class="gallery">${groups.flatMap(({ job, outputs }) => outputs.map((output) =>
      html`<${Output} key=${output.id} output=${output} open=${() => show({ output, job })} />`))}</div>`
      : html`<${Empty} title="No outputs here">${kind || cursor ? "Take a filter away, or look at another page." : "What jobs make shows up here, for as long as it is kept."}<//>`)}
    ${jobs && (cursor || state.data.next_cursor) && html`<nav class="pages" aria-label="Pages">
      ${cursor && html`<a class="button" href=${href(["assets"], { type: kind })}>Newest</a>`}
      ${state.data.next_cursor && html`<a class="button" href=${href(["assets"], { type: kind, cursor: state.data.next_cursor })}>Older</a>`}</nav>`}
    ${shown && html`<${OutputDialog} ...${shown} close=${() => show(null)} />`}
  </main>`;
}
