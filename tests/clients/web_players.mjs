// Runs graphs that end in sounds and videos, and plays each where the page shows it: in its node, and in the panel of assets. The last
// graph loads a video that browsers cannot play.
//
// Arguments: the server's address, a picture (not used), a file for the screenshot, and that video; other screenshots are named after
// the first one. Prints one JSON object.
import { readFileSync } from "node:fs";
import { run, stands, start, wasHere } from "./page.mjs";

const [address, , screenshot, foreign] = process.argv.slice(2);
const base = `http://${address}`;

const { told, open, end } = await start(address);
const page = await open();
await wasHere(page, base);
const image = { name: "foreign.avi", mimeType: "video/x-msvideo", buffer: readFileSync(foreign) };
told.uploaded = (await page.request.post(`${base}/api/upload/image`, { multipart: { image } })).status();
await page.goto(`${base}/`);
await stands(page);

await page.evaluate(() => {
  const { app, LiteGraph } = window;
  window.add = (type, x, y, values = {}) => {
    const node = LiteGraph.createNode(type);
    app.graph.add(node);
    node.pos = [x, y];
    for (const [name, value] of Object.entries(values)) node.widgets.find((widget) => widget.name === name).value = value;
    return node;
  };
  // Plays what an element shows, and answers what it is. A player is waited for that knows its file.
  window.played = async (player) => {
    const heard = (event) => new Promise((resolve, reject) => {
      player.addEventListener(event, resolve, { once: true });
      player.addEventListener("error", () => reject(new Error(`${player.src}: ${player.error.message}`)), { once: true });
    });
    if (player.error) throw new Error(`${player.src}: ${player.error.message}`);
    if (player.readyState < 2) await heard("loadeddata");
    player.muted = true;
    const moved = player.currentTime > 0 ? undefined : heard("timeupdate");
    await player.play();
    await moved;
    player.pause();
    const { duration, videoWidth: width, videoHeight: height } = player;
    const seconds = Math.round(duration * 10) / 10;
    return player.tagName === "VIDEO" ? { seconds, width, height } : { seconds };
  };
  window.named = (player) => new URL(player.currentSrc || player.src).searchParams.get("filename");
});
// Runs what is drawn, to its end.
const ended = async () => {
  const end = page.evaluate(() => new Promise((resolve) => {
    const { api } = window.app;
    api.addEventListener("execution_success", () => resolve("success"));
    api.addEventListener("execution_error", ({ detail }) => resolve(detail.exception_message));
  }));
  await run(page).click();
  return end;
};
// What the players of these files tell, each once it is there, among the elements that `shown` selects.
const players = async (shown, endings) => {
  const told = {};
  for (const ending of endings) {
    const player = await page.waitForFunction(([shown, ending]) => {
      const found = [...document.querySelectorAll(shown)].filter((player) => player.currentSrc || player.src);
      return found.find((player) => window.named(player)?.endsWith(ending));
    }, [shown, ending]);
    told[ending] = await player.evaluate((player) => window.played(player));
  }
  return told;
};

// Everything that saves or shows a sound or a video, from one picture and one silence.
await page.evaluate(() => {
  const { app } = window;
  app.graph.clear();
  const frames = window.add("EmptyImage", 0, 100, { width: 192, height: 144, batch_size: 12, color: 0x2266cc });
  const silence = window.add("EmptyAudio", 0, 400, { duration: 2 });
  const video = window.add("CreateVideo", 300, 100, { fps: 6 });
  frames.connect(0, video, 0);
  silence.connect(0, video, 1);
  [
    ["SaveVideo", video, { filename_prefix: "video/saved" }],
    ["SaveWEBM", frames, { filename_prefix: "web", fps: 6 }],
    ["VideoTrim", video, {}],
    ["SaveAudio", silence, { filename_prefix: "audio/flac" }],
    ["SaveAudioMP3", silence, { filename_prefix: "audio/mp3" }],
    ["SaveAudioOpus", silence, { filename_prefix: "audio/opus" }],
    ["PreviewAudio", silence, {}],
  ].forEach(([type, from, values], place) => {
    const node = window.add(type, 650 + 380 * (place % 3), 100 + 400 * Math.floor(place / 3), values);
    from.connect(0, node, 0);
  });
});
told.ended = await ended();
// A sound that is only heard and a video that is only shown have names of chance.
const temporary = await page.evaluate(async () => {
  const jobs = await (await window.app.api.fetchApi("/history")).json();
  const [{ outputs }] = Object.values(jobs);
  const files = Object.values(outputs).flatMap(({ images = [], audio = [] }) => [...images, ...audio]);
  const kind = (name) => name.split(".").pop();
  const names = files.filter(({ type }) => type === "temp").map(({ filename }) => filename);
  return names.sort((one, other) => kind(one).localeCompare(kind(other)));
});
const saved = ["saved_00001_.mp4", "web_00001_.webm", "flac_00001_.flac", "mp3_00001_.mp3", "opus_00001_.opus"];
const inNodes = await players("video, audio", [...saved, ...temporary]);
told.nodes = Object.fromEntries(saved.map((name) => [name, inNodes[name]]));
told.temporary = temporary.map((name) => ({ kind: name.split(".").pop(), ...inNodes[name] }));
await page.screenshot({ path: screenshot.replace(/\.png$/, "-nodes.png") });

// The same in the panel of assets, below the first of them.
await page.evaluate(() => window.app.extensionManager.command.execute("Workspace.ToggleSidebarTab.assets"));
await page.getByRole("button", { name: "See more outputs" }).first().click();
// The panel has on the page what is in sight: the newest first, so the list is turned until it ends with the first.
const panel = ".comfy-vue-side-bar-body";
await page.locator(`${panel} audio`).first().waitFor({ state: "attached" });
await page.locator(panel).hover();
told.panel = {};
for (const name of [...saved].reverse()) {
  const path = `${panel} :is(audio, video)[src*="filename=${name}"]`;
  for (let turns = 0; (await page.locator(path).count()) === 0; turns += 1) {
    if (turns === 500) throw new Error(`${name} is not in the panel`);
    await page.mouse.wheel(0, 200);
    await page.evaluate(() => new Promise(requestAnimationFrame));
  }
  Object.assign(told.panel, await players(path, [name]));
}
await page.screenshot({ path: screenshot.replace(/\.png$/, "-panel.png") });
await page.evaluate(() => window.app.extensionManager.command.execute("Workspace.ToggleSidebarTab.assets"));

// A video that the browser does not play is shown and saved as one that it does.
await page.evaluate(() => {
  window.app.graph.clear();
  const load = window.add("LoadVideo", 0, 100, { file: "foreign.avi" });
  const trim = window.add("VideoTrim", 400, 100);
  const save = window.add("SaveVideo", 800, 100, { filename_prefix: "video/foreign" });
  load.connect(0, trim, 0);
  trim.connect(0, save, 0);
});
told.foreign = { ended: await ended() };
Object.assign(told.foreign, await players("video", ["foreign_00001_.mp4"]), await players("video[src*='type=temp']", [".mp4"]));
await page.screenshot({ path: screenshot });
await end();
