// The frame of the console: where one is, where one can go, and who is signed in.
import { render } from "./vendor/preact.js";
import { useEffect, useRef, useState } from "./vendor/hooks.js";
import { Dialog, Empty, Icon, Instead, moveInRows } from "./parts.js";
import { Failure, go, has, href, html, key, route, signIn, useRead } from "./kit.js";

// `all` and `one` are a file and what it has: the view of everything, and that of the thing whose `parts` the address goes on with.
const VIEWS = [
  { id: "", name: "Overview", letter: "o", all: ["overview", "Overview"], shown: true },
  { id: "jobs", name: "Jobs", letter: "j", all: ["jobs", "Jobs"], one: ["job", "Job"], shown: has("workflows") },
  { id: "assets", name: "Assets", letter: "a", all: ["assets", "Assets"], shown: has("workflows") },
  { id: "models", name: "Models", letter: "m", all: ["models", "Models"], one: ["models", "Model"], parts: 2, shown: has("models") },
  { id: "calls", name: "Calls", letter: "c", all: ["usage", "Calls"], shown: has("models") },
  { id: "usage", name: "Usage", letter: "u", all: ["usage", "Usage"], shown: has("models") },
  { id: "accounts", name: "Accounts", letter: "t", all: ["operate", "Accounts"], one: ["operate", "Account"], shown: true, first: true },
  { id: "webhooks", name: "Webhooks", letter: "h", all: ["operate", "Webhooks"], one: ["operate", "Webhook"], shown: true },
  { id: "workers", name: "Workers", letter: "w", all: ["operate", "Workers"], shown: has("workflows") },
  { id: "deployments", name: "Deployments", letter: "d", all: ["deployments", "Deployments"], one: ["deployments", "Deployment"], shown: has("workflows") },
  { id: "published", name: "Published models", letter: "p", all: ["published", "PublishedModels"], one: ["published", "PublishedModel"], parts: 2, shown: has("workflows") && has("models") },
  { id: "settings", name: "Settings", letter: "s", all: ["operate", "Settings"], shown: true },
].filter((view) => view.shown);

const KEYS = [[`g then ${VIEWS.map((view) => view.letter).join(", ")}`, "Go to a view"], ["j, k", "Next and previous row"], ["Enter", "Open the row"], ["/", "Filter jobs"], ["Escape", "Close a dialog"], ["?", "This list"]];

// A file of views is read when one of them is first looked at.
const files = {};
const read = async (file) => {
  try { return files[file] ??= await import(`./${file}.js`); } catch { throw new Failure("This view could not be read. Reload the page."); }
};

function Loaded({ file, name, path }) {
  const state = useRead(() => read(file), [file]);
  const Found = files[file]?.[name];
  return Found ? html`<${Found} path=${path} />` : html`<main><${Instead} state=${state} /></main>`;
}

function View() {
  const [id = "", ...path] = route.value.path;
  const view = VIEWS.find((it) => it.id === id);
  if (!view) return html`<main><${Empty} title="There is no such view">This server has no view at this address.<//></main>`;
  const [file, name] = path.length === (view.parts ?? 1) && view.one || view.all;
  return html`<${Loaded} key=${[file, name, ...path].join("/")} file=${file} name=${name} path=${path} />`;
}

const icon = document.querySelector("link[rel=icon]").href;

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
  // The files of the other views are read once the first one had its turn, so that they stand at once.
  useEffect(() => {
    const timer = setTimeout(() => { for (const { all, one = all } of VIEWS) for (const [file] of [all, one]) read(file).catch(() => {}); }, 1000);
    return () => clearTimeout(timer);
  }, []);
  return html`<div class="app">
    <nav aria-label="Views"><a class="skip" href=${location.hash} onClick=${(event) => { event.preventDefault(); const main = document.querySelector("main"); main.tabIndex = -1; main.focus(); }}>To the content</a>
      <a class="brand" href=${href([])}><img src=${icon} alt="" width="20" height="20" />Easel</a>
      <ul>${VIEWS.map((view) => html`<li class=${view.first ? "first" : undefined}><a href=${href([view.id].filter(Boolean))} aria-current=${here === view.id ? "page" : undefined}><${Icon} name=${view.id || "overview"} />${view.name}</a></li>`)}</ul>
      <div class="foot">${key.value && html`<button class="quiet" onClick=${() => signIn("")}>Sign out</button>`}<a class="button quiet" href="../docs/">API reference</a><button class="quiet" onClick=${() => setHelp(true)}>Keys <kbd aria-hidden="true">?</kbd></button></div></nav>
    <${View} />
    ${help && html`<${Dialog} title="Keys" close=${() => setHelp(false)}><dl class="keys">${KEYS.map(([keys, what]) => html`<div><dt>${keys}</dt><dd>${what}</dd></div>`)}</dl><//>`}
  </div>`;
}

render(html`<${App} />`, document.body);
