// Drives the console in headless Chromium by the keyboard alone: signs in, follows jobs live, opens one, runs it again, cancels,
// looks at assets, calls a model, operates accounts, webhooks, workers, a deployment and a published model. Looks over every view with axe, light and dark, and takes a screenshot of it.
//
// Arguments: the server's address, a key, a folder for screenshots, the key of an operator, the address of a receiver of webhooks, and that
// of a ComfyUI worker. The server has a deployment `sim` and a published model `easel/square` of two versions.
// Prints one JSON object.
import fs from "node:fs/promises";
import { open } from "./browser.mjs";

const [address, key, folder, operatorKey, receiver, worker] = process.argv.slice(2);
const base = `http://${address}`;

const { browser, page, told, press, tabTo, look, title } = await open(address, folder, 120_000);

// What each view reads, by its address: paths, and those of them that are streams.
await page.addInitScript(() => {
  const real = fetch;
  window.read = {};
  window.fetch = async (url, options) => {
    const view = location.hash;
    const answer = await real(url, options);
    if (options.method === "GET") (window.read[view] ??= {})[new URL(url).pathname] = answer.headers.get("Content-Type")?.startsWith("text/event-stream") ?? false;
    return answer;
  };
});

const api = async (where, options = {}, by = key) => {
  const answer = await fetch(`${base}/${where}`, { ...options, headers: { Authorization: `Bearer ${by}`, "Content-Type": "application/json", ...options.headers } });
  if (!answer.ok) throw new Error(`${where}: ${answer.status} ${await answer.text()}`);
  return answer.status === 204 ? null : answer.json();
};
const submit = (workflow, metadata) => api("api/v2/jobs", { method: "POST", body: JSON.stringify({ workflow, metadata }) });

const picture = (color, steps) => ({
  1: { class_type: "EmptyImage", inputs: { width: 256, height: 192, batch_size: 1, color }, _meta: { title: "Canvas" } },
  ...Object.fromEntries(Array.from({ length: steps }, (_, n) => [n + 2, { class_type: "ImageBlur", inputs: { image: [`${n + 1}`, 0], blur_radius: 3, sigma: 1 } }])),
  [steps + 2]: { class_type: "SaveImage", inputs: { images: [`${steps + 1}`, 0], filename_prefix: "picture" }, _meta: { title: "Save" } },
});
const heavy = (color) => {
  const graph = picture(color, 40);
  graph[1].inputs.width = graph[1].inputs.height = 4096;
  for (let n = 2; n < 42; n += 1) graph[n].inputs = { ...graph[n].inputs, blur_radius: 31, sigma: 5 };
  return graph;
};

// Signing in. What the files of the console weigh is counted on the way.
const transferred = [];
page.on("requestfinished", async (request) => {
  const where = new URL(request.url()).pathname;
  if (where.startsWith("/console/")) transferred.push(request.sizes().then((sizes) => [where, sizes.responseBodySize]));
});
await page.goto(`${base}/console/`);
await page.getByRole("heading", { name: "Sign in" }).waitFor();
told.beside = [await page.locator(".figure").count(), await page.getByText("own figures").count()];
await look("signin");
await tabTo(page.getByLabel("API key"));
await page.keyboard.type(key);
await press("Enter");
await title("Overview");
await page.getByText("Live", { exact: true }).waitFor();

// When the first view is painted, and when its data stand there, in ms: of a new visitor, and of one who was here before, who asks for
// the page alone. The middle of five each.
const visits = { first: [], again: [] };
told.askedAgain = [];
for (let n = 0; n < 5; n += 1) {
  const visitor = await browser.newContext();
  const visit = await visitor.newPage();
  await visit.addInitScript((key) => {
    sessionStorage.setItem("easel-key", key);
    const painted = new Promise((tell) => { new PerformanceObserver((list) => list.getEntriesByName("first-contentful-paint").forEach((it) => tell(it.startTime))).observe({ type: "paint", buffered: true }); });
    const stands = new Promise((tell) => {
      const look = new MutationObserver(() => {
        if ([...document.querySelectorAll(".figure .name")].some((it) => it.textContent === "Queued")) { look.disconnect(); requestAnimationFrame(() => tell(performance.now())); }
      });
      look.observe(document, { childList: true, subtree: true });
    });
    window.times = Promise.all([painted, stands]);
  }, key);
  // The files of the other views follow the first view, and a visitor who is here again has them all.
  const views = ["overview", "jobs", "job", "assets", "models", "usage", "operate", "deployments", "published"];
  for (const [kind, load] of [["first", () => visit.goto(`${base}/console/`)], ["again", () => visit.reload()]]) {
    await load();
    visits[kind].push(await visit.evaluate(() => window.times));
    await visit.waitForFunction((views) => {
      const read = performance.getEntriesByType("resource").map((it) => it.name.split("/").pop());
      return views.every((view) => read.includes(`${view}.js`));
    }, views);
  }
  told.askedAgain.push(...await visit.evaluate(() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
    .filter((it) => it.transferSize > 0).map((it) => new URL(it.name).pathname).filter((it) => it.startsWith("/console/"))));
  await visitor.close();
}
const middle = (times) => Math.round(times.sort((a, b) => a - b)[2]);
told.firstView = Object.fromEntries(Object.entries(visits).map(([kind, them]) => [kind, { painted: middle(them.map((it) => it[0])), stands: middle(them.map((it) => it[1])) }]));

// Jobs show up by themselves.
await press("g", "j");
await title("Jobs");
await page.getByText("No jobs yet").waitFor();
const first = await submit(picture(0x5e5ce6, 3), { name: "first", customer: "acme" });
const row = page.getByRole("row").filter({ hasText: "first" });
await row.getByText("succeeded").waitFor();
await submit({ 1: { class_type: "EmptyImage", inputs: { width: 16384, height: 16384, batch_size: 64, color: 0 } }, 2: { class_type: "SaveImage", inputs: { images: ["1", 0], filename_prefix: "poster" } } }, { name: "too large", customer: "initech" });
await page.getByRole("row").filter({ hasText: "too large" }).getByText("failed").waitFor();
await submit(picture(0x2a9d8f, 2), { name: "second", customer: "globex" });
await page.getByRole("row").filter({ hasText: "second" }).getByText("succeeded").waitFor();
await look("jobs");

// Filters are in the address.
await press("/");
await page.keyboard.type("customer=acme");
await press("Enter");
await page.getByRole("row").filter({ hasText: "second" }).waitFor({ state: "detached" });
told.filtered = await page.evaluate(() => location.hash);

// One job, with its waterfall, graph, JSON and log.
await page.getByLabel("Labels, as name=value").evaluate((it) => it.blur());
await press("j", "Enter");
await title("first");
await page.locator(".lane .work").nth(4).waitFor();
told.waterfall = await page.locator(".waterfall tbody tr").count();
await page.getByRole("button", { name: /picture_00001_/ }).waitFor();
await page.waitForFunction(() => document.querySelector(".output img")?.naturalWidth === 256);
await look("job");
await tabTo(page.getByRole("tab", { name: "Waterfall" }));
for (const [tab, shows] of [["Graph", ".graph rect"], ["JSON", ".code-box pre"], ["Log", ".code-box pre"]]) {
  await press("ArrowRight");
  await page.getByRole("tab", { name: tab, selected: true }).waitFor();
  await page.locator(shows).first().waitFor();
  if (tab === "Graph") await look("graph");
}

// Run again, with a change.
await press("Home");
await tabTo(page.getByRole("button", { name: "Run again …" }));
await press("Enter");
const graph = page.getByLabel("The graph, with the changes that you make here");
await look("again");
await tabTo(graph);
await press("ControlOrMeta+a");
await page.keyboard.insertText(JSON.stringify(picture(0xe76f51, 1)));
await tabTo(page.getByRole("button", { name: "Submit" }));
await press("Enter");
await page.waitForFunction((id) => location.hash.startsWith("#/jobs/") && !location.hash.includes(id), first.id);
await page.locator(".lane .work").nth(2).waitFor();
told.again = (await api("api/v2/jobs")).jobs[0].metadata;

// A failure says why.
await press("g", "j");
await title("Jobs");
await tabTo(page.getByRole("button", { name: "failed", exact: true }));
await press("Space");
await tabTo(page.getByRole("link", { name: "too large" }));
await press("Enter");
told.failure = await page.getByRole("alert").innerText();
await look("failed");

// A job that waits is canceled.
const [running] = [await submit(heavy(1), { name: "heavy" }), await submit(heavy(2), { name: "heavy" })];
const waiting = await submit(picture(7, 1), { name: "waits" });
// One that is opened late shows what is known of its nodes.
const followed = await fetch(`${base}/api/v2/jobs/${running.id}/events`, { headers: { Authorization: `Bearer ${key}` } });
let events = "";
for await (const piece of followed.body.pipeThrough(new TextDecoderStream())) {
  events += piece;
  if (/"nodes_done":[1-9]/.test(events)) break;
}
await page.evaluate((id) => { location.hash = `#/jobs/${id}`; }, running.id);
await page.getByText("Live", { exact: true }).waitFor();
await page.locator(".waterfall .number", { hasText: /^over / }).first().waitFor();
told.late = (await page.getByRole("row").filter({ hasText: "Canvas" }).innerText()).split("\t").map((it) => it.trim());
await page.locator(".lane .work").nth(2).waitFor();
await page.getByText("did not see").waitFor();
await look("running");
await page.evaluate((id) => { location.hash = `#/jobs/${id}`; }, waiting.id);
await title("waits");
await tabTo(page.getByRole("button", { name: "Cancel" }));
await press("Enter");
await page.locator(".top .status").filter({ hasText: "canceled" }).waitFor();
// Another view begins at its top.
await page.evaluate((id) => { location.hash = `#/jobs/${id}`; }, running.id);
await page.locator(".lane .work").first().waitFor();
await page.evaluate(() => scrollTo(0, 400));
await press("g", "o");
await title("Overview");
await page.waitForFunction(() => scrollY === 0);
await page.getByText("heavy").first().waitFor();
await look("overview");
for (const job of (await api("api/v2/jobs?status=queued&status=running")).jobs) await api(`api/v2/jobs/${job.id}/cancel`, { method: "POST" });

// Nothing is asked while nobody looks.
await page.getByText("Nothing runs").waitFor();
await page.clock.install();
let asked = 0;
await page.evaluate(() => { Object.defineProperty(document, "hidden", { get: () => window.away ?? false }); });
const away = page.getByText("Live", { exact: true }).waitFor({ state: "detached" });
await page.evaluate(() => { window.away = true; document.dispatchEvent(new Event("visibilitychange")); });
await away;
page.on("request", () => { asked += 1; });
await page.clock.runFor(120_000);
told.askedWhileHidden = asked;
await page.evaluate(() => { window.away = false; document.dispatchEvent(new Event("visibilitychange")); });
await page.clock.resume();
await page.getByText("Live", { exact: true }).waitFor();

// Assets.
await press("g", "a");
await title("Assets");
await page.locator(".gallery img").first().waitFor();
await page.waitForFunction(() => [...document.querySelectorAll(".gallery img")].every((it) => it.naturalWidth > 0));
await look("assets");
await tabTo(page.locator(".output").first());
await press("Enter");
await page.getByRole("dialog").getByText("Hash").waitFor();
await look("asset");
await press("Escape");
await page.getByRole("dialog").waitFor({ state: "detached" });
told.focusReturns = await page.evaluate(() => document.activeElement.className);

// Models.
await press("g", "m");
await title("Models");
await page.getByRole("link", { name: /resize/ }).waitFor();
await look("models");
await tabTo(page.getByLabel("Search models"));
await page.keyboard.type("resize");
await tabTo(page.getByRole("link", { name: /resize/ }));
await press("Enter");
await tabTo(page.getByRole("button", { name: "Call" }));
await press("Enter");
told.needed = await page.evaluate(() => document.activeElement.id);
const pixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGM4EWlQDwAEzQHmmKCNWgAAAABJRU5ErkJggg==";
await tabTo(page.getByLabel("image", { exact: false }).first());
await page.keyboard.insertText(pixel);
await tabTo(page.getByRole("tab", { name: "curl" }));
told.code = [];
for (const language of ["curl", "Python", "TypeScript"]) {
  await page.getByRole("tab", { name: language, selected: true }).waitFor();
  told.code.push((await page.getByRole("tabpanel").innerText()).includes("iVBORw0KGgo"));
  await press("ArrowRight");
}
await tabTo(page.getByRole("button", { name: "Estimate" }));
await press("Enter");
told.price = await page.getByText("A call costs").innerText();
await page.getByRole("button", { name: "Call" }).focus();
await press("Enter");
await page.getByRole("heading", { name: /^Answer/ }).waitFor();
told.answer = await page.getByRole("region", { name: "The answer" }).innerText();
await look("model");
// A file is chosen by the keyboard, taken away, and dropped; the answer is made of it: 8 times 2 pixels, scaled to 512 in width.
const banner = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAACCAIAAADq9gq6AAAAEUlEQVR4nGN4FmWDFTHgkgAAXLAXwYCiCAcAAAAASUVORK5CYII=";
const choosing = page.waitForEvent("filechooser");
await tabTo(page.getByRole("button", { name: "Choose a file for image" }));
await press("Enter");
await (await choosing).setFiles({ name: "banner.png", mimeType: "image/png", buffer: Buffer.from(banner, "base64") });
await tabTo(page.getByRole("button", { name: "Remove banner.png" }));
await press("Enter");
await page.getByText("banner.png").waitFor({ state: "detached" });
told.focusAfterRemoval = await page.evaluate(() => document.activeElement.ariaLabel);
const dropped = await page.evaluateHandle((text) => {
  const transfer = new DataTransfer();
  transfer.items.add(new File([Uint8Array.from(atob(text), (it) => it.charCodeAt())], "dropped.png", { type: "image/png" }));
  return transfer;
}, banner);
await page.locator(".field").first().dispatchEvent("drop", { dataTransfer: dropped });
await page.locator(".files .label").filter({ hasText: "dropped.png" }).waitFor();
told.disabled = await page.getByRole("textbox", { name: "image" }).evaluate((it) => it.disabled && it.value === "");
await look("model-file");
const bodies = [];
page.on("request", (request) => request.method() === "POST" && request.url().endsWith("/v1/models/easel/resize") && bodies.push(request.postDataJSON()));
await tabTo(page.getByRole("button", { name: "Call" }));
await press("Enter");
const made = page.locator("img.answer");
await page.waitForFunction(() => document.querySelector("img.answer")?.naturalWidth === 512);
told.scaled = await made.evaluate((it) => [it.naturalWidth, it.naturalHeight]);
told.sent = bodies[0].image === `data:image/png;base64,${banner}`;
await press("Escape");
await page.evaluate(() => document.activeElement.blur());
// As if another partner had failed before.
const failedBefore = { model: "fal/resize", status: "provider_timeout", message: "it took too long", began_at: "2026-11-26T10:00:00Z", ended_at: "2026-11-26T10:00:07Z", upstream_status: 504 };
await page.route("**/v1/calls?*", async (route) => {
  const response = await route.fetch();
  const json = await response.json();
  for (const call of json.data) call.generation.failed_attempts = [failedBefore];
  await route.fulfill({ response, json });
});
await press("g", "c");
await title("Calls");
await page.getByRole("row").filter({ hasText: "easel/resize" }).nth(1).waitFor();
await look("calls");
await press("j", "Enter");
await page.getByRole("dialog", { name: "easel/resize" }).getByText("Billed").waitFor();
told.attempt = await page.getByRole("dialog").getByRole("listitem").innerText();
await press("Escape");
await press("g", "u");
await title("Usage");
await page.getByRole("row").filter({ hasText: "easel/resize" }).waitFor();
const saved = page.waitForEvent("download");
await tabTo(page.getByRole("button", { name: "CSV" }));
await press("Enter");
told.csv = (await fs.readFile(await (await saved).path(), "utf8")).split("\r\n").map((line) => line.slice(line.indexOf(",") + 1));
await look("usage");
const label = { "X-Service-Label": "project=atlas", "Idempotency-Key": "with-a-label" };
await api("v1/models/easel/resize", { method: "POST", body: JSON.stringify({ image: pixel }), headers: label });
await tabTo(page.getByLabel("Sum up by a label of calls"));
await page.keyboard.type("project");
await press("Enter");
await page.getByRole("heading", { name: "By label project" }).waitFor();
await page.getByRole("row", { name: "atlas 1" }).waitFor();
// Their own webhooks are everybody's.
await page.evaluate(() => document.activeElement.blur());
await press("g", "h");
await title("Webhooks");
await page.getByText("No webhooks").waitFor();
await tabTo(page.getByLabel("Address of a new webhook"));
await page.keyboard.insertText(receiver);
await tabTo(page.getByRole("button", { name: "Add webhook" }));
await press("Enter");
told.ownSecret = (await page.getByRole("dialog", { name: "The secret" }).locator("code").innerText()).slice(0, 6);
await press("Escape");
await page.getByRole("row").filter({ hasText: receiver }).waitFor();
await look("own-webhooks");
await page.evaluate(() => document.activeElement.blur());
await press("j", "Enter");
await title(receiver);
await tabTo(page.getByRole("button", { name: "Disable" }));
await press("Enter");
await page.getByText("disabled (operator)").waitFor();
await page.evaluate(() => document.activeElement.blur());
await press("?");
await page.getByRole("dialog", { name: "Keys" }).waitFor();
await look("keys");
await press("Escape");
await tabTo(page.getByRole("button", { name: "Sign out" }));
await press("Enter");
await page.getByRole("heading", { name: "Sign in" }).waitFor();

// What an operator does: another key, and the views that it may see.
await page.evaluate(() => document.activeElement.blur());
await press("g", "t");
await title("Accounts");
await tabTo(page.getByLabel("API key"));
await page.keyboard.type(operatorKey);
await press("Enter");
await page.getByRole("row").filter({ hasText: "acme" }).waitFor();
await page.evaluate(() => document.activeElement.blur());
await look("accounts");
// They add an account, give it a key, and set a limit.
await tabTo(page.getByLabel("Id of a new account"));
await page.keyboard.type("beta");
await press("Enter");
await title("beta");
await tabTo(page.getByLabel("Name of a new key"));
await page.keyboard.type("shop");
await press("Enter");
const newKey = await page.getByRole("dialog", { name: "The key" }).locator("code").innerText();
told.newKey = (await api("api/v2/jobs", {}, newKey)).jobs;
await press("Escape");
await page.getByRole("row").filter({ hasText: "shop" }).waitFor();
await tabTo(page.getByRole("combobox", { name: "Limit" }));
await page.keyboard.type("budgets");
await tabTo(page.getByRole("textbox", { name: "Value" }));
await page.keyboard.type("500/hour");
await press("Enter");
await page.getByText("$5.00 of $5.00 left this hour").waitFor();
await page.evaluate(() => document.activeElement.blur());
await press("g", "t");
await title("Accounts");
await page.getByRole("row").filter({ hasText: "beta" }).waitFor();
await press("j", "Enter");
await title("acme");
await tabTo(page.getByLabel("Address of a new webhook"));
await page.keyboard.insertText(receiver);
await tabTo(page.getByLabel("call.ended"));
await press(" ");
await tabTo(page.getByRole("button", { name: "Add webhook" }));
await press("Enter");
const secret = page.getByRole("dialog", { name: "The secret" });
told.secret = (await secret.locator("code").innerText()).slice(0, 6);
await press("Escape");
await page.getByRole("row").filter({ hasText: receiver }).waitFor();
await tabTo(page.getByLabel("Budgets of a key or label"));
await page.keyboard.type("label:customer=acme");
await tabTo(page.getByLabel("US cents"));
await page.keyboard.type("300/month");
await press("Enter");
await page.getByText("$3.00 of $3.00 left this month, label:customer=acme").waitFor();
await page.evaluate(() => scrollTo(0, 0));
await look("account");
await page.evaluate(() => document.activeElement.blur());
await press("g", "h");
await title("Webhooks");
await tabTo(page.getByRole("link", { name: "All accounts" }));
await press("Enter");
await title("All webhooks");
await page.getByRole("row").filter({ hasText: "job.ended, call.ended" }).waitFor();
await look("webhooks");
await tabTo(page.getByRole("row").filter({ hasText: "job.ended, call.ended" }).getByRole("link"));
await press("Enter");
await title(receiver);
await tabTo(page.getByRole("button", { name: "Test" }));
await press("Enter");
await page.getByRole("row").filter({ hasText: "webhook.test" }).getByText("delivered").waitFor();
told.leaked = (await page.content()).includes("whsec_");
await look("webhook");
page.once("dialog", (dialog) => dialog.accept());
await tabTo(page.getByRole("button", { name: "Remove" }));
await press("Enter");
await title("All webhooks");
await page.getByRole("row").filter({ hasText: "disabled (operator)" }).waitFor();
told.hooks = (await api("api/v2/admin/webhooks", {}, operatorKey)).webhooks.map((it) => it.account);
// An operator holds an asset, and lets it go.
const holds = [];
page.on("response", (answer) => answer.url().endsWith("/hold") && holds.push([answer.request().method(), answer.status()]));
await page.evaluate(() => document.activeElement.blur());
await press("g", "a");
await title("Assets");
await tabTo(page.locator(".output").first());
await press("Enter");
await tabTo(page.getByRole("button", { name: "What keeps it" }));
await press("Enter");
await page.getByText(", which made it, as long as that job is kept").waitFor();
await tabTo(page.getByRole("button", { name: "Hold" }));
await press("Enter");
await page.getByText("an operator, until it is released").waitFor();
await look("holds");
await tabTo(page.getByRole("button", { name: "Release" }));
await press("Enter");
await page.getByText("an operator, until it is released").waitFor({ state: "detached" });
told.holds = holds;
await press("Escape");
// An operator sees why a job waits.
const busy = await submit(heavy(3), { name: "heavy" });
const behind = await submit(picture(8, 1), { name: "behind" });
await page.evaluate((id) => { location.hash = `#/jobs/${id}`; }, behind.id);
await title("behind");
await tabTo(page.getByRole("button", { name: "Why it waits" }));
await press("Enter");
told.why = await page.getByRole("status").filter({ hasText: "at once" }).innerText();
for (const { id } of [behind, busy]) await api(`api/v2/jobs/${id}/cancel`, { method: "POST" });
await page.evaluate(() => document.activeElement.blur());
await press("g", "w");
await title("Workers");
await page.getByText("No workers").waitFor();
await tabTo(page.getByLabel("Address of a new worker"));
await page.keyboard.type(worker);
await press("Tab");
await page.keyboard.type("gpu-1");
await press("Enter");
const gpu = page.getByRole("row").filter({ hasText: "gpu-1" });
await gpu.getByText("ready", { exact: true }).waitFor();
await look("workers");
await tabTo(gpu.getByRole("button", { name: "Drain gpu-1" }));
await press("Enter");
await gpu.getByText("an operator drained it").waitFor();
await tabTo(gpu.getByRole("button", { name: "Resume gpu-1" }));
await press("Enter");
await gpu.getByText("ready", { exact: true }).waitFor();
await page.evaluate(() => document.activeElement.blur());
await press("g", "o");
await title("Overview");
await page.getByRole("listitem").filter({ hasText: "gpu-1" }).getByText("ready").waitFor();
// That of the deployment is one of them.
await page.locator(".figure", { hasText: "Workers" }).getByText("2 of 2").waitFor();
await look("fleet");
await press("g", "w");
await title("Workers");
page.once("dialog", (dialog) => dialog.accept());
await tabTo(gpu.getByRole("button", { name: "Remove gpu-1" }));
await press("Enter");
await gpu.waitFor({ state: "detached" });
await page.evaluate(() => document.activeElement.blur());
await press("g", "d");
await title("Deployments");
await page.getByRole("row").filter({ hasText: "sim" }).getByText("ready", { exact: true }).waitFor();
await look("deployments");
await press("j", "Enter");
await title("sim");
await page.getByRole("row").filter({ hasText: "sim-1" }).getByText("ready", { exact: true }).waitFor();
await page.getByRole("row").filter({ hasText: "sim-1" }).getByText("closed", { exact: true }).waitFor();
const least = page.getByLabel("Least");
await tabTo(least);
await press("ArrowUp");
await press("Enter");
await page.getByText("it has 2 to 3 workers").waitFor();
await page.getByRole("row").filter({ hasText: "sim-2" }).getByText("ready", { exact: true }).waitFor();
await tabTo(page.getByRole("button", { name: "New revision" }));
await press("Enter");
const definition = page.getByLabel("The definition");
const read = JSON.parse(await definition.inputValue());
await tabTo(definition);
await press("Control+a");
await page.keyboard.insertText("{");
await tabTo(page.getByRole("button", { name: "Apply" }));
await press("Enter");
told.no_json = await page.getByRole("dialog").getByRole("alert").innerText();
await look("revision");
await tabTo(definition);
await press("Control+a");
await page.keyboard.insertText(JSON.stringify({ ...read, idle_window_s: 77 }));
await tabTo(page.getByRole("button", { name: "Apply" }));
await press("Enter");
await page.getByRole("row").filter({ hasText: "2 (current)" }).waitFor();
await tabTo(page.getByRole("button", { name: "Stop", exact: true }));
await press("Enter");
await page.getByText("an operator stopped it; `deployment start` starts it", { exact: true }).waitFor();
await page.evaluate(() => scrollTo(0, 0));
await look("deployment");
page.once("dialog", (dialog) => dialog.accept());
await tabTo(page.getByRole("button", { name: "Remove" }));
await press("Enter");
await title("Deployments");
await page.getByText("No deployments").waitFor();
await page.evaluate(() => document.activeElement.blur());
await press("g", "p");
await title("Published models");
await page.getByRole("row").filter({ hasText: "easel/square" }).getByText("version 2").waitFor();
await look("published");
await press("j", "Enter");
await title("easel / square");
await page.getByRole("row").filter({ hasText: "2 (offered)" }).waitFor();
await look("published-model");
page.on("dialog", (dialog) => dialog.accept());
await tabTo(page.getByRole("button", { name: "Withdraw version 2" }));
await press("Enter");
await page.getByRole("row").filter({ hasText: "1 (offered)" }).waitFor();
await tabTo(page.getByRole("button", { name: "Withdraw", exact: true }));
await press("Enter");
await page.getByRole("definition").filter({ hasText: "withdrawn" }).waitFor();
told.withdrawn = (await api("api/v2/admin/models", {}, operatorKey)).models.map(({ id, state }) => [id, state]);
await page.evaluate(() => document.activeElement.blur());
await press("g", "s");
await title("Settings");
await tabTo(page.getByLabel("Find a setting"));
await page.keyboard.type("token");
await page.getByRole("row").filter({ hasText: "token" }).first().waitFor();
told.settings = await page.getByRole("table").innerText();
await press("ControlOrMeta+a", "Backspace");
await look("settings");
await tabTo(page.getByRole("button", { name: "Sign out" }));
await press("Enter");
await page.getByRole("heading", { name: "Sign in" }).waitFor();
// The most that a view reads, without what a person asked for by a button or a dialog.
const aside = /^\/(api\/v2\/admin\/(assets|jobs)|v1\/generations)\//;
told.read = {};
for (const [address, paths] of Object.entries(await page.evaluate(() => window.read))) {
  const [, view, ...rest] = address.split("?")[0].split("/");
  const name = `${view || "overview"}${rest.length ? "/one" : ""}`;
  const streams = Object.entries(paths).filter(([path]) => !aside.test(path)).map(([, streams]) => streams);
  const [requests, followed] = [false, true].map((kind) => streams.filter((it) => it === kind).length);
  const most = told.read[name] ?? [0, 0];
  told.read[name] = [Math.max(most[0], requests), Math.max(most[1], followed)];
}
const files = {};
for (const [where, bytes] of await Promise.all(transferred)) files[where] = Math.max(files[where] ?? 0, bytes);
told.bytes = Object.values(files).reduce((sum, bytes) => sum + bytes, 0);
told.files = Object.keys(files).length;
console.log(JSON.stringify(told));
await browser.close();
