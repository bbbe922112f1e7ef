// What the tests of pages have in common: headless Chromium that is driven by the keyboard alone, what went wrong in it, and looks at
// views. `EASEL_PLAYWRIGHT` and `EASEL_AXE` are folders with node_modules/playwright-core and node_modules/axe-core,
// `EASEL_CHROMIUM` is the browser.
import { createRequire } from "node:module";
import path from "node:path";

const modules = (folder) => createRequire(path.join(folder, "package.json"));
const { chromium } = modules(process.env.EASEL_PLAYWRIGHT)("playwright-core");
const { source: axe } = modules(process.env.EASEL_AXE)("axe-core");

// A page that asks the server at `address` alone. `told` has what a test prints: `errors`, requests to `elsewhere`, `serious` findings
// and the `views` that were looked at. Screenshots are put into `folder`.
export async function open(address, folder, patience) {
  const browser = await chromium.launch({ executablePath: process.env.EASEL_CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  page.setDefaultTimeout(patience);
  const told = { errors: [], elsewhere: [], serious: [], views: [] };
  page.on("pageerror", (error) => told.errors.push(String(error)));
  page.on("console", (message) => message.type() === "error" && told.errors.push(`${message.text()} ${message.location().url}`));
  page.on("request", (request) => new URL(request.url()).host === address || /^(data|blob):/.test(request.url()) || told.elsewhere.push(request.url()));

  const press = async (...keys) => { for (const one of keys) await page.keyboard.press(one); };
  const tabTo = async (locator) => {
    for (let steps = 0; steps < 120; steps += 1) {
      if (await locator.evaluate((it) => it === document.activeElement)) return;
      await press("Tab");
    }
    throw new Error(`Tab does not reach ${locator}`);
  };
  // Looks at a view: what an accessibility checker finds in both colour schemes, and two screenshots.
  const look = async (view) => {
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe);
      const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
      const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
      told.serious.push(...serious.map(({ id, nodes }) => `${view} (${colorScheme}): ${id}: ${nodes.map((node) => node.target.join(" ")).join(", ")}`));
      await page.screenshot({ path: path.join(folder, `${view}-${colorScheme}.png`) });
    }
    told.views.push(view);
  };
  const title = (name) => page.getByRole("heading", { level: 1, name, exact: true }).waitFor();
  return { browser, page, told, press, tabTo, look, title };
}
