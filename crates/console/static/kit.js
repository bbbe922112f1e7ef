// What every view stands on: the page's address, requests to this server, live streams, and words for times and sizes.
import { h } from "./vendor/preact.js";
import { useEffect, useLayoutEffect, useRef, useState } from "./vendor/hooks.js";
import { signal } from "./vendor/signals.js";
import htm from "./vendor/htm.js";

export const html = htm.bind(h);

// The families of APIs that the server has; it writes them into the page.
export const families = document.documentElement.dataset.families.split(" ");
// Jobs and assets need no key on a server that is open to everybody on its machine; models always need one.
const open = document.documentElement.dataset.open.split(" ");
const needsKey = (path) => (path.startsWith("v1/") ? true : (path.startsWith("api/") || path === "metrics") && !open.includes("workflows"));
export const has = (family) => families.includes(family);

// --- The address: #/view/id?filter=value ---

const parse = () => {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { path: path.split("/").filter(Boolean).map(decodeURIComponent), query: new URLSearchParams(query) };
};
export const route = signal(parse());
addEventListener("hashchange", () => { route.value = parse(); });

export const href = (path, query) => {
  const pairs = Object.entries(query ?? {}).flatMap(([name, value]) =>
    [value].flat().filter((it) => it !== undefined && it !== null && it !== "").map((it) => [name, it]));
  const text = new URLSearchParams(pairs).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text && "?"}${text}`;
};
export const go = (path, query) => { location.hash = href(path, query); };
// The same view with other filters, without a step in the history for each letter.
export const refine = (changes) => {
  const query = Object.fromEntries([...new Set(route.value.query.keys())].map((name) => [name, route.value.query.getAll(name)]));
  history.replaceState(null, "", href(route.value.path, { ...query, ...changes }));
  route.value = parse();
};

// --- Requests ---

const root = new URL("..", document.baseURI);
// The key of the person who looks. It stays in this tab: a reload keeps it, another tab and a restart of the browser do not.
export const key = signal(sessionStorage.getItem("easel-key") ?? "");
export const signIn = (text) => {
  key.value = text.trim();
  if (key.value) sessionStorage.setItem("easel-key", key.value);
  else sessionStorage.removeItem("easel-key");
};

export class Failure extends Error {
  constructor(message, status, code) { super(message); this.status = status; this.code = code; }
}

export const address = (path) => new URL(path, root);
// Signed links carry the public address of the server; this page reaches it under its own.
export const local = (url) => {
  const { pathname, search } = new URL(url);
  const at = pathname.indexOf("/signed/");
  return at < 0 ? url : address(pathname.slice(at + 1) + search).href;
};

const words = (body, status) => {
  const detail = body?.detail;
  const listed = Array.isArray(detail) ? detail.map((it) => `${(it.loc ?? []).slice(1).join(".") || "body"}: ${it.msg}`).join("; ") : detail;
  return body?.error?.message ?? listed ?? body?.message ?? `The server answered ${status}.`;
};

export async function ask(path, { method = "GET", body, signal, headers = {} } = {}) {
  if (!key.value && needsKey(path)) throw new Failure("Sign in first.", 401, "unauthorized");
  const all = { ...headers };
  if (key.value) all.Authorization = `Bearer ${key.value}`;
  if (body !== undefined) all["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(address(path), { method, headers: all, body, signal, credentials: "omit", cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("The server cannot be reached. Is it running?", 0, "unreachable");
  }
  if (response.ok) return response;
  const answer = await response.json().catch(() => null);
  const code = answer?.error?.code ?? response.headers.get("X-Service-Error-Type") ?? "";
  throw new Failure(words(answer, response.status), response.status, code);
}
export const askJson = async (path, options) => {
  const response = await ask(path, options);
  return response.status === 204 ? null : response.json();
};

// --- What a view reads ---

export const visible = signal(!document.hidden);
document.addEventListener("visibilitychange", () => { visible.value = !document.hidden; });

// The answer to `read(signal)`, read again when `deps` or the key change, and by `reload`. What was shown stays until then.
// Nothing is read while `ready` is false. Asking does not wait until the view is drawn, which a plain effect would.
export function useRead(read, deps, ready = true) {
  const [state, set] = useState({ loading: true });
  const [turn, again] = useState(0);
  useLayoutEffect(() => {
    if (!ready) return undefined;
    const abort = new AbortController();
    set((before) => ({ ...before, loading: true }));
    read(abort.signal).then(
      (data) => abort.signal.aborted || set({ data, at: Date.now() }),
      (error) => abort.signal.aborted || set((before) => ({ data: error.status === 401 ? undefined : before.data, error })),
    );
    return () => abort.abort();
  }, [...deps, turn, key.value, ready]);
  return { ...state, set: (change) => set((before) => ({ ...before, data: change(before.data) })), reload: () => again((n) => n + 1) };
}

// Runs `work` every `pause` ms while somebody looks.
export function useWhileVisible(work, pause) {
  const latest = useRef(work);
  latest.current = work;
  useEffect(() => {
    if (!visible.value) return undefined;
    const timer = setInterval(() => latest.current(), pause);
    return () => clearInterval(timer);
  }, [pause, visible.value]);
}

// --- Live streams ---

async function readEvents(body, tell) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const field = (name) => block.split("\n").filter((line) => line.startsWith(`${name}: `)).map((line) => line.slice(name.length + 2)).join("\n");
      const data = field("data");
      if (data) tell(field("event"), JSON.parse(data));
    }
  }
}

// Follows one stream of events while somebody looks, and connects again when it breaks. `over()` tells that nothing more comes.
// `failed` hears of each connection that could not be made.
export function useEvents(path, tell, over = () => false, failed = () => {}) {
  const latest = useRef();
  latest.current = { tell, over, failed };
  const [live, setLive] = useState(false);
  useLayoutEffect(() => {
    if (!path || !visible.value) { setLive(false); return undefined; }
    const abort = new AbortController();
    const follow = async () => {
      for (let pause = 500; !abort.signal.aborted && !latest.current.over(); pause = Math.min(pause * 2, 10000)) {
        try {
          const response = await ask(path, { signal: abort.signal });
          setLive(true);
          pause = 500;
          await readEvents(response.body, (name, data) => latest.current.tell(name, data));
        } catch (error) {
          if (abort.signal.aborted) break;
          latest.current.failed();
          if ([401, 403, 404].includes(error.status)) break;
        }
        setLive(false);
        if (latest.current.over()) break;
        await new Promise((wake) => { const timer = setTimeout(wake, pause); abort.signal.addEventListener("abort", () => { clearTimeout(timer); wake(); }); });
      }
      setLive(false);
    };
    follow();
    return () => abort.abort();
  }, [path, key.value, visible.value]);
  return live;
}

// A list that one stream of the account keeps up to date: read once the stream says `sync`, or at once where there is none.
export function useLive(read, deps, tell, wanted = true) {
  const [turn, next] = useState(0);
  const state = useRead(read, [...deps, turn], turn > 0);
  const live = useEvents(wanted ? "api/v2/events" : null, (event, news) => {
    if (event === "sync") next((n) => n + 1);
    else state.set((data) => data && tell(data, news));
  }, () => false, () => next((n) => n || 1));
  return [state, live];
}

// --- Words ---

export const now = signal(Date.now());
setInterval(() => { if (visible.value) now.value = Date.now(); }, 1000);
visible.subscribe((is) => { if (is) now.value = Date.now(); });

export const span = (ms) => {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "–";
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
  const minutes = Math.floor(ms / 60000);
  if (minutes < 60) return `${minutes} m ${Math.round((ms % 60000) / 1000)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} m`;
};
export const ago = (text) => {
  const ms = now.value - new Date(text);
  if (ms < 5000) return "now";
  if (ms < 60000) return `${Math.floor(ms / 1000)} s ago`;
  if (ms < 3600000) return `${Math.floor(ms / 60000)} min ago`;
  if (ms < 86400000) return `${Math.floor(ms / 3600000)} h ago`;
  return `${Math.floor(ms / 86400000)} d ago`;
};
export const clock = (text) => new Date(text).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
export const size = (bytes) => {
  if (bytes === null || bytes === undefined) return "–";
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  let value = bytes;
  while (value >= 1000 && unit < 4) { value /= 1000; unit += 1; }
  return `${unit && value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
};
export const count = (n) => (n ?? 0).toLocaleString("en");
export const short = (id) => id.slice(-12);
export const isOver = (status) => ["succeeded", "canceled", "failed", "expired"].includes(status);
export const money = (cents) => ((cents ?? 0) / 100).toLocaleString("en", { style: "currency", currency: "USD" });

// --- Jobs in lists ---

// How long a job waited, and how long it has run; of a live one, until now.
export const waited = (job) => job.metrics.queue_ms ?? (isOver(job.status) ? null : now.value - new Date(job.created_at));
export const ran = (job) => job.metrics.execution_ms ?? (job.started_at && !isOver(job.status) ? now.value - new Date(job.started_at) : null);

// Puts what the stream told into a page: a known job changes in place, a new one goes to the top of the first page.
export function merge(jobs, news, takesNew) {
  const at = jobs.findIndex((job) => job.id === news.id);
  if (at >= 0) {
    const changed = [...jobs];
    // What the stream leaves out (outputs) stays.
    changed[at] = { ...jobs[at], ...news, outputs: news.outputs ?? jobs[at].outputs };
    return changed;
  }
  return takesNew(news) ? [{ outputs: [], ...news }, ...jobs] : jobs;
}
