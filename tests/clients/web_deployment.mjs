// Drives the unmodified web page at the base address of a deployment in headless Chromium: boots, draws a graph of classes that
// only its workers have, runs it with the page's Run button, and waits until the queue panel shows the job.
//
// Arguments: the server's address, a picture (not used), a file for the screenshot, and the path of the deployment. Prints one
// JSON object.
import { run, stands, start, wasHere } from "./page.mjs";

const [address, , screenshot, below] = process.argv.slice(2);

const { told, open, end } = await start(address);
const page = await open();
told.elsewhere = [];
page.on("response", (answer) => {
  const url = new URL(answer.url());
  // What the page asks for is below the address that it was opened at, but for the icons that it shows while a graph runs.
  const isBelow = url.pathname === below || url.pathname.startsWith(`${below}/`);
  const isIcon = url.pathname.startsWith("/assets/images/favicon");
  if (url.host === address && !isBelow && !isIcon) told.elsewhere.push(url.pathname);
});
page.on("websocket", (socket) => (told.socket = new URL(socket.url()).pathname));

told.here = await wasHere(page, `http://${address}${below}`);
// As people write it: without the slash at its end.
await page.goto(`http://${address}${below}`);
told.opened = new URL(page.url()).pathname;
await stands(page);
told.native = await page.evaluate(() => "ImageBlur" in window.LiteGraph.registered_node_types);
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
await run(page).click();
// The job in the panel, as a person opens it.
await page.getByRole("button", { name: /\bactive\b/ }).first().click();
const row = page.locator("[data-job-id]").filter({ hasText: "ComfyUI_00001_.png" });
await row.waitFor();
told.job = await row.getAttribute("data-job-id");
await page.screenshot({ path: screenshot });
await end();
