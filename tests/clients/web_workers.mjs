// Looks at the web page of a server with a ComfyUI worker: which nodes are marked as running without it.
//
// Arguments: the server's address, a picture (not used), a file for the screenshot, and a class that only the worker has. Prints
// one JSON object.
import { stands, start } from "./page.mjs";

const [address, , screenshot, foreign] = process.argv.slice(2);

const { told, open, end } = await start(address);
const page = await open();
await page.goto(`http://${address}/`);
await stands(page);
told.badges = await page.evaluate((foreign) => {
  const node = window.LiteGraph.createNode(foreign);
  window.app.graph.add(node);
  node.pos = [400, 500];
  const badges = (node) => node.badges.map((badge) => (typeof badge === "function" ? badge() : badge).text);
  return Object.fromEntries(window.app.graph.nodes.map((node) => [node.type, badges(node).includes("runs natively")]));
}, foreign);
await page.screenshot({ path: screenshot });
await end();
