// Published models, for operators: which workflows are models, what each takes and costs, its versions, and taking them back.
import { Age, Copy, Empty, Icon, Instead, State } from "./parts.js";
import { askJson, href, html, money, useRead, useWhileVisible } from "./kit.js";
import { Facts, Older, Table, at, useChange, usePage } from "./operate.js";

const price = (it) => (it.price_cents === null ? "–" : money(it.price_cents));
const offered = (it) => (it.version === null ? "none" : `version ${it.version}`);

export function PublishedModels() {
  const state = usePage(at("models"), 5000);
  const all = state.data?.models;
  return html`<main><header class="top"><h1>Published models</h1></header><${Instead} state=${state} what="operating the server" />
    ${all && (all.length ? html`<${Table} caption="Published models" names=${["Model", "State", "Offered", "Price", "Fields", "Versions"]}>${all.map((it) => html`<tr key=${it.id}>
      <td class="main"><a data-row href=${href(["published", ...it.id.split("/")])}>${it.id}</a></td><td><${State} state=${it.state} /></td><td>${offered(it)}</td><td>${price(it)}</td><td class="cut">${it.inputs.join(", ")}</td><td>${it.versions.length}</td></tr>`)}<//>
      <${Older} next=${state.data.next_cursor} path=${["published"]} />`
      : html`<${Empty} title="No published models"><code>model publish GRAPH.json --name NAME</code> makes a model of a workflow.<//>`)}</main>`;
}

export function PublishedModel({ path: [provider, model] }) {
  const id = `${provider}/${model}`;
  const path = at("models", provider, model);
  const state = useRead((signal) => askJson(path, { signal }), [id]);
  const [change, problem, busy] = useChange(state.reload);
  useWhileVisible(state.reload, 5000);
  const it = state.data;
  const current = it?.versions.filter((one) => !one.withdrawn_at) ?? [];
  const withdraw = (version) => {
    const what = version ? `version ${version} of ${id}` : `${id} with all of its versions`;
    if (confirm(`Withdraw ${what}? New calls of it are refused; running calls continue.`)) change(version ? `${path}?version=${version}` : path, { method: "DELETE" });
  };
  return html`<main><header class="top"><a class="back" href=${href(["published"])} aria-label="All published models"><${Icon} name="back" /></a><h1><span class="muted">${provider} /</span> ${model}</h1><${Copy} text=${id} label="Copy the model's id" />
    ${it && html`<div class="actions">${it.state === "offered" && html`<a class="button" href=${href(["models", provider, model])}>Call it</a>`}<button disabled=${busy || !current.length} onClick=${() => withdraw()}>Withdraw</button></div>`}</header>
    <${Instead} state=${state} what="operating the server" />${problem}
    ${it && html`<section><h2>Model</h2><${Facts} facts=${[["State", html`<${State} state=${it.state} />`], ["Offered", offered(it)], ["Price of a call", price(it)], ["Fields", it.inputs.join(", ")]]} /></section>
      <section><h2>Versions</h2><${Table} caption="Versions" names=${["Version", "Called alone as", "Calls", "Published", "Withdrawn", ""]}>${it.versions.toReversed().map((one) => html`<tr key=${one.version}><td>${one.version}${one.version === it.version ? " (offered)" : ""}</td>
        <td class="mono">${one.id}</td><td class="cut">${one.calls.join(", ") || "no model"}</td><td><${Age} time=${one.published_at} /></td><td>${one.withdrawn_at ? html`<${Age} time=${one.withdrawn_at} />` : "no"}</td>
        <td class="number">${!one.withdrawn_at && html`<button data-row disabled=${busy} aria-label=${`Withdraw version ${one.version}`} onClick=${() => withdraw(one.version)}>Withdraw</button>`}</td></tr>`)}<//></section>
      ${it.schema && html`<section><h2>Schema of a call</h2><div class="code-box"><${Copy} text=${JSON.stringify(it.schema, null, 2)} label="Copy the schema" /><pre tabindex="0">${JSON.stringify(it.schema, null, 2)}</pre></div></section>`}`}</main>`;
}
