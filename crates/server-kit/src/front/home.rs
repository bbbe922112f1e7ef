//! What a server answers at its root: what it is and where things are.
//!
//! A page for browsers, a text for `curl`, JSON for programs that ask for it. The page loads nothing, from nowhere: its style
//! is in it, and the policy that goes with it allows that one style and nothing else.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_SECURITY_POLICY, REFERRER_POLICY, VARY, X_FRAME_OPTIONS};
use http::{HeaderMap, HeaderValue};
use serde_json::json;

/// What is at the root, made once when a server is assembled.
#[derive(Clone, Debug)]
pub struct Home {
    html: Bytes,
    text: Bytes,
    json: Bytes,
}

/// A family of routes that a server has.
#[derive(Clone, Copy, Debug)]
pub struct HomeEntry {
    /// Where it begins.
    pub path: &'static str,
    /// What it is, in one line.
    pub what: &'static str,
    /// The path of its document, where it has one.
    pub document: Option<&'static str>,
}

/// The web console, where it is served.
pub(crate) const CONSOLE: HomeEntry = HomeEntry {
    path: "/console/",
    what: "The web console, for browsers",
    document: None,
};

/// The pages of the documents.
pub(crate) const REFERENCE: HomeEntry = HomeEntry {
    path: "/docs/",
    what: "The documents of these APIs as pages, for browsers",
    document: None,
};

/// What an answer is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Html,
    Text,
    Json,
}

const PAGE: &str = include_str!("home.html");

/// The SHA-256 of the style in base64: a change of the style changes it, and a test of the running server compares the two.
const STYLE_HASH: &str = "BTUjnURRbtzMNEA1kkxET7iIoRb7ByRUiDpADxATe00=";

/// What every server has besides its own families.
const ADMIN: HomeEntry = HomeEntry {
    path: admin_http::BASE,
    what: "Accounts, keys and credits, for keys with the scope admin",
    document: Some(admin_http::DOCUMENT),
};

const HEALTH: &[(&str, &str)] = &[
    ("/health", "Whether the process lives"),
    ("/ready", "Whether it can take work, and if not, why"),
];

const DOCUMENTS: &str = "The folder docs/ of the source describes every setting, error and limit; README.md has first steps.";

impl Home {
    /// The root of a program that serves `entries`, and admin over HTTP, below `mount_path`.
    #[must_use]
    pub fn new(about: &str, entries: &[HomeEntry], mount_path: &str) -> Self {
        let entries = &[entries, &[ADMIN]].concat();
        Self {
            html: html(about, entries, mount_path).into(),
            text: text(about, entries, mount_path).into(),
            json: json(about, entries, mount_path).into(),
        }
    }

    pub(super) fn body(&self, form: Form) -> Bytes {
        match form {
            Form::Html => self.html.clone(),
            Form::Text => self.text.clone(),
            Form::Json => self.json.clone(),
        }
    }
}

impl Form {
    /// What a client wants: browsers name HTML, programs JSON; `*/*` is `curl` at a terminal.
    pub(super) fn wanted(headers: &HeaderMap) -> Self {
        let accepts = |kind: &str| {
            let values = headers.get_all(ACCEPT).iter();
            values
                .filter_map(|value| value.to_str().ok())
                .any(|value| value.contains(kind))
        };
        if accepts("text/html") {
            Self::Html
        } else if accepts("application/json") {
            Self::Json
        } else {
            Self::Text
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Html => "text/html; charset=utf-8",
            Self::Text => "text/plain; charset=utf-8",
            Self::Json => "application/json",
        }
    }
}

/// The headers that keep the page from loading, running or being framed by anything.
pub(super) fn guard(headers: &mut HeaderMap) {
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{STYLE_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let policy = HeaderValue::try_from(policy).expect("the policy is ASCII");
    headers.insert(CONTENT_SECURITY_POLICY, policy);
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(VARY, HeaderValue::from_static("accept"));
}

fn html(about: &str, entries: &[HomeEntry], mount_path: &str) -> String {
    let link = |path: &str, what: &str| format!("<a href=\"{mount_path}{path}\">{what}</a>");
    let rows = entries.iter().map(|place| {
        let document = match place.document {
            Some(path) => link(path, "API document"),
            None => link(place.path, "Open"),
        };
        format!(
            "<tr><th scope=\"row\"><code>{mount_path}{}</code></th><td>{}</td><td>{}</td></tr>\n",
            place.path, place.what, document
        )
    });
    let health = HEALTH.iter().map(|(path, what)| {
        format!(
            "<tr><th scope=\"row\">{}</th><td>{what}</td></tr>\n",
            link(path, &format!("<code>{mount_path}{path}</code>"))
        )
    });
    PAGE.replace("{{about}}", about)
        .replace("{{places}}", &rows.collect::<String>())
        .replace("{{health}}", &health.collect::<String>())
        .replace("{{documents}}", DOCUMENTS)
}

fn text(about: &str, entries: &[HomeEntry], mount_path: &str) -> String {
    let mut text = format!("Easel\n{about}\n\n");
    let mut line = |path: &str, what: &str| {
        let path = format!("{mount_path}{path}");
        text.push_str(&format!("  {path:<24}  {what}\n"));
    };
    for place in entries {
        line(place.path, place.what);
        if let Some(document) = place.document {
            line(document, "its API document");
        }
    }
    for (path, what) in HEALTH {
        line(path, what);
    }
    text.push_str(&format!("\n{DOCUMENTS}\n"));
    text
}

fn json(about: &str, entries: &[HomeEntry], mount_path: &str) -> String {
    let path = |path: &str| format!("{mount_path}{path}");
    let entries = entries.iter().map(|place| {
        json!({
            "path": path(place.path),
            "description": place.what,
            "document": place.document.map(path),
        })
    });
    let body = json!({
        "name": "Easel",
        "description": about,
        "apis": entries.collect::<Vec<_>>(),
        "health": path("/health"),
        "ready": path("/ready"),
    });
    format!("{body}\n")
}
