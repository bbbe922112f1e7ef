// What the scripts that drive the unmodified web page have in common: windows of headless Chromium in which this server alone is
// reached, what went wrong in them, the sign-in, and when a page is ready to be drawn on.
import { readFileSync } from "node:fs";
import { launch, watch } from "./browser.mjs";

// A browser, and `told`, which is printed by `end` as one JSON object. Arguments as those of `watch`.
export async function start(address, isExpected) {
  const browser = await launch();
  const told = {};
  const open = async (options = {}) => {
    const context = await browser.newContext({ viewport: { width: 1600, height: 1000 }, ...options });
    const page = await context.newPage();
    page.setDefaultTimeout(300_000);
    watch(page, address, told, isExpected);
    await alone(page, address);
    return page;
  };
  const end = async () => {
    console.log(JSON.stringify(told));
    await browser.close();
  };
  return { told, open, end };
}

// Nothing but this server is part of a test: others, whom the page asks what a node pack is called, know nothing.
export const alone = (page, address) => page.route((url) => url.host !== address, (route) => route.fulfill({
  status: 200, contentType: "application/json", body: "{}", headers: { "Access-Control-Allow-Origin": "*" },
}));

// Makes the account one that was here before: it has the picture that a first visit is given, which the page's own first graph loads, and
// it is shown no template. To be done before the page is opened, which asks once. Answers the statuses.
export async function wasHere(page, base, key) {
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  const data = { "Comfy.TutorialCompleted": true, "Comfy.InstalledVersion": "1.58.1" };
  const image = { name: "example.png", mimeType: "image/png", buffer: readFileSync(new URL("../../examples/photo.png", import.meta.url)) };
  const answers = [
    await page.request.post(`${base}/api/settings`, { data, headers }),
    await page.request.post(`${base}/api/upload/image`, { multipart: { image }, headers }),
  ];
  return answers.map((answer) => answer.status());
}

// Signs in, on the page that a server with keys shows first.
export async function signIn(page, key) {
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForURL((url) => !url.pathname.endsWith("/signin"));
}

// Waits until the page has begun: it opens a graph of its own meanwhile, over whatever is drawn before. The page shows a spinner until then.
export const stands = (page) => page.waitForFunction(
  () => window.app?.vueAppReady && window.app.extensionManager.spinner === false && window.app.graph?.nodes.length > 0,
);

export const run = (page) => page.getByRole("button", { name: "Run", exact: true });
