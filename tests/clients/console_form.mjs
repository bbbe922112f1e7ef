// Drives the form of a model in the console in headless Chromium: what is dropped on its fields, and what is sent. Then opens a view
// whose file is of another build than the rest.
//
// Arguments: the server's address, a key, and a folder for screenshots. Prints one JSON object.
import { open } from "./browser.mjs";

const [address, key, folder] = process.argv.slice(2);
const { browser, page, told, title } = await open(address, folder, 60_000);

// The form of a model that takes the address of a picture, and a list of pictures.
const schema = {
  type: "object",
  required: ["image_url"],
  properties: { image_url: { type: "string", format: "uri" }, images: { type: "array", items: { type: "string" } } },
};
await page.route("**/v1/models/easel/resize/openapi.json", async (route) => {
  const response = await route.fetch();
  const json = await response.json();
  for (const { post } of Object.values(json.paths)) for (const content of Object.values(post?.requestBody.content ?? {})) content.schema = schema;
  await route.fulfill({ response, json });
});
await page.route("**/v1/models/easel/resize", async (route) => {
  told.sent = route.request().postDataJSON();
  await route.fulfill({ json: {} });
});
await page.route("**/usage.js", (route) => route.fulfill({ contentType: "text/javascript", body: "export { isGone as Usage } from \"./kit.js\";" }));
await page.addInitScript((key) => {
  sessionStorage.setItem("easel-key", key);
  // Drops files of a name and a size each, or a text; answers whether the page took what was dragged, and what was dropped.
  window.drop = (field, files, text) => {
    const dataTransfer = new DataTransfer();
    for (const [name, size] of files) dataTransfer.items.add(new File([new Uint8Array(size)], name));
    if (text) dataTransfer.setData("text/plain", text);
    const on = document.getElementById(`field-${field}`).closest(".field");
    return ["dragover", "drop"].map((kind) => !on.dispatchEvent(new DragEvent(kind, { dataTransfer, bubbles: true, cancelable: true })));
  };
}, key);
await page.goto(`http://${address}/console/#/models/easel/resize`);
const line = page.getByRole("textbox", { name: "image_url" });
await line.waitFor();

const drop = (...what) => page.evaluate((what) => window.drop(...what), what);
const chosen = (field) => page.locator(".field").filter({ has: page.locator(`#field-${field}`) }).locator(".files .label");

// A file stands for the line beside it. A text that is dropped is the browser's.
await line.fill("https://example.com/a.png");
told.taken = await drop("image_url", [["first.bin", 3]]);
await chosen("image_url").waitFor();
told.line = await line.evaluate((it) => [it.disabled, it.value, it.placeholder]);
told.text = await drop("image_url", [], "words");

// Two that are dropped before the first one is read.
await page.evaluate(() => { for (const name of ["a.bin", "b.bin"]) window.drop("images", [[name, 2]]); });
await chosen("images").nth(1).waitFor();
told.both = (await chosen("images").evaluateAll((all) => all.map((it) => it.firstChild.textContent))).sort();
await page.getByRole("button", { name: "Call", exact: true }).click();
await page.getByRole("heading", { name: /^Answer/ }).waitFor();

// What all files of the form have together is bounded, whichever fields have them.
const help = page.locator("#field-image_url-help");
await drop("images", [["large.bin", 13e6]]);
await chosen("images").nth(2).waitFor();
await drop("image_url", [["second.bin", 12e6]]);
await help.filter({ hasText: "together" }).waitFor();
told.tooMuch = await help.innerText();
told.kept = await chosen("image_url").evaluate((it) => it.firstChild.textContent);
await drop("image_url", [["third.bin", 10e6]]);
await chosen("image_url").filter({ hasText: "third.bin" }).waitFor();
told.mended = await help.innerText();

await page.evaluate(() => { location.hash = "#/usage"; });
told.stale = await page.getByRole("alert").locator("p").innerText();
await page.evaluate(() => { location.hash = "#/jobs"; });
await title("Jobs");
console.log(JSON.stringify(told));
await browser.close();
