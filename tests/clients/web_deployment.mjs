// Drives the unmodified web page at the base address of a deployment in headless Chromium: boots, draws a graph of classes that
// only its workers have, runs it with the page's Run button, and waits until the queue panel shows the job.
//
// Arguments: the server's address, a picture, a file for the screenshot, and the path of the deployment. Prints one
// JSON object.
import { createRequire } from "node:module";
import fs from "node:fs";
import path from "node:path";

const [address, picture, screenshot, below] = process.argv.slice(2);
const require = createRequire(path.join(process.env.EASEL_PLAYWRIGHT, "package.json"));
const { chromium } = require("playwright-core");

const browser = await chromium.launch({
  executablePath: process.env.EASEL_CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu"],
});
const page = await browser.newPage({ viewport: { width: 1600, height: 1000 } });
page.setDefaultTimeout(300_000);
const told = { errors: [], refused: [], elsewhere: [] };
page.on("pageerror", (error) => told.errors.push(String(error)));
page.on("response", (answer) => {
  const url = new URL(answer.url());
  if (answer.status() >= 400) told.refused.push(`${answer.status()} ${url.pathname}${url.search}`);
  // What the page asks for is below the address that it was opened at, but for the icons that it shows while a graph runs.
  const isBelow = url.pathname === below || url.pathname.startsWith(`${below}/`);
  const isIcon = url.pathname.startsWith("/assets/images/favicon");
  if (url.host === address && !isBelow && !isIcon) told.elsewhere.push(url.pathname);
});
page.on("websocket", (socket) => (told.socket = new URL(socket.url()).pathname));
// Nothing but this server is part of the test.
await page.route((url) => url.host !== address, (route) => route.abort());

// A first visitor is shown templates once; this one was here before.
const settings = await page.request.post(`http://${address}${below}/api/settings`, {
  data: { "Comfy.TutorialCompleted": true, "Comfy.InstalledVersion": "1.58.1" },
});
told.settings = settings.status();
// The page's own first graph loads it.
const uploaded = await page.request.post(`http://${address}${below}/api/upload/image`, {
  multipart: { image: { name: "example.png", mimeType: "image/png", buffer: fs.readFileSync(picture) } },
});
told.uploaded = uploaded.status();
// As people write it: without the slash at its end.
await page.goto(`http://${address}${below}`);
told.opened = new URL(page.url()).pathname;
await page.waitForFunction(() => window.app?.graph && window.LiteGraph?.registered_node_types?.Wait);
told.native = await page.evaluate(() => "ImageBlur" in window.LiteGraph.registered_node_types);
const run = page.getByRole("button", { name: "Run", exact: true });
await run.waitFor();
await page.evaluate(() => {
  const { app, LiteGraph } = window;
  app.graph.clear();
  const [empty, wait, save] = ["EmptyImage", "Wait", "SaveImage"].map((name, place) => {
    const node = LiteGraph.createNode(name);
    app.graph.add(node);
    node.pos = [80 + place * 380, 140];
    return node;
  });
  empty.connect(0, wait, 0);
  wait.connect(0, save, 0);
});
await run.click();
// The job in the panel, as a person opens it.
await page.getByRole("button", { name: /\bactive\b/ }).first().click();
const row = page.locator("[data-job-id]").filter({ hasText: "ComfyUI_00001_.png" });
await row.waitFor();
told.job = await row.getAttribute("data-job-id");
await page.screenshot({ path: screenshot });
console.log(JSON.stringify(told));
await browser.close();
