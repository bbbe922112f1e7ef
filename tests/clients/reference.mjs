// Drives the pages of the documents in headless Chromium by the keyboard alone: searches, opens an operation, its answers and a
// schema, then looks at every page of every document once. Looks over views with axe, light and dark, and takes screenshots.
//
// Arguments: the server's address, a key, and a folder for screenshots. Prints one JSON object.
import { execFileSync } from "node:child_process";
import { open } from "./browser.mjs";

const [address, key, folder] = process.argv.slice(2);
const base = `http://${address}`;

const { browser, page, told, press, tabTo, look, title } = await open(address, folder, 60_000);
told.pages = {};

// The first view. What its files weigh, without the document, is counted on the way.
const transferred = [];
page.on("requestfinished", async (request) => {
  if (new URL(request.url()).pathname.startsWith("/docs/")) transferred.push(request.sizes().then((sizes) => sizes.responseBodySize));
});
await page.goto(`${base}/docs`);
await title("Easel workflow API");
told.bytes = (await Promise.all(transferred)).reduce((sum, bytes) => sum + bytes, 0);
await look("overview");

// Search, open, read.
await press("/");
await page.keyboard.type("submit workflow");
await page.getByRole("status").getByText(/^\d+ operations/).waitFor();
await press("Enter");
await title("Submit a workflow");
told.focused = await page.evaluate(() => document.activeElement.closest("nav, main")?.tagName);
told.submit = await page.getByLabel("The call by curl").innerText();
const answer = page.locator("details > summary").filter({ hasText: /^201/ });
await tabTo(answer);
await press("Enter");
await page.locator("details[open] .field").first().waitFor();
await look("operation");

// A type leads to its schema.
const type = page.locator("main a[href*='/schema/']").first();
const name = await type.innerText();
await tabTo(type);
await press("Enter");
await title(name);
await look("schema");

// The arrows walk the list, and Escape shows all of it again.
await press("/", "Escape", "ArrowDown", "ArrowDown");
told.second = await page.evaluate(() => [...document.querySelectorAll(".contents a")].indexOf(document.activeElement));
await press("Enter");
await page.locator(".contents a").nth(1).and(page.locator("[aria-current=page]")).waitFor();

// A call by curl does as it says.
await page.goto(`${base}/docs/#/v2/op/listJobs`);
await title("List jobs");
const command = (await page.getByLabel("The call by curl").innerText()).replace("KEY", key);
told.listed = Object.keys(JSON.parse(execFileSync("sh", ["-c", `${command} --silent --fail`], { encoding: "utf8" })));

// Every page of every document has a heading and its code, and every part of it opens.
for (const link of await page.locator(".documents a").all()) {
  const id = await link.getAttribute("data-id");
  await link.focus();
  await press("Enter");
  await page.locator(`.documents a[data-id=${id}][aria-current]`).waitFor();
  await page.locator(`.contents a[href^="#/${id}/"]`).first().waitFor();
  told.pages[id] = await page.evaluate(async () => {
    const addresses = [...document.querySelectorAll(".contents a")].map((one) => one.hash);
    for (const hash of addresses) {
      await new Promise((moved) => { addEventListener("hashchange", () => setTimeout(moved), { once: true }); location.hash = hash; });
      const main = document.querySelector("main");
      const heading = main.querySelector("h1")?.textContent;
      if (!heading || heading === "Not in this document" || !main.querySelector("pre")) throw new Error(`${hash}: ${main.textContent}`);
      for (const details of main.querySelectorAll("details")) {
        details.open = true;
        await new Promise((opened) => { details.addEventListener("toggle", opened, { once: true }); });
        if (!details.querySelector(".inside")?.textContent) throw new Error(`${hash}: nothing is inside of ${details.textContent}`);
      }
      if (/undefined|\[object/.test(main.textContent)) throw new Error(`${hash}: ${main.textContent}`);
    }
    return addresses.length;
  });
}

// A document that cannot be had is told, and asked for again.
await page.route("**/v1/openapi.json", (route) => route.abort());
told.expected = told.errors.length;
await page.goto(`${base}/docs/?again#/models`);
await page.getByRole("alert").waitFor();
await look("failure");
// The browser tells of the request that the test cut.
told.errors.splice(told.expected);
await page.unroute("**/v1/openapi.json");
await tabTo(page.getByRole("button", { name: "Try again" }));
await press("Enter");
await title("Easel model router");

// On a narrow screen nothing is beside the screen.
await page.setViewportSize({ width: 400, height: 800 });
await page.goto(`${base}/docs/#/v2/op/submitJob`);
await title("Submit a workflow");
told.beside = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
await look("narrow");

console.log(JSON.stringify(told));
await browser.close();
