// Paints a mask over the picture of the first visit in the page's mask editor, runs a graph with it, and listens to a sound in
// the node that previews it. Then loads the picture that was made from the outputs, and plays a video with a sound in the node
// that saves it.
//
// Arguments: the server's address, a picture (not used), a file for the screenshot; that of the video is named after it. Prints
// one JSON object.
import { run, stands, start } from "./page.mjs";

const [address, , screenshot] = process.argv.slice(2);

const { told, open, end } = await start(address);
const page = await open();
await page.goto(`http://${address}/`);
await stands(page);

// The mask editor needs the node's picture.
await page.waitForFunction(() => {
  window.load = window.app.graph.nodes.find((node) => node.type === "LoadImage");
  return window.load.imgs?.some((image) => image.naturalWidth > 0);
});
await page.evaluate(() => {
  window.app.canvas.selectNode(window.load);
  return window.app.extensionManager.command.execute("Comfy.MaskEditor.OpenMaskEditor");
});
const save = page.getByRole("button", { name: "Save" }).first();
await save.waitFor();
await page.waitForFunction(() => [...document.querySelectorAll("canvas")].some((canvas) => canvas.width === 192 && canvas.height === 144 && canvas.offsetParent));
// The editor draws strokes from a moment on that nothing in the page tells.
await page.evaluate(() => {
  window.drawn = () => [...document.querySelectorAll("canvas")]
    .filter((canvas) => canvas.width === 192 && canvas.height === 144)
    .map((canvas) => canvas.getContext("2d")?.getImageData(0, 0, 192, 144).data.reduce((sum, byte) => sum + byte, 0))
    .join();
});
const before = await page.evaluate(() => window.drawn());
for (let isDrawn = false, strokes = 0; !isDrawn && strokes < 20; strokes += 1) {
  await page.mouse.move(800, 500);
  await page.mouse.down();
  await page.mouse.move(900, 560, { steps: 12 });
  await page.mouse.up();
  const drawing = page.waitForFunction((before) => window.drawn() !== before, before, { timeout: 3_000 });
  isDrawn = await drawing.then(() => true, () => false);
}
await save.click();
await page.waitForFunction(() => window.load.widgets.find((widget) => widget.name === "image").value.includes("clipspace-painted-masked"));
told.masked = await page.evaluate(() => window.load.widgets.find((widget) => widget.name === "image").value);

// The mask becomes a picture, and a sound stands beside it.
const ended = page.evaluate(() => new Promise((resolve) => window.app.api.addEventListener("execution_success", ({ detail }) => resolve(detail.prompt_id))));
await page.evaluate(() => {
  const { app, LiteGraph } = window;
  const add = (type, x, y) => {
    const node = LiteGraph.createNode(type);
    app.graph.add(node);
    node.pos = [x, y];
    return node;
  };
  for (const node of app.graph.nodes.filter((node) => node !== window.load)) app.graph.remove(node);
  const [picture, saved] = [add("MaskToImage", 400, 200), add("SaveImage", 700, 200)];
  window.load.connect(1, picture, 0);
  picture.connect(0, saved, 0);
  const [silence, heard] = [add("EmptyAudio", 400, 600), add("PreviewAudio", 700, 600)];
  silence.widgets.find((widget) => widget.name === "duration").value = 2;
  silence.connect(0, heard, 0);
  Object.assign(window, { saved, heard });
});
await run(page).click();
told.id = await ended;
await page.waitForFunction(() => window.saved.imgs?.some((image) => image.naturalWidth > 0));
told.mask = await page.evaluate(async () => {
  const bitmap = await createImageBitmap(await (await fetch(window.saved.imgs[0].src)).blob());
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d");
  canvas.drawImage(bitmap, 0, 0);
  const { data } = canvas.getImageData(0, 0, bitmap.width, bitmap.height);
  let white = 0;
  for (let at = 0; at < data.length; at += 4) white += data[at] > 127;
  return { width: bitmap.width, height: bitmap.height, white };
});
// The player of the node, once it knows how long its sound is.
told.seconds = await page.evaluate(async () => {
  const player = window.heard.widgets.map((widget) => widget.element).find((element) => element?.tagName === "AUDIO") ?? document.querySelector("audio");
  if (!(player.duration > 0)) await new Promise((resolve) => player.addEventListener("loadedmetadata", resolve, { once: true }));
  return player.duration;
});

// Both menus: no name twice, no hash, none of the mask editor's own files.
told.menus = await page.evaluate(async () => {
  const choices = async (type) => (await (await window.app.api.fetchApi(`/object_info/${type}`)).json())[type].input.required.image;
  const load = await choices("LoadImage");
  return { load: load[0], outputs: (await (await window.app.api.fetchApi("/internal/files/output")).json()) };
});
// A node that loads from the outputs offers the newest one and shows it.
await page.evaluate(() => {
  window.outputs = window.LiteGraph.createNode("LoadImageOutput");
  window.app.graph.add(window.outputs);
  window.outputs.pos = [1050, 200];
});
await page.waitForFunction(() => window.outputs.imgs?.some((image) => image.naturalWidth > 0));
told.from_outputs = await page.evaluate(() => ({
  value: window.outputs.widgets.find((widget) => widget.name === "image").value,
  width: window.outputs.imgs[0].naturalWidth,
}));
await page.screenshot({ path: screenshot });

// A video of the picture that has a sound.
const filmed = page.evaluate(() => new Promise((resolve) => {
  const { api } = window.app;
  api.addEventListener("execution_success", ({ detail }) => resolve(detail.prompt_id));
  api.addEventListener("execution_error", ({ detail }) => resolve(detail.exception_message));
}));
await page.evaluate(() => {
  const { app, LiteGraph } = window;
  const add = (type, x, y, values = {}) => {
    const node = LiteGraph.createNode(type);
    app.graph.add(node);
    node.pos = [x, y];
    for (const [name, value] of Object.entries(values)) node.widgets.find((widget) => widget.name === name).value = value;
    return node;
  };
  for (const node of app.graph.nodes.filter((node) => node !== window.load)) app.graph.remove(node);
  const frames = add("RepeatImageBatch", 400, 200, { amount: 12 });
  const silence = add("EmptyAudio", 400, 400, { duration: 2 });
  const video = add("CreateVideo", 700, 200, { fps: 6 });
  window.film = add("SaveVideo", 1000, 200);
  window.load.connect(0, frames, 0);
  frames.connect(0, video, 0);
  silence.connect(0, video, 1);
  video.connect(0, window.film, 0);
});
await run(page).click();
told.film = await filmed;
// The player of the node, once it shows a picture of its own and knows how long it plays.
await page.waitForFunction(() => {
  window.player = [...document.querySelectorAll("video")].find((video) => video.videoWidth > 0 && video.readyState >= 2);
  return window.player;
});
told.video = await page.evaluate(async () => {
  const { player } = window;
  player.muted = true;
  await player.play();
  if (player.currentTime === 0) await new Promise((resolve) => player.addEventListener("timeupdate", resolve, { once: true }));
  // How many bytes of sound it decoded is told by Chromium alone.
  const { videoWidth: width, videoHeight: height, duration, webkitAudioDecodedByteCount: sound } = player;
  player.pause();
  return { width, height, seconds: Math.round(duration), sound };
});
await page.screenshot({ path: screenshot.replace(/\.png$/, "-video.png") });
// While the page waits for the list of outputs it asks for a picture of that word.
for (const list of ["errors", "refused"]) told[list] = told[list].filter((line) => !line.includes("filename=Loading..."));
await end();
