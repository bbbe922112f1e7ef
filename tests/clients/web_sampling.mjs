// Samples on the web page of a server with ComfyUI workers: which models its menus and its model library offer, and what the node
// shows while it samples.
//
// Arguments: the server's address, a picture (not used), and a file for the screenshot. Prints one JSON object.
import { createRequire } from "node:module";
import path from "node:path";

const [address, , screenshot] = process.argv.slice(2);
const require = createRequire(path.join(process.env.EASEL_PLAYWRIGHT, "package.json"));
const { chromium } = require("playwright-core");

const browser = await chromium.launch({
  executablePath: process.env.EASEL_CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu"],
});
const page = await browser.newPage({ viewport: { width: 1600, height: 1000 } });
page.setDefaultTimeout(300_000);
const told = { errors: [], refused: [] };
page.on("pageerror", (error) => told.errors.push(String(error)));
// As with ComfyUI, a model that has no picture is looked for in vain.
const is_picture = (url) => url.includes("/api/experiment/models/preview/");
page.on("console", (line) => {
  const url = line.location().url;
  if (line.type() === "error" && !is_picture(url)) told.errors.push(`${line.text()} ${url}`);
});
page.on("response", (answer) => {
  if (answer.status() >= 400 && !is_picture(answer.url())) told.refused.push(`${answer.status()} ${answer.url()}`);
});
// Nothing but this server is part of the test.
await page.route((url) => url.host !== address, (route) => route.abort());
await page.goto(`http://${address}/`);
await page.waitForFunction(() => window.app?.graph?.nodes?.length > 0 && location.search === "");
told.menu = await page.evaluate(() => {
  const { app, LiteGraph } = window;
  app.graph.clear();
  const nodes = ["CheckpointLoaderSimple", "Sampler", "Decode", "SaveImage"].map((type, at) => {
    const node = LiteGraph.createNode(type);
    app.graph.add(node);
    node.pos = [420 + at * 280, 200];
    return node;
  });
  const [loader, sampler, , save] = nodes;
  const set = (node, name, value) => (node.widgets.find((widget) => widget.name === name).value = value);
  set(loader, "ckpt_name", "a.safetensors");
  set(sampler, "steps", 20);
  set(save, "filename_prefix", "page");
  nodes.slice(1).forEach((node, at) => nodes[at].connect(0, node, 0));
  window.sampler = sampler;
  window.saved = () => app.nodeOutputs[save.id]?.images?.[0]?.filename;
  return loader.widgets[0].options.values;
});

// The library asks for the files of a folder when somebody opens it.
await page.keyboard.press("m");
const folder = page.getByText("checkpoints", { exact: true });
await folder.click();
const files = page.getByText(/^[ab](\.safetensors)?$/);
await files.nth(1).waitFor();
told.library = await files.allInnerTexts();

await page.evaluate(() => void window.app.queuePrompt(0));
const preview = await page.waitForFunction(() => {
  const [image] = window.sampler.imgs ?? [];
  const is_there = image?.src.startsWith("blob:") && image.naturalWidth > 0 && window.sampler.progress > 0;
  return is_there && { width: image.naturalWidth, height: image.naturalHeight };
});
told.preview = await preview.jsonValue();
await page.screenshot({ path: screenshot });
told.saved = await (await page.waitForFunction(() => window.saved())).jsonValue();
console.log(JSON.stringify(told));
await browser.close();
