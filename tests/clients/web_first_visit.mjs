// Visits the web page as somebody who was never here: looks at what opens, runs it, opens the templates, a workflow that lacks
// something, the account and About, and comes back as a second browser of the same account. With a key, it signs in first, and
// signs out at the end.
//
// Arguments: the server's address, a picture (not used), a file for the screenshots' names, and a key or nothing. Prints one
// JSON object.
import { run, signIn, stands, start } from "./page.mjs";

const [address, , screenshot, key] = process.argv.slice(2);

const { told, open, end } = await start(address);

async function visit() {
  const page = await open();
  await page.goto(`http://${address}/`);
  if (key) await signIn(page, key);
  return page;
}

// The graph on the canvas, once there is one.
async function shown(page) {
  await stands(page);
  return page.evaluate(() => window.app.graph.nodes.map((node) => ({ type: node.type, missing: !(node.type in window.LiteGraph.registered_node_types) })));
}

const shot = (page, name) => page.screenshot({ path: screenshot.replace(/\.png$/, `-${name}.png`) });

const page = await visit();
told.first = await shown(page);
await page.waitForFunction(() => location.search === "");
await shot(page, "first");

// Run, and the picture is in the node.
await run(page).click();
await page.waitForFunction(() => window.app.graph.nodes.find((node) => node.type === "SaveImage").imgs?.some((image) => image.naturalWidth > 0));
told.painted = await page.evaluate(() => {
  const image = window.app.graph.nodes.find((node) => node.type === "SaveImage").imgs[0];
  return { width: image.naturalWidth, height: image.naturalHeight };
});
await shot(page, "ran");

// Every panel of the sidebar opens.
const panels = page.locator(".side-bar-panel");
const titles = { "Assets (a)": "Media Assets", "Node Library (n)": "Nodes", "Model Library (m)": "Model Library", "Workflows (w)": "Workflows", Apps: "Apps" };
for (const [button, title] of Object.entries(titles)) {
  await page.getByRole("button", { name: button, exact: true }).click();
  await panels.getByText(title, { exact: true }).first().waitFor();
}
await page.getByRole("button", { name: "Apps", exact: true }).click();
await panels.getByText("Apps", { exact: true }).first().waitFor({ state: "hidden" });

// Somebody who looks for a class that is not here learns where it would come from.
await page.evaluate(() => window.app.extensionManager.command.execute("Workspace.SearchBox.Toggle"));
await page.keyboard.type("UNETLoader");
const nothing = page.getByTestId("no-results");
await nothing.waitFor();
told.search = await nothing.innerText();
await page.keyboard.press("Escape");
await nothing.waitFor({ state: "hidden" });

// The templates: those that run come first, and every card says what it needs.
await page.evaluate(() => window.app.extensionManager.command.execute("Comfy.BrowseTemplates"));
const cards = page.locator("[data-testid^=template-workflow-]");
await cards.first().waitFor();
told.cards = (await cards.evaluateAll((cards) => cards.map((card) => [card.dataset.testid.replace("template-workflow-", ""), card.innerText]))).slice(0, 8);
await shot(page, "templates");
// Its filter of tags leaves those that run.
await page.getByText("Tasks", { exact: true }).first().click();
await page.getByRole("option", { name: "Runs here" }).first().click();
await page.waitForFunction(() => {
  const shown = [...document.querySelectorAll("[data-testid^=template-workflow-]")];
  return shown.length > 0 && shown.every((card) => card.innerText.includes("Runs here"));
});
told.filtered = await cards.evaluateAll((cards) => cards.map((card) => card.dataset.testid.replace("template-workflow-", "")));
await shot(page, "filtered");
// The menu first, then the window.
await page.keyboard.press("Escape");
await page.getByRole("option", { name: "Runs here" }).waitFor({ state: "hidden" });
await page.keyboard.press("Escape");
await cards.first().waitFor({ state: "hidden" });

// A workflow that lacks something says what, before it is run.
const index = await (await page.request.get(`http://${address}/templates/index.json`)).json();
told.index = index.flatMap((group) => group.templates.map(({ name, tags }) => [name, tags?.[0]]));
const lacking = told.index.find(([, tag]) => tag === "Needs a model")[0];
await page.evaluate(async (name) => window.app.loadGraphData(await (await fetch(`/templates/${name}.json`)).json()), lacking);
const message = page.getByTestId("toast").filter({ hasText: "This workflow does not run here yet" });
await message.waitFor();
told.toast = await message.innerText();
await page.getByRole("button", { name: "View details" }).click();
await page.getByText("Connect one, or replace the nodes").first().waitFor();
told.lacking = await page.evaluate(() => document.body.innerText);
await shot(page, "lacking");

// Nodes that do not run here say why on the canvas.
told.badges = await page.evaluate(async (types) => {
  const { app } = window;
  const node = (type, place) => ({ id: place + 1, type, pos: [100 + place * 400, 300], size: [300, 300], flags: {}, mode: 0, inputs: [], outputs: [], properties: {} });
  await app.loadGraphData({ version: 0.4, nodes: types.map(node), links: [] });
  const texts = ({ badges }) => (badges ?? []).map((badge) => (typeof badge === "function" ? badge() : badge).text);
  return app.graph.nodes.map((node) => [node.type, texts(node)]);
}, ["KSampler", "SplatToMesh", "NoSuchClass", "ImageInvert"]);
await shot(page, "badges");

// Account and About.
await page.getByRole("button", { name: "Account and credits" }).click();
told.account = await page.getByRole("dialog", { name: "Account" }).innerText();
await shot(page, "account");
await page.getByRole("dialog", { name: "Account" }).getByRole("button", { name: "Close" }).click();
await page.evaluate(() => window.app.extensionManager.command.execute("Comfy.ShowSettingsDialog"));
await page.getByText("About", { exact: true }).first().click();
const about = page.getByTestId("about-panel");
await about.waitFor();
told.about = await about.innerText();
await shot(page, "about");

// A second browser of the account opens a graph that runs, too.
const second = await visit();
told.second = await shown(second);
await shot(second, "second");

if (key) {
  await second.getByRole("button", { name: "Account and credits" }).click();
  await second.getByRole("button", { name: "Sign out" }).click();
  await second.waitForURL(`http://${address}/signin`);
  // The first browser has a session of its own. Once that is gone, the next thing that it asks for leads to the sign-in.
  const before = told.refused.length;
  await page.keyboard.press("Escape");
  told.signed_in = await page.evaluate(async () => (await window.app.api.fetchApi("/queue")).status);
  await page.context().clearCookies();
  await page.evaluate(() => window.app.api.fetchApi("/queue").catch(() => {}));
  await page.waitForURL(`http://${address}/signin`);
  // Those refusals are what the test is about.
  told.refused.splice(before);
  told.errors = told.errors.filter((error) => !error.includes("401"));
}
await page.screenshot({ path: screenshot });
await end();
