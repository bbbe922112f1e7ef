// What this server adds to the ComfyUI page: who is signed in, where each class of nodes runs, and what a workflow lacks before
// it is run. It speaks to this server alone, and uses only what the page offers to extensions.
import { app } from "../../scripts/app.js";
import { api } from "../../scripts/api.js";

const START = "easel-first-picture";

// Most classes that one message names.
const MOST_NAMED = 6;

// How long a server is left alone that no socket is open to.
const ASK_AGAIN_MS = 1_000;

const NEEDS = {
  model: "only on a ComfyUI worker that has the model",
  worker: "only on a ComfyUI worker",
  other: "unknown here; a ComfyUI worker with the node pack may have it",
};

// ---- A session that is over leads to the page where one begins. ----

let leaving = false;
function signIn() {
  if (leaving) return;
  leaving = true;
  window.location.assign(api.fileURL("/signin"));
}

const fetchApi = api.fetchApi.bind(api);
api.fetchApi = async (...request) => {
  const answer = await fetchApi(...request).catch((error) => {
    // The page blames the extension that it finds in the stack of a failure, and a server that is not reached is no fault of this one.
    if (typeof error?.stack === "string") {
      const stack = error.stack.split("\n").filter((line) => !line.includes("/extensions/easel/"));
      Reflect.set(error, "stack", stack.join("\n"));
    }
    throw error;
  });
  if (answer.status === 401) signIn();
  return answer;
};

const readFacts = async () => {
  const answer = await api.fetchApi("/easel", { cache: "no-store" });
  return answer.ok ? answer.json() : {};
};

// A socket does not tell why it was refused, and the page tells of the first one alone that closes, which the server closed when it
// ended. So the server is asked until a socket is open again.
let turn = 0;
api.addEventListener("reconnected", () => { turn += 1; });
api.addEventListener("reconnecting", async () => {
  turn += 1;
  const mine = turn;
  while (mine === turn && !leaving) {
    await api.fetchApi("/easel", { cache: "no-store" }).catch(() => {});
    await new Promise((resolve) => { setTimeout(resolve, ASK_AGAIN_MS); });
  }
});

const facts = await readFacts().catch(() => ({}));

// ---- What a workflow lacks. ----

const needOf = new Map();
for (const [need, classes] of Object.entries(facts.needs ?? {})) for (const name of classes) needOf.set(name, need);

const needed = (type) => needOf.get(type.trimEnd()) ?? "other";

function listed(names) {
  const shown = names.slice(0, MOST_NAMED);
  const rest = names.length - shown.length;
  return rest > 0 ? `${shown.join(", ")} and ${rest} more` : shown.join(", ");
}

function tellMissing(missing) {
  const byNeed = new Map();
  for (const entry of missing) {
    const type = typeof entry === "string" ? entry : entry.type;
    const need = needed(type);
    if (!byNeed.has(need)) byNeed.set(need, new Set());
    byNeed.get(need).add(type);
  }
  if (byNeed.size === 0) return;
  const lines = [...byNeed].map(([need, types]) => `${listed([...types].sort())}: ${NEEDS[need]}.`);
  app.extensionManager.toast.add({
    severity: "warn",
    summary: "This workflow does not run here yet",
    detail: lines.join(" "),
    life: 20_000,
  });
}

// ---- Where nodes run. ----

const native = new Set(facts.native ?? []);

function badge(node, text, color) {
  node.badges.push(new window.LGraphBadge({ text, fgColor: "white", bgColor: color }));
}

// ---- The account. ----

function text(tag, content, style = {}) {
  const element = document.createElement(tag);
  element.textContent = content;
  Object.assign(element.style, style);
  return element;
}

const BUTTON = {
  padding: ".45rem .8rem", borderRadius: ".4rem", border: "1px solid #555", background: "#2b2d33", color: "inherit",
  font: "inherit", cursor: "pointer", textDecoration: "none",
};

async function signOut() {
  const answer = await fetchApi("/session", { method: "DELETE" });
  if (answer.ok || answer.status === 401) return signIn();
  app.extensionManager.toast.add({ severity: "error", summary: "Signing out failed; try again", life: 8_000 });
}

async function showAccount() {
  document.getElementById("easel-account")?.remove();
  const now = await readFacts().catch(() => facts);
  const dialog = document.createElement("dialog");
  dialog.id = "easel-account";
  dialog.setAttribute("aria-labelledby", "easel-account-title");
  Object.assign(dialog.style, {
    border: "1px solid #444", borderRadius: ".6rem", background: "#17181c", color: "#e8e8ea", padding: "1.25rem",
    minWidth: "20rem", font: "14px/1.5 system-ui, sans-serif",
  });
  const title = text("h2", "Account", { margin: "0 0 .5rem", fontSize: "1.1rem" });
  title.id = "easel-account-title";
  const rows = document.createElement("dl");
  Object.assign(rows.style, { display: "grid", gridTemplateColumns: "auto 1fr", gap: ".2rem 1rem", margin: "0 0 1rem" });
  const row = (name, value) => {
    rows.append(text("dt", name, { opacity: ".7" }), text("dd", value, { margin: 0 }));
  };
  row("Account", now.account ?? "unknown");
  row("Credits", now.credits ? `${(now.credits.available_cents / 100).toFixed(2)} US dollars` : "not billed");
  if (now.subscribed === false) row("Subscription", "not active: nothing new is run");
  row("Server", `Easel ${now.version ?? ""}`);
  const actions = document.createElement("div");
  Object.assign(actions.style, { display: "flex", gap: ".5rem", flexWrap: "wrap" });
  const link = (label, href) => {
    const element = text("a", label, BUTTON);
    Object.assign(element, { href: api.fileURL(href), target: "_blank", rel: "noopener" });
    actions.append(element);
  };
  const button = (label, run) => {
    const element = text("button", label, BUTTON);
    element.type = "button";
    element.addEventListener("click", run);
    actions.append(element);
  };
  if (now.console) link("Console", `/${now.console}`);
  if (now.signed_in) button("Sign out", signOut);
  else button("Sign in", signIn);
  button("Close", () => dialog.close());
  dialog.append(title, rows, actions);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

const openConsole = () => window.open(api.fileURL(`/${facts.console}`), "_blank", "noopener");

const commands = [{ id: "Easel.Account", label: "Account and credits", icon: "pi pi-user", function: showAccount }];
if (facts.console) {
  commands.push({ id: "Easel.Console", label: "Open the console", icon: "pi pi-external-link", function: openConsole });
}
if (facts.signed_in) commands.push({ id: "Easel.SignOut", label: "Sign out", icon: "pi pi-sign-out", function: signOut });

// The page's own button signs in at an address outside, which this server knows nothing of.
const style = text("style", "[data-testid=login-button] { display: none; }");
document.head.append(style);

// ---- The graph of a page that nobody has used yet. ----

const loadGraphData = app.loadGraphData.bind(app);
app.loadGraphData = async (graph, ...rest) => {
  // The page's own first graph needs a model. Where its classes are known it is as good as any.
  if (graph == null && !("KSampler" in window.LiteGraph.registered_node_types)) {
    const answer = await fetch(api.fileURL(`/templates/${START}.json`));
    if (answer.ok) graph = await answer.json();
  }
  return loadGraphData(graph, ...rest);
};

app.registerExtension({
  name: "Easel",
  aboutPageBadges: [
    { label: `Easel ${facts.version ?? ""}`, url: api.fileURL(facts.console ? `/${facts.console}` : "/api/openapi.json"), icon: "pi pi-server" },
  ],
  commands,
  menuCommands: [{ path: ["Easel"], commands: commands.map((command) => command.id) }],
  actionBarButtons: [
    { icon: "pi pi-user", label: facts.account ?? "Easel", tooltip: "Account and credits", onClick: showAccount },
  ],
  nodeCreated(node) {
    if (native.has(node.comfyClass)) badge(node, "runs natively", "#14532d");
  },
  loadedGraphNode(node) {
    const type = node.last_serialization?.type ?? node.type;
    if (type in window.LiteGraph.registered_node_types || !needOf.has(type.trimEnd())) return;
    badge(node, needed(type) === "model" ? "needs a model" : "needs a worker", "#7c2d12");
  },
  afterConfigureGraph(missing) {
    tellMissing(missing);
  },
});
