// Samples on the web page of a server with ComfyUI workers: which models its menus and its model library offer, and what the node
// shows while it samples.
//
// Arguments: the server's address, a picture (not used), and a file for the screenshot. Prints one JSON object.
import { stands, start } from "./page.mjs";

const [address, , screenshot] = process.argv.slice(2);

// As with ComfyUI, a model that has no picture is looked for in vain.
const { told, open, end } = await start(address, (url) => url.includes("/api/experiment/models/preview/"));
const page = await open();
await page.goto(`http://${address}/`);
await stands(page);
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
await end();
