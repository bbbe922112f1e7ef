// Two users of one server in windows of their own at the same time: each signs in, uploads a file of the same name, runs a graph
// with it and looks at the list of jobs. The first one's session is kept in a file; after a restart of the server, a window that
// has it goes on without signing in.
//
// Arguments: the server's address, a picture, a file for the screenshot, `before` or `after`, the file of the session, and
// before the restart the keys of the accounts `acme` and `other`. Prints one JSON object.
import { readFileSync } from "node:fs";
import { run, signIn, stands, start } from "./page.mjs";

const [address, picture, screenshot, phase, session, ...keys] = process.argv.slice(2);

const { told, open, end } = await start(address);

async function visit(options) {
  const page = await open(options);
  await page.goto(`http://${address}/`);
  return page;
}

// Uploads, draws, runs, and answers what this user sees then.
async function use(page) {
  await stands(page);
  const file = { name: "mine.png", mimeType: "image/png", buffer: readFileSync(picture) };
  await page.request.post(`http://${address}/api/upload/image`, { multipart: { image: file } });
  await page.evaluate(() => window.app.reloadNodeDefs());
  await page.evaluate(() => {
    const node = window.app.graph.nodes.find((node) => node.type === "LoadImage");
    node.widgets.find((widget) => widget.name === "image").value = "mine.png";
  });
  await run(page).click();
  await page.waitForFunction(() => window.app.graph.nodes.find((node) => node.type === "SaveImage").imgs?.some((image) => image.naturalWidth > 0));
  return page.evaluate(async () => {
    const get = async (route) => (await window.app.api.fetchApi(route)).json();
    const save = window.app.graph.nodes.find((node) => node.type === "SaveImage");
    return {
      account: (await get("/easel")).account,
      jobs: (await get("/jobs")).pagination.total,
      uploads: (await get("/object_info/LoadImage")).LoadImage.input.required.image[0],
      painted: new URL(save.imgs[0].src).searchParams.get("filename"),
    };
  });
}

if (phase === "before") {
  const pages = await Promise.all(keys.map(() => visit({})));
  await Promise.all(pages.map((page, place) => signIn(page, keys[place])));
  [told.acme, told.other] = await Promise.all(pages.map(use));
  await pages[0].context().storageState({ path: session });
  await pages[0].screenshot({ path: screenshot });
} else {
  const page = await visit({ storageState: session });
  told.acme = await use(page);
  await page.screenshot({ path: screenshot });
}
await end();
