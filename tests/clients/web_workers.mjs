// Looks at the web page of a server with a ComfyUI worker: which nodes are marked as running without it.
//
// Arguments: the server's address, a picture (not used), a file for the screenshot, and a class that only the worker has. Prints
// one JSON object.
import { createRequire } from "node:module";
import path from "node:path";

const [address, , screenshot, foreign] = process.argv.slice(2);
const require = createRequire(path.join(process.env.EASEL_PLAYWRIGHT, "package.json"));
const { chromium } = require("playwright-core");

const browser = await chromium.launch({
  executablePath: process.env.EASEL_CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu"],
});
const page = await browser.newPage({ viewport: { width: 1600, height: 1000 } });
page.setDefaultTimeout(300_000);
const told = { errors: [], refused: [], outside: [] };
page.on("pageerror", (error) => told.errors.push(String(error)));
page.on("console", (line) => line.type() === "error" && told.errors.push(`${line.text()} ${line.location().url}`));
page.on("response", (answer) => {
  if (answer.status() >= 400) told.refused.push(`${answer.status()} ${answer.url()}`);
});
// Nothing but this server is part of the test.
await page.route((url) => url.host !== address, (route) => route.abort());
await page.goto(`http://${address}/`);
await page.waitForFunction(() => window.app?.graph?.nodes?.length > 0 && location.search === "");
told.badges = await page.evaluate((foreign) => {
  const node = window.LiteGraph.createNode(foreign);
  window.app.graph.add(node);
  node.pos = [400, 500];
  const badges = (node) => node.badges.map((badge) => (typeof badge === "function" ? badge() : badge).text);
  return Object.fromEntries(window.app.graph.nodes.map((node) => [node.type, badges(node).includes("runs natively")]));
}, foreign);
await page.screenshot({ path: screenshot });
console.log(JSON.stringify(told));
await browser.close();
