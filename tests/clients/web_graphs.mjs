// Draws graphs in the web page as people do today and runs each with the Run button: bypassed and muted nodes, subgraphs in
// subgraphs, inputs that grow, inputs that depend on a choice, types that follow what is connected.
//
// Arguments: the server's address, a picture (not used), a file for the screenshot. Prints one JSON object: for each graph how
// its run ended, its pictures with the colour of their first pixel, and the texts of its nodes.
import { run, stands, start } from "./page.mjs";

const [address, , screenshot] = process.argv.slice(2);

const { told, open, end } = await start(address);
told.runs = {};
const page = await open();
await page.goto(`http://${address}/`);
await stands(page);

await page.evaluate(() => {
  window.ended = [];
  for (const kind of ["execution_success", "execution_error", "execution_interrupted"]) {
    window.app.api.addEventListener(kind, ({ detail }) => window.ended.push({ id: detail.prompt_id, kind, detail }));
  }
  // Draws a node and fills in its fields.
  window.draw = (type, fields = {}) => {
    const node = window.LiteGraph.createNode(type);
    window.app.graph.add(node);
    const place = window.app.graph.nodes.length;
    node.pos = [60 + (place % 5) * 320, 120 + Math.floor(place / 5) * 300];
    for (const [name, value] of Object.entries(fields)) {
      const widget = node.widgets.find((widget) => widget.name === name);
      widget.value = value;
      widget.callback?.(value);
    }
    return node;
  };
  window.color = (color, side = 8) => window.draw("EmptyImage", { width: side, height: side, color });
  window.save = (from) => {
    const node = window.draw("SaveImage");
    from.connect(0, node, 0);
    return node;
  };
});

// What the page draws for each graph. Colours: red is 0xff0000, its inverse is cyan.
const graphs = {
  "a bypassed node hands its input on": () => {
    const invert = draw("ImageInvert");
    color(0xff0000).connect(0, invert, 0);
    invert.mode = 4;
    save(invert);
  },
  "a muted node does not run": () => {
    const red = color(0xff0000);
    save(red);
    save(red).mode = 2;
  },
  "a legacy reroute is no node of the server": () => {
    const reroute = draw("Reroute");
    color(0xff0000).connect(0, reroute, 0);
    save(reroute);
  },
  "a subgraph in a subgraph": () => {
    const inverts = [draw("ImageInvert"), draw("ImageInvert"), draw("ImageInvert")];
    color(0xff0000).connect(0, inverts[0], 0);
    inverts[0].connect(0, inverts[1], 0);
    inverts[1].connect(0, inverts[2], 0);
    save(inverts[2]);
    const inner = app.graph.convertToSubgraph(new Set(inverts.slice(0, 2))).node;
    app.graph.convertToSubgraph(new Set([inner, inverts[2]]));
  },
  "a bypassed subgraph": () => {
    const inverts = [draw("ImageInvert"), draw("ImageInvert"), draw("ImageInvert")];
    color(0xff0000).connect(0, inverts[0], 0);
    inverts[0].connect(0, inverts[1], 0);
    inverts[1].connect(0, inverts[2], 0);
    save(inverts[2]);
    app.graph.convertToSubgraph(new Set(inverts)).node.mode = 4;
  },
  "a bypassed node in a subgraph": () => {
    const inverts = [draw("ImageInvert"), draw("ImageInvert")];
    color(0xff0000).connect(0, inverts[0], 0);
    inverts[0].connect(0, inverts[1], 0);
    save(inverts[1]);
    inverts[1].mode = 4;
    app.graph.convertToSubgraph(new Set(inverts));
  },
  "an input grows with every link": async () => {
    const batch = draw("BatchImagesNode");
    for (const [place, rgb] of [0xff0000, 0x00ff00, 0x0000ff].entries()) {
      color(rgb).connect(0, batch, place);
      await new Promise(requestAnimationFrame);
    }
    save(batch);
  },
  "named inputs grow, too": async () => {
    const math = draw("ComfyMathExpression", { expression: "a * b + 1" });
    for (const [place, value] of [6, 7].entries()) {
      draw("PrimitiveInt", { value }).connect(0, math, math.inputs.findIndex((input) => input.name === `values.${"ab"[place]}`));
      await new Promise(requestAnimationFrame);
    }
    math.connect(1, draw("PreviewAny"), 0);
  },
  "a choice brings its own inputs": async () => {
    const resize = draw("ResizeImageMaskNode", { resize_type: "scale by multiplier" });
    await new Promise(requestAnimationFrame);
    resize.widgets.find((widget) => widget.name === "resize_type.multiplier").value = 2;
    color(0xff0000).connect(0, resize, 0);
    save(resize);
  },
  "a choice of a save node": async () => {
    const node = draw("SaveImageAdvanced", { format: "png" });
    await new Promise(requestAnimationFrame);
    node.widgets.find((widget) => widget.name === "format.bit_depth").value = "16-bit";
    color(0xff0000).connect(0, node, 0);
  },
  "a type follows what is connected": () => {
    const choose = draw("ComfySwitchNode", { switch: true });
    const slot = (name) => choose.inputs.findIndex((input) => input.name === name);
    color(0x0000ff).connect(0, choose, slot("on_false"));
    color(0xff0000).connect(0, choose, slot("on_true"));
    save(choose);
  },
};

for (const [name, draws] of Object.entries(graphs)) {
  const before = await page.evaluate(() => {
    window.app.graph.clear();
    return window.ended.length;
  });
  await page.evaluate(`(${draws})()`);
  await run(page).click();
  const refusal = page.getByTestId("toast").first();
  await Promise.race([
    page.waitForFunction((before) => window.ended.length > before, before),
    refusal.waitFor(),
  ]);
  told.runs[name] = await page.evaluate(async (before) => {
    const end = window.ended[before];
    if (!end) return { kind: "refused", text: document.body.innerText };
    const get = async (route) => (await window.app.api.fetchApi(route)).json();
    const job = (await get(`/history/${end.id}`))[end.id];
    const outputs = Object.values(job.outputs);
    const pictures = [];
    for (const { filename, subfolder, type } of outputs.flatMap((output) => output.images ?? [])) {
      const asked = new URLSearchParams({ filename, subfolder, type });
      const bitmap = await createImageBitmap(await (await fetch(`/view?${asked}`)).blob());
      const canvas = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d");
      canvas.drawImage(bitmap, 0, 0);
      pictures.push({ side: bitmap.width, rgb: [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3) });
    }
    const nodes = Object.entries(job.prompt[2]).map(([id, node]) => `${id} ${node.class_type}`);
    return { kind: end.kind, pictures, texts: outputs.flatMap((output) => output.text ?? []), nodes, detail: end.detail.exception_message };
  }, before);
}
await page.screenshot({ path: screenshot });
await end();
