// A window that stays open while its server is restarted, and what it shows when the server is back.
//
// Before that, Run does not reach the server once, and the page says so.
//
// Arguments: the server's address, a picture (not used), a file for the screenshot, and a key to sign in with. Says `stands` when
// the page is ready, and prints one JSON object once the page where one signs in has taken its place.
import { run, signIn, stands, start } from "./page.mjs";

const [address, , screenshot, key] = process.argv.slice(2);

const { told, open, end } = await start(address);
const page = await open();
await page.goto(`http://${address}/`);
await signIn(page, key);
await stands(page);
await page.waitForFunction(() => window.app.api.socket?.readyState === WebSocket.OPEN && window.app.api.clientId);

await page.route("**/api/prompt", (route) => route.abort());
await run(page).click();
const failure = page.getByRole("dialog").filter({ hasText: "Prompt execution failed" });
await failure.waitFor();
told.failure = await failure.innerText();
console.log("stands");

await page.waitForURL(`http://${address}/signin`);
await page.getByLabel("API key").waitFor();
told.url = page.url();
await page.screenshot({ path: screenshot });
await end();
