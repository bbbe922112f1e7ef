// What somebody does all day on the unmodified web page in headless Chromium, until standard input ends: visits it, runs graphs with
// its Run button, and looks at what they made. Replicas restart meanwhile, and nothing here knows of it.
//
// Arguments: the server's address and a key to sign in with. Says when the first graph ran, and prints one JSON
// object: how many visits and runs there were, and every request of the page that failed.
import { launch } from "./browser.mjs";
import { alone, run, signIn, stands, wasHere } from "./page.mjs";

const [address, key] = process.argv.slice(2);

// Runs before the page is visited anew.
const RUNS = 3;

let isOver = false;
process.stdin.resume();
process.stdin.on("end", () => {
  isOver = true;
});

const browser = await launch();
const page = await browser.newPage({ viewport: { width: 1600, height: 1000 } });
page.setDefaultTimeout(120_000);
const told = { visits: 0, runs: 0, answered: 0, sockets: 0, errors: [], failed: [] };
page.on("pageerror", (error) => told.errors.push(String(error)));
const isOwn = (url) => new URL(url).host === address;
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
await alone(page, address);

await wasHere(page, `http://${address}`, key);
await page.goto(`http://${address}/`);
await signIn(page, key);

while (!isOver) {
  await page.goto(`http://${address}/`);
  await stands(page);
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
    await run(page).click();
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
