// Drives the unmodified web page in headless Chromium: boots, lists classes, loads a picture through the page's own
// upload, runs a graph with its Run button, and waits until the page shows the result in the node and the job in its queue
// panel.
//
// Arguments: the server's address, a picture, a file for the screenshot, and a key to sign in with or nothing. Prints one
// JSON object. `EASEL_PLAYWRIGHT` is a folder with node_modules/playwright-core, `EASEL_CHROMIUM` the browser.
import { createRequire } from "node:module";
import path from "node:path";

const [address, picture, screenshot, key] = process.argv.slice(2);
const require = createRequire(path.join(process.env.EASEL_PLAYWRIGHT, "package.json"));
const { chromium } = require("playwright-core");

const browser = await chromium.launch({
  executablePath: process.env.EASEL_CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu"],
});
const page = await browser.newPage({ viewport: { width: 1600, height: 1000 } });
page.setDefaultTimeout(300_000);
const told = { errors: [] };
page.on("pageerror", (error) => told.errors.push(String(error)));
// Nothing but this server is part of the test.
await page.route((url) => url.host !== address, (route) => route.abort());

// A first visitor is shown templates once; this one was here before. The settings stand before the page asks for them: a first visit
// would go on opening its template into the graph that is drawn here.
async function wasHere() {
  const settings = await page.request.post(`http://${address}/api/settings`, {
    data: { "Comfy.TutorialCompleted": true, "Comfy.InstalledVersion": "1.58.1" },
  });
  told.settings = settings.status();
}
if (key) {
  await page.goto(`http://${address}/`);
  await page.getByLabel("API key").fill(key);
  await page.route(`http://${address}/`, async (route) => (await wasHere(), route.continue()), { times: 1 });
  await page.getByRole("button", { name: "Sign in" }).click();
} else {
  await wasHere();
  await page.goto(`http://${address}/`);
}
// The page draws a graph of its own once: after that, what is drawn here stays.
await page.waitForFunction(() => window.app?.graph?.nodes?.length > 0);
told.classes = await page.evaluate(() => Object.keys(window.LiteGraph.registered_node_types).length);
const run = page.getByRole("button", { name: "Run", exact: true });
await run.waitFor();

// A graph as a person would draw it.
await page.evaluate(() => {
  const { app, LiteGraph } = window;
  app.graph.clear();
  const [load, invert, save] = ["LoadImage", "ImageInvert", "SaveImage"].map((name, place) => {
    const node = LiteGraph.createNode(name);
    app.graph.add(node);
    node.pos = [80 + place * 380, 140];
    return node;
  });
  load.connect(0, invert, 0);
  invert.connect(0, save, 0);
  window.drawn = { load, invert, save };
});
// The node's own upload button.
const choosing = page.waitForEvent("filechooser");
await page.evaluate(() => window.drawn.load.widgets.find((widget) => widget.name === "upload").callback());
await (await choosing).setFiles(picture);
const loaded = () => window.drawn.load.widgets.find((widget) => widget.name === "image").value;
await page.waitForFunction(
  (name) => window.drawn.load.widgets.find((widget) => widget.name === "image").value === name,
  path.basename(picture),
);
told.loaded = await page.evaluate(loaded);

await run.click();
// The picture is really painted in the node.
await page.waitForFunction(() => window.drawn.save.imgs?.some((image) => image.naturalWidth > 0));
told.painted = await page.evaluate(() => {
  const image = window.drawn.save.imgs.find((image) => image.naturalWidth > 0);
  const asked = new URL(image.src).searchParams;
  return { filename: asked.get("filename"), width: image.naturalWidth, height: image.naturalHeight };
});
// The job in the panel, as a person opens it.
await page.getByRole("button", { name: /\bactive\b/ }).first().click();
const row = page.locator("[data-job-id]").filter({ hasText: told.painted.filename });
await row.waitFor();
told.row = await row.innerText();
told.job = await row.getAttribute("data-job-id");
await page.screenshot({ path: screenshot });
console.log(JSON.stringify(told));
await browser.close();
