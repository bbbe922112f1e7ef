// Visits the web page as somebody who was never here: looks at what opens, runs it, opens the templates, a workflow that lacks
// something, the account and About, and comes back as a second browser of the same account. With a key, it signs in first, and
// signs out at the end.
//
// Arguments: the server's address, a picture (not used), a file for the screenshots' names, and a key or nothing. Prints one
// JSON object. `EASEL_PLAYWRIGHT` is a folder with node_modules/playwright-core, `EASEL_CHROMIUM` the browser.
import { createRequire } from "node:module";
import path from "node:path";

const [address, , screenshot, key] = process.argv.slice(2);
const require = createRequire(path.join(process.env.EASEL_PLAYWRIGHT, "package.json"));
const { chromium } = require("playwright-core");

const browser = await chromium.launch({
  executablePath: process.env.EASEL_CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu"],
});
// Everything that went wrong in any window: errors of scripts, errors in the console, refused requests, other servers.
const told = { errors: [], refused: [], outside: [] };

async function visitor() {
  const context = await browser.newContext({ viewport: { width: 1600, height: 1000 } });
  const page = await context.newPage();
  page.setDefaultTimeout(300_000);
  page.on("pageerror", (error) => told.errors.push(String(error)));
  page.on("console", (line) => line.type() === "error" && told.errors.push(`${line.text()} ${line.location().url}`));
  page.on("response", (answer) => {
    if (answer.status() >= 400) told.refused.push(`${answer.status()} ${answer.url()}`);
  });
  // The page looks up what a node pack is called; nothing but this server is part of the test.
  await page.route((url) => url.host !== address, (route) => {
    told.outside.push(new URL(route.request().url()).host);
    return route.fulfill({ status: 200, contentType: "application/json", body: "{}", headers: { "Access-Control-Allow-Origin": "*" } });
  });
  return page;
}

async function signIn(page) {
  await page.goto(`http://${address}/`);
  if (!key) return;
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForURL((url) => !url.pathname.endsWith("/signin"));
}

// The graph on the canvas, once there is one.
async function shown(page) {
  await page.waitForFunction(() => window.app?.graph?.nodes?.length > 0);
  return page.evaluate(() => window.app.graph.nodes.map((node) => ({ type: node.type, missing: !(node.type in window.LiteGraph.registered_node_types) })));
}

const shot = (page, name) => page.screenshot({ path: screenshot.replace(/\.png$/, `-${name}.png`) });

const page = await visitor();
await signIn(page);
told.first = await shown(page);
await page.waitForFunction(() => location.search === "");
await shot(page, "first");

// Run, and the picture is in the node.
await page.getByRole("button", { name: "Run", exact: true }).click();
await page.waitForFunction(() => window.app.graph.nodes.find((node) => node.type === "SaveImage").imgs?.some((image) => image.naturalWidth > 0));
told.painted = await page.evaluate(() => {
  const image = window.app.graph.nodes.find((node) => node.type === "SaveImage").imgs[0];
  return { width: image.naturalWidth, height: image.naturalHeight };
});
await shot(page, "ran");

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
await page.keyboard.press("Escape");

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
const second = await visitor();
await signIn(second);
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
console.log(JSON.stringify(told));
await browser.close();
