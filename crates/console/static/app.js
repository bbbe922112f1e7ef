// The frame of the console: where one is, where one can go, and who is signed in.
import { render } from "./vendor/preact.js";
import { useEffect, useRef, useState } from "./vendor/hooks.js";
import { Dialog, Empty, Icon, moveInRows } from "./parts.js";
import { go, has, href, html, key, route, signIn } from "./kit.js";
import { Overview } from "./overview.js";
import { Jobs } from "./jobs.js";
import { Job } from "./job.js";
import { Assets } from "./assets.js";
import { Model, Models } from "./models.js";
import { Calls, Usage } from "./usage.js";
import { Deployment, Deployments } from "./deployments.js";
import { PublishedModel, PublishedModels } from "./published.js";
import { Account, Accounts, Settings, Webhook, Webhooks, Workers } from "./operate.js";

const VIEWS = [
  { id: "", icon: "overview", name: "Overview", letter: "o", shown: true },
  { id: "jobs", icon: "jobs", name: "Jobs", letter: "j", shown: has("workflows") },
  { id: "assets", icon: "assets", name: "Assets", letter: "a", shown: has("workflows") },
  { id: "models", icon: "models", name: "Models", letter: "m", shown: has("models") },
  { id: "calls", icon: "calls", name: "Calls", letter: "c", shown: has("models") },
  { id: "usage", icon: "usage", name: "Usage", letter: "u", shown: has("models") },
  { id: "accounts", icon: "accounts", name: "Accounts", letter: "t", shown: true, first: true },
  { id: "webhooks", icon: "webhooks", name: "Webhooks", letter: "h", shown: true },
  { id: "workers", icon: "workers", name: "Workers", letter: "w", shown: has("workflows") },
  { id: "deployments", icon: "deployments", name: "Deployments", letter: "d", shown: has("workflows") },
  { id: "published", icon: "published", name: "Published models", letter: "p", shown: has("workflows") && has("models") },
  { id: "settings", icon: "settings", name: "Settings", letter: "s", shown: true },
].filter((view) => view.shown);

const KEYS = [[`g then ${VIEWS.map((view) => view.letter).join(", ")}`, "Go to a view"], ["j, k", "Next and previous row"], ["Enter", "Open the row"], ["/", "Filter jobs"], ["Escape", "Close a dialog"], ["?", "This list"]];

function View() {
  const { path } = route.value;
  const [view, ...rest] = path;
  if (!VIEWS.some((it) => it.id === (view ?? ""))) return html`<main><${Empty} title="There is no such view">This server has no view at this address.<//></main>`;
  if (view === "jobs") return rest[0] ? html`<${Job} key=${rest[0]} id=${rest[0]} />` : html`<${Jobs} />`;
  if (view === "assets") return html`<${Assets} />`;
  if (view === "models") return rest.length === 2 ? html`<${Model} key=${rest.join("/")} provider=${rest[0]} model=${rest[1]} />` : html`<${Models} />`;
  if (view === "calls") return html`<${Calls} />`;
  if (view === "usage") return html`<${Usage} />`;
  if (view === "accounts") return rest[0] ? html`<${Account} key=${rest[0]} id=${rest[0]} />` : html`<${Accounts} />`;
  if (view === "webhooks") return rest[0] ? html`<${Webhook} key=${rest[0]} id=${rest[0]} />` : html`<${Webhooks} />`;
  if (view === "workers") return html`<${Workers} />`;
  if (view === "deployments") return rest[0] ? html`<${Deployment} key=${rest[0]} name=${rest[0]} />` : html`<${Deployments} />`;
  if (view === "published") return rest.length === 2 ? html`<${PublishedModel} key=${rest.join("/")} provider=${rest[0]} model=${rest[1]} />` : html`<${PublishedModels} />`;
  if (view === "settings") return html`<${Settings} />`;
  return html`<${Overview} />`;
}

function App() {
  const [help, setHelp] = useState(false);
  const after = useRef(0);
  const here = route.value.path[0] ?? "";
  useEffect(() => {
    const onKey = (event) => {
      if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      if (event.key === "?") setHelp(true);
      else if (event.key === "g") after.current = Date.now();
      else if (Date.now() - after.current < 1500) {
        const view = VIEWS.find((it) => it.letter === event.key);
        after.current = 0;
        if (view) { go([view.id].filter(Boolean)); event.preventDefault(); return; }
      }
      moveInRows(event);
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  // A screen reader and the tab's title hear of a new view.
  const title = [...route.value.path.slice(1), VIEWS.find((it) => it.id === here)?.name].filter(Boolean).join(" / ");
  useEffect(() => { document.title = title ? `${title} · Easel` : "Easel"; }, [title]);
  useEffect(() => { scrollTo(0, 0); }, [route.value.path.join("/")]);
  return html`<div class="app">
    <nav aria-label="Views"><a class="skip" href=${location.hash} onClick=${(event) => { event.preventDefault(); const main = document.querySelector("main"); main.tabIndex = -1; main.focus(); }}>To the content</a>
      <a class="brand" href=${href([])}><img src="icon.svg" alt="" width="20" height="20" />Easel</a>
      <ul>${VIEWS.map((view) => html`<li class=${view.first ? "first" : undefined}><a href=${href([view.id].filter(Boolean))} aria-current=${here === view.id ? "page" : undefined}><${Icon} name=${view.icon} />${view.name}</a></li>`)}</ul>
      <div class="foot">${key.value && html`<button class="quiet" onClick=${() => signIn("")}>Sign out</button>`}<a class="button quiet" href="../docs/">API reference</a><button class="quiet" onClick=${() => setHelp(true)}>Keys <kbd aria-hidden="true">?</kbd></button></div></nav>
    <${View} />
    ${help && html`<${Dialog} title="Keys" close=${() => setHelp(false)}><dl class="keys">${KEYS.map(([keys, what]) => html`<div><dt>${keys}</dt><dd>${what}</dd></div>`)}</dl><//>`}
  </div>`;
}

render(html`<${App} />`, document.body);
