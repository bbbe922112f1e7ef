// Runs a partner node from the web page: signs in with a key of this server, draws the node and one that saves its picture,
// presses Run, and looks at the account's credits before and after. Then it draws a node of every partner class and reads the
// price that the page paints on it, and one of the class with other values.
//
// Arguments: the server's address, a picture (not used), a file for the screenshot, the key, the class of the node, and values of
// its widgets as JSON. Prints one JSON object.
import { run, signIn, stands, start } from "./page.mjs";

const [address, , screenshot, key, name, values] = process.argv.slice(2);

const { told, open, end } = await start(address);
const page = await open();
// What the page paints on its canvas is nowhere in its document.
await page.addInitScript(() => {
  window.painted = new Set();
  const { fillText } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...where) {
    window.painted.add(String(text));
    return fillText.call(this, text, ...where);
  };
});

// The server is open to this machine, and still a key says whose account pays.
await page.goto(`http://${address}/signin`);
await signIn(page, key);
await stands(page);

async function account() {
  await page.getByRole("button", { name: "Account and credits" }).click();
  const dialog = page.getByRole("dialog", { name: "Account" });
  const text = await dialog.innerText();
  await dialog.getByRole("button", { name: "Close" }).click();
  return text;
}

told.before = await account();
await page.evaluate((name) => {
  const { app, LiteGraph } = window;
  app.graph.clear();
  const [call, save] = [name, "SaveImage"].map((type, place) => {
    const node = LiteGraph.createNode(type);
    app.graph.add(node);
    node.pos = [80 + place * 480, 140];
    return node;
  });
  call.widgets.find((widget) => widget.name === "prompt").value = "a cat";
  call.connect(0, save, 0);
}, name);
await run(page).click();
await page.waitForFunction(() => window.app.graph.nodes.find((node) => node.type === "SaveImage").imgs?.some((image) => image.naturalWidth > 0));
told.painted = await page.evaluate(() => {
  const image = window.app.graph.nodes.find((node) => node.type === "SaveImage").imgs[0];
  return { width: image.naturalWidth, height: image.naturalHeight };
});
told.jobs = await page.evaluate(async () => (await (await window.app.api.fetchApi("/jobs")).json()).pagination.total);
told.after = await account();

// The price that is painted on a lone new node with these values.
async function badge(type, values) {
  await page.evaluate(([type, values]) => {
    const { app, LiteGraph } = window;
    app.graph.clear();
    const node = LiteGraph.createNode(type);
    app.graph.add(node);
    node.pos = [200, 200];
    for (const [name, value] of Object.entries(values)) {
      node.widgets.find((widget) => widget.name === name).value = value;
    }
    window.painted.clear();
  }, [type, values]);
  const seen = await page.waitForFunction(() => {
    window.app.canvas.setDirty(true, true);
    const isPrice = (text) => /\/Run$|^price /.test(text);
    const texts = [...window.painted].filter(isPrice);
    window.painted.clear();
    return texts.length === 1 && texts[0];
  });
  return seen.jsonValue();
}

told.badges = {};
told.described = {};
const classes = await page.evaluate(() => {
  const types = Object.entries(window.LiteGraph.registered_node_types);
  return types.filter(([, { nodeData }]) => nodeData?.api_node).map(([type]) => type);
});
for (const type of classes) {
  told.badges[type] = await badge(type, {});
  told.described[type] = await page.evaluate((type) => window.LiteGraph.registered_node_types[type].nodeData.description, type);
}
told.changed = await badge(name, JSON.parse(values));
await page.screenshot({ path: screenshot });
await end();
