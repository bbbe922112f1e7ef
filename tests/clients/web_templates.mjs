// Runs the official templates of the web page in headless Chromium: loads each one whose classes are all known here, runs it with
// the page's own code and waits for its result. Where its card says that it needs files, it is refused first, and runs once files of
// these names are there.
//
// Arguments: the server's address, a picture that stands for the pictures of templates, a file for the screenshot, and what the
// names of templates begin with, if not all are wanted. Prints one JSON object: the templates that ran, the files that were chosen
// for them, those that the page complained about when it had loaded their graphs, and for every other one the classes that are not
// known here.
import { readFileSync } from "node:fs";
import { stands, start, wasHere } from "./page.mjs";

const [address, picture, screenshot, prefix = ""] = process.argv.slice(2);

// The files that the card of the template at hand names, and of all before: the page looks for them, and Run is refused.
let named = [];
const absent = new Set();
const isExpected = (url) => {
  if (!URL.canParse(url)) return false;
  const { pathname, searchParams } = new URL(url);
  return pathname === "/api/view" ? absent.has(searchParams.get("filename")) : pathname === "/api/prompt" && named.length > 0;
};

const { told, open, end } = await start(address, isExpected);
Object.assign(told, { ran: {}, chosen: {}, complained: {}, lacking: {} });
const page = await open();
await wasHere(page, `http://${address}`);
await page.goto(`http://${address}/`);
await stands(page);

// How each run ended, as the page hears it.
await page.evaluate(() => {
  window.ended = {};
  for (const kind of ["execution_success", "execution_error", "execution_interrupted"]) {
    window.app.api.addEventListener(kind, ({ detail }) => (window.ended[detail.prompt_id] = kind));
  }
});

const get = async (name) => (await page.request.get(`http://${address}/${name}`)).json();
const known = new Set(Object.keys(await get("api/object_info")));
// What the page draws itself.
for (const drawn of ["Note", "MarkdownNote", "Reroute", "PrimitiveNode"]) known.add(drawn);

const buffer = readFileSync(picture);
const upload = (name) => page.request.post(`http://${address}/api/upload/image`, {
  multipart: { image: { name, mimeType: "image/png", buffer } },
});

// Every class of a template, those inside of its subgraphs too.
const classes = (template) => {
  const subgraphs = template.definitions?.subgraphs ?? [];
  const own = new Set(subgraphs.map((subgraph) => subgraph.id));
  const nodes = [template, ...subgraphs].flatMap((graph) => graph.nodes ?? []);
  return [...new Set(nodes.map((node) => node.type))].filter((type) => !own.has(type));
};

const groups = await get("templates/index.json");
const listed = new Map(groups.flatMap((group) => group.templates.map((template) => [template.name, template])));
const names = [...listed.keys()].filter((name) => name.startsWith(prefix));
told.templates = names.length;
for (const name of names) {
  const answer = await page.request.get(`http://${address}/templates/${encodeURIComponent(name)}.json`);
  if (!answer.ok()) {
    told.lacking[name] = null;
    continue;
  }
  const template = await answer.json();
  const lacking = classes(template).filter((type) => !known.has(type));
  if (lacking.length) {
    told.lacking[name] = lacking;
    continue;
  }
  const { tags, description } = listed.get(name);
  named = tags[0] === "Needs your files" ? /in place of (.*?)\. /.exec(description)[1].split(", ") : [];
  for (const file of named) absent.add(file);
  const complaint = await page.evaluate(
    // What fails after the graph stands does not keep anybody from running it.
    (template) => window.app.loadGraphData(template).then(() => null, String),
    template,
  );
  const submit = () => page.evaluate(async () => {
    const { app } = window;
    const { output } = await app.graphToPrompt();
    const body = JSON.stringify({ prompt: output, client_id: app.api.clientId });
    const headers = { "content-type": "application/json" };
    return (await fetch("/api/prompt", { method: "POST", headers, body })).json();
  });
  let answered = await submit();
  if (!answered.prompt_id && named.length > 0) {
    told.chosen[name] = named;
    for (const file of named) await upload(file);
    answered = await submit();
  }
  if (complaint) told.complained[name] = complaint;
  told.ran[name] = answered;
  const id = told.ran[name].prompt_id;
  if (!id) continue;
  await page.waitForFunction((id) => window.ended[id], id);
  const { status, outputs } = (await get(`api/history/${id}`))[id];
  told.ran[name] = { status: status.status_str, outputs: Object.keys(outputs).length, refused: answered.node_errors };
}
await page.screenshot({ path: screenshot });
await end();
