// What the tests of pages have in common: headless Chromium, what went wrong in it, the keyboard alone, and looks at views.
// `EASEL_PLAYWRIGHT` and `EASEL_AXE` are folders with node_modules/playwright-core and node_modules/axe-core, `EASEL_CHROMIUM` is the
// browser. The second one is needed for looks at views only.
import { createRequire } from "node:module";
import path from "node:path";

const modules = (folder) => createRequire(path.join(folder, "package.json"));

export const launch = () => modules(process.env.EASEL_PLAYWRIGHT)("playwright-core").chromium
  .launch({ executablePath: process.env.EASEL_CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });

// Notes in `told` what goes wrong in a page: `errors` of its scripts and in its console, `refused` requests, and the hosts `outside`
// that it asks in place of the server at `address`. A refusal, or what the console says of it, is left out where `isExpected` its address.
export function watch(page, address, told, isExpected = () => false) {
  Object.assign(told, { errors: [], refused: [], outside: [], ...told });
  page.on("pageerror", (error) => told.errors.push(String(error)));
  page.on("console", (line) => {
    const { url } = line.location();
    if (line.type() === "error" && !isExpected(url)) told.errors.push(`${line.text()} ${url}`);
  });
  page.on("response", (answer) => {
    if (answer.status() >= 400 && !isExpected(answer.url())) told.refused.push(`${answer.status()} ${answer.url()}`);
  });
  page.on("request", (request) => {
    const { host, protocol } = new URL(request.url());
    if (host !== address && !/^(data|blob):$/.test(protocol)) told.outside.push(host);
  });
}

// A page that is looked at. `told` has what a test prints: what `watch` notes, `serious` findings and the `views` that were looked at.
// Screenshots are put into `folder`.
export async function open(address, folder, patience) {
  const { source: axe } = modules(process.env.EASEL_AXE)("axe-core");
  const browser = await launch();
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  page.setDefaultTimeout(patience);
  const told = { serious: [], views: [] };
  watch(page, address, told);

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
