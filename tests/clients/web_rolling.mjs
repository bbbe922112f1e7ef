// What somebody does all day on the unmodified web page in headless Chromium, until standard input ends: visits it, runs graphs with
// its Run button, and looks at what they made. Replicas restart meanwhile, and nothing here knows of it.
//
// Arguments: the server's address and a key to sign in with. Says when the first graph ran, and prints one JSON object: how many visits and runs there were, and every
// request of the page that failed. `EASEL_PLAYWRIGHT` is a folder with node_modules/playwright-core, `EASEL_CHROMIUM` the browser.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const [address, key] = process.argv.slice(2);
const require = createRequire(path.join(process.env.EASEL_PLAYWRIGHT, "package.json"));
const { chromium } = require("playwright-core");

// Runs before the page is visited anew.
const RUNS = 3;

let isOver = false;
process.stdin.resume();
process.stdin.on("end", () => {
  isOver = true;
});

const browser = await chromium.launch({
  executablePath: process.env.EASEL_CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu"],
});
const page = await browser.newPage({ viewport: { width: 1600, height: 1000 } });
page.setDefaultTimeout(120_000);
const told = { visits: 0, runs: 0, answered: 0, sockets: 0, errors: [], failed: [] };
const isOwn = (url) => new URL(url).host === address;
page.on("pageerror", (error) => told.errors.push(String(error)));
page.on("response", (response) => {
  if (!isOwn(response.url())) return;
  if (response.status() < 400) told.answered += 1;
  else told.failed.push(`${response.status()} ${response.request().method()} ${response.url()}`);
});
page.on("requestfailed", (request) => {
  const reason = request.failure()?.errorText;
  // What the page gives up by itself when it is left is no failure of a server.
  if (isOwn(request.url()) && reason !== "net::ERR_ABORTED") {
    told.failed.push(`${reason} ${request.method()} ${request.url()}`);
  }
});
page.on("websocket", () => {
  told.sockets += 1;
});
// Nothing but this server is part of the test.
await page.route((url) => url.host !== address, (route) => route.abort());

await page.goto(`http://${address}/`);
await page.getByLabel("API key").fill(key);
// A first visitor is shown templates once, and given a picture; this one was here before. Both stand before the page asks for them: a
// first visit would go on opening its template into the graph that is drawn here.
const first = `http://${address}/`;
const picture = readFileSync(new URL("../../examples/photo.png", import.meta.url));
async function wasHere(route) {
  await page.request.post(`${first}api/settings`, {
    data: { "Comfy.TutorialCompleted": true, "Comfy.InstalledVersion": "1.58.1" },
  });
  await page.request.post(`${first}api/upload/image`, {
    multipart: { image: { name: "example.png", mimeType: "image/png", buffer: picture } },
  });
  await route.continue();
}
await page.route(first, wasHere, { times: 1 });
await page.getByRole("button", { name: "Sign in" }).click();
await page.waitForFunction(() => window.app?.graph?.nodes?.length > 0);

while (!isOver) {
  await page.goto(`http://${address}/`);
  await page.waitForFunction(() => window.app?.graph?.nodes?.length > 0);
  const run = page.getByRole("button", { name: "Run", exact: true });
  await run.waitFor();
  told.visits += 1;
  await page.evaluate(() => {
    const { app, LiteGraph } = window;
    app.graph.clear();
    const [empty, save] = ["EmptyImage", "SaveImage"].map((name, place) => {
      const node = LiteGraph.createNode(name);
      app.graph.add(node);
      node.pos = [80 + place * 380, 140];
      return node;
    });
    empty.connect(0, save, 0);
    window.drawn = { empty, save };
  });
  for (let n = 0; n < RUNS && !isOver; n += 1) {
    // Another picture each time.
    await page.evaluate((color) => {
      const named = (name) => window.drawn.empty.widgets.find((widget) => widget.name === name);
      named("width").value = 64;
      named("height").value = 64;
      named("color").value = color;
    }, told.runs);
    const posted = page.waitForResponse(
      (response) => response.request().method() === "POST" && new URL(response.url()).pathname === "/api/prompt",
    );
    await run.click();
    const { prompt_id: id } = await (await posted).json();
    // The page's own client asks, as its panel does: a replica that ends takes its socket along, and what it would have said.
    for (;;) {
      const entry = await page.evaluate(async (id) => {
        const answer = await window.app.api.fetchApi(`/history/${id}`);
        return (await answer.json())[id];
      }, id);
      if (entry) {
        const { status, outputs } = entry;
        if (status.status_str !== "success") throw new Error(JSON.stringify(status));
        const [image] = Object.values(outputs)[0].images;
        const seen = await page.evaluate(async (image) => {
          const answer = await window.app.api.fetchApi(`/view?${new URLSearchParams(image)}`);
          return (await createImageBitmap(await answer.blob())).width;
        }, image);
        if (seen !== 64) throw new Error(`a picture of ${seen} pixels`);
        break;
      }
      await page.waitForTimeout(100);
    }
    told.runs += 1;
    if (told.runs === 1) console.log("at work");
  }
}
console.log(JSON.stringify(told));
await browser.close();
