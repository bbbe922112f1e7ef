// Drives the unmodified web page in headless Chromium: boots, lists classes, loads a picture through the page's own
// upload, runs a graph with its Run button, and waits until the page shows the result in the node, the job in its queue panel
// and a line of it in its panel of logs, which was open before.
//
// Arguments: the server's address, a picture, a file for the screenshot, and a key to sign in with or nothing. Prints one
// JSON object.
import path from "node:path";
import { run, signIn, stands, start, wasHere } from "./page.mjs";

const [address, picture, screenshot, key] = process.argv.slice(2);

const { told, open, end } = await start(address);
const page = await open();

told.here = await wasHere(page, `http://${address}`, key);
await page.goto(`http://${address}/`);
if (key) await signIn(page, key);
await stands(page);
told.classes = await page.evaluate(() => Object.keys(window.LiteGraph.registered_node_types).length);

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

// The panel of logs, open before there is anything to tell.
const subscribed = page.waitForResponse((answer) => answer.url().endsWith("/internal/logs/subscribe"));
await page.evaluate(() => window.app.extensionManager.command.execute("Workspace.ToggleBottomPanelTab.logs-terminal"));
told.subscribed = (await subscribed).status();

await run(page).click();
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
// The panel of logs tells of it, too.
const line = page.locator(".xterm-rows > div").filter({ hasText: told.job }).first();
await line.waitFor();
told.log = await line.innerText();
await page.screenshot({ path: screenshot });
await end();
