//! What was answered so far, and the files that it makes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use jiff::civil::Date;
use router_core::ModelId;
use serde_json::Value;

/// What is asked, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// The id of the model.
    Model,
    /// Where a call is sent to.
    Address,
    /// How the partner is shown its key.
    Key,
    /// How the result comes.
    Answer,
    /// What it costs, and where the answer names files.
    Price,
}

/// The answers; what was not answered yet is made up.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    model: ModelId,
    /// Scheme and host.
    base_url: String,
    /// What stands behind them.
    path: String,
    key: Key,
    polled: Option<Polled>,
    cents: f64,
    /// Pointers to addresses of files.
    files: Vec<String>,
    read_on: Date,
}

/// How the partner is shown its key. Variables alone: the key itself is never asked for.
#[derive(Clone, Debug)]
enum Key {
    Bearer {
        variable: String,
    },
    Header {
        name: String,
        variable: String,
        prefix: Option<String>,
    },
    Query {
        name: String,
        variable: String,
    },
    None,
}

/// How a task is followed.
#[derive(Clone, Debug)]
struct Polled {
    task: String,
    asked: Asked,
    state: String,
    ok: Vec<String>,
    failed: Vec<String>,
    result: Option<String>,
    cancel: Option<(&'static str, String)>,
}

/// Where the state of a task is asked for.
#[derive(Clone, Debug)]
enum Asked {
    Path(String),
    /// The pointer to the address in the answer that accepted the task.
    Told(String),
}

const KEY_FORMS: &str = "write `bearer VARIABLE`, `header NAME VARIABLE`, `header NAME VARIABLE PREFIX`, `query NAME VARIABLE` \
                         or `none`; VARIABLE is the name of the environment variable that holds the key, such as ACME_KEY, \
                         never the key itself";

const POLL_FORM: &str = "`poll` needs task=POINTER, path=PATH with {task} in it (or url=POINTER, if the answer has the address), \
                         state=POINTER, ok=WORD and failed=WORD (several with commas between); result=PATH, cancel=PATH \
                         (POST) and delete=PATH may be left out";

impl Question {
    pub(super) const ALL: [Self; 5] = [
        Self::Model,
        Self::Address,
        Self::Key,
        Self::Answer,
        Self::Price,
    ];

    /// The flag that answers it.
    pub(super) fn flag(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Address => "address",
            Self::Key => "key",
            Self::Answer => "answer",
            Self::Price => "price",
        }
    }

    pub(super) fn asks(self) -> &'static str {
        match self {
            Self::Model => "The id of the model, PARTNER/MODEL",
            Self::Address => "The whole address that a call is sent to (POST)",
            Self::Key => "How the partner is shown its key, and the variable that holds it",
            Self::Answer => {
                "How the result comes: `sync` in the answer itself, or `poll` as a task that is asked after"
            }
            Self::Price => {
                "What a call costs in US cents, and the JSON Pointers to addresses of files in the result"
            }
        }
    }

    pub(super) fn example(self) -> &'static str {
        match self {
            Self::Model => "acme/painter",
            Self::Address => "https://api.acme.example/v1/paint",
            Self::Key => "bearer ACME_KEY",
            Self::Answer => {
                "poll task=/id path=/v1/tasks/{task} state=/status ok=done failed=failed"
            }
            Self::Price => "4 /images/*/url",
        }
    }

    /// More for people who answer at a terminal.
    pub(super) fn explains(self) -> Option<&'static str> {
        match self {
            Self::Model | Self::Address => None,
            Self::Key => Some("or:      header X-Key ACME_KEY    query key ACME_KEY    none"),
            Self::Answer => Some("or:      sync"),
            Self::Price => Some("without such addresses the price alone: 4"),
        }
    }
}

impl Draft {
    /// Nothing is answered yet. `read_on` is the day on which the partner's documentation is read.
    pub(super) fn new(read_on: Date) -> Self {
        Self {
            model: "new/model".parse().expect("it is an id"),
            base_url: "https://partner.example".to_owned(),
            path: "/".to_owned(),
            key: Key::None,
            polled: None,
            cents: 0.0,
            files: Vec::new(),
            read_on,
        }
    }

    /// With one more answer.
    ///
    /// # Errors
    /// With what to write instead. It does not repeat the answer to the question for the key, which may be the key.
    pub(super) fn with(&self, question: Question, answer: &str) -> Result<Self, String> {
        let mut draft = self.clone();
        match question {
            Question::Model => draft.model = model(answer)?,
            Question::Address => (draft.base_url, draft.path) = address(answer)?,
            Question::Key => draft.key = key(answer).ok_or(KEY_FORMS)?,
            Question::Answer => draft.polled = polled(answer)?,
            Question::Price => (draft.cents, draft.files) = price(answer)?,
        }
        Ok(draft)
    }

    /// The folder of the partner.
    pub(super) fn partner(&self) -> &str {
        self.model.provider()
    }

    /// Writes the folder of the partner into `folder`, where it must not be.
    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        let folder = folder.join(self.partner());
        fs::create_dir(&folder)?;
        let write = |name: &str, text: String| {
            let mut file = fs::File::create_new(folder.join(name))?;
            io::Write::write_all(&mut file, text.as_bytes())
        };
        write("partner.toml", self.partner_file())?;
        write(&self.model_name(), self.model_file())
    }

    fn model_name(&self) -> String {
        format!("{}.toml", self.model.model())
    }

    fn partner_file(&self) -> String {
        let mut text = format!(
            "# How {partner} is called. The keys are explained in docs/PARTNERS.md.\nname = {name}\nbase_url = {base_url}\n\n\
             [auth]\n{auth}\n[call.{call}]\nstyle = \"{style}\"\nsubmit = {{ path = {path} }}\n",
            partner = self.partner(),
            name = quoted(&capitalised(self.partner())),
            base_url = quoted(&self.base_url),
            auth = self.key.to_toml(),
            call = CALL,
            style = if self.polled.is_some() {
                "poll"
            } else {
                "sync"
            },
            path = quoted(&self.path),
        );
        if let Some(polled) = &self.polled {
            text.push_str(&polled.to_toml());
        }
        text
    }

    fn model_file(&self) -> String {
        let files: Vec<String> = self.files.iter().map(|pointer| quoted(pointer)).collect();
        format!(
            "# Whether {partner} charges for what its policy refuses: \"yes\", \"no\" or \"unknown\".\n\
             charges_on_policy_rejection = \"unknown\"\nread_on = \"{read_on}\"\nassets = [{files}]\n\n\
             [price]\nkind = \"fixed\"\ncents = {cents}\n",
            partner = self.partner(),
            read_on = self.read_on,
            files = files.join(", "),
            cents = self.cents,
        )
    }

    /// What was written, and what to do with it.
    pub(super) fn next_steps(&self, catalog: &Path) -> String {
        let folder = catalog.join(self.partner());
        let (partner, model) = (folder.join("partner.toml"), folder.join(self.model_name()));
        let (partner, model) = (partner.display(), model.display());
        let catalog = catalog.display();
        let plain = match self.base_url.strip_prefix("http://") {
            Some(host) => format!(" --plain-partners {host}"),
            None => String::new(),
        };
        let key = match self.key.variable() {
            Some(variable) => format!("set {variable} to your key, and "),
            None => String::new(),
        };
        format!(
            "Written: {partner} and {model}\n\
             To try it, {key}write a body into body.json. The partner may charge for the call:\n  \
             catalog try {id} body.json --catalog {catalog}{plain}\n\
             What to add next, such as the texts of its errors and a schema, is in docs/PARTNERS.md.\n",
            id = self.model,
        )
    }
}

/// The name of the only call.
const CALL: &str = "run";

impl Key {
    fn variable(&self) -> Option<&str> {
        match self {
            Self::Bearer { variable }
            | Self::Header { variable, .. }
            | Self::Query { variable, .. } => Some(variable),
            Self::None => None,
        }
    }

    fn to_toml(&self) -> String {
        let named =
            |kind: &str, name: &str| format!("kind = \"{kind}\"\nname = {}\n", quoted(name));
        let mut text = match self {
            Self::Bearer { .. } => "kind = \"bearer\"\n".to_owned(),
            Self::Header { name, prefix, .. } => {
                let prefix = prefix.as_ref().map(|prefix| format!("{prefix} "));
                let prefix = prefix.map(|prefix| format!("prefix = {}\n", quoted(&prefix)));
                named("header", name) + &prefix.unwrap_or_default()
            }
            Self::Query { name, .. } => named("query", name),
            Self::None => "kind = \"none\"\n".to_owned(),
        };
        if let Some(variable) = self.variable() {
            let _ = writeln!(text, "secret = {{ env = {} }}", quoted(variable));
        }
        text
    }
}

impl Polled {
    fn to_toml(&self) -> String {
        let mut text = format!("\n[call.{CALL}.task]\nid = {}\n", quoted(&self.task));
        let _ = match &self.asked {
            Asked::Path(path) => {
                writeln!(text, "\n[call.{CALL}.poll]\npath = {}", quoted(path))
            }
            Asked::Told(pointer) => writeln!(
                text,
                "keep = {{ status_url = {} }}\n\n[call.{CALL}.poll]\nurl = \"{{status_url}}\"",
                quoted(pointer)
            ),
        };
        let (state, ok, failed) = (quoted(&self.state), set(&self.ok), set(&self.failed));
        let _ = writeln!(
            text,
            "\n# A state that is in no set means: ask again.\n[call.{CALL}.state]\npointer = {state}\nok = {ok}\nfailed = {failed}"
        );
        if let Some(path) = &self.result {
            let _ = writeln!(text, "\n[[call.{CALL}.result]]\npath = {}", quoted(path));
        }
        if let Some((method, path)) = &self.cancel {
            let path = quoted(path);
            let _ = writeln!(
                text,
                "\n[call.{CALL}.cancel]\nmethod = \"{method}\"\npath = {path}"
            );
        }
        text
    }
}

fn model(answer: &str) -> Result<ModelId, String> {
    let id: ModelId = answer.parse().map_err(|error| format!("{error}"))?;
    match id.model() {
        "partner" => Err(
            "partner.toml is the file of the partner itself; name the model otherwise".to_owned(),
        ),
        _ => Ok(id),
    }
}

/// Scheme and host, and the path behind them.
fn address(answer: &str) -> Result<(String, String), String> {
    let whole = || "an address is whole: https, the host, and the path of the call".to_owned();
    let begin = answer.find("://").ok_or_else(whole)? + 3;
    let end = answer[begin..].find('/').ok_or_else(whole)? + begin;
    let (base_url, path) = answer.split_at(end);
    if path.len() == 1 || path.contains(char::is_whitespace) {
        return Err(whole());
    }
    Ok((base_url.to_owned(), path.to_owned()))
}

fn key(answer: &str) -> Option<Key> {
    let words: Vec<&str> = answer.split_whitespace().collect();
    let variable = |name: &str| is_variable(name).then(|| name.to_owned());
    Some(match words[..] {
        ["bearer", name] => Key::Bearer {
            variable: variable(name)?,
        },
        ["header", header, name] => Key::Header {
            name: header.to_owned(),
            variable: variable(name)?,
            prefix: None,
        },
        ["header", header, name, prefix] => Key::Header {
            name: header.to_owned(),
            variable: variable(name)?,
            prefix: Some(prefix.to_owned()),
        },
        ["query", parameter, name] => Key::Query {
            name: parameter.to_owned(),
            variable: variable(name)?,
        },
        ["none"] => Key::None,
        _ => return None,
    })
}

/// In capitals, so that a key that is given by mistake is not taken for the name of a variable.
fn is_variable(name: &str) -> bool {
    let is_one = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    name.bytes().all(is_one) && !name.starts_with(|first: char| first.is_ascii_digit())
}

fn polled(answer: &str) -> Result<Option<Polled>, String> {
    let mut words = answer.split_whitespace();
    match words.next() {
        Some("sync") if words.next().is_none() => return Ok(None),
        Some("poll") => {}
        _ => {
            return Err(format!(
                "write `sync` alone, or `poll` and where its parts are: {POLL_FORM}"
            ));
        }
    }
    let mut parts = BTreeMap::new();
    for word in words {
        let (name, value) = word
            .split_once('=')
            .filter(|(name, value)| PARTS.contains(name) && !value.is_empty())
            .ok_or_else(|| format!("`{word}` is no part of it: {POLL_FORM}"))?;
        if parts.insert(name, value.to_owned()).is_some() {
            return Err(format!("`{name}` is there twice"));
        }
    }
    let mut part = |name: &str| parts.remove(name);
    let lacks = |name: &str| format!("{name}= is missing: {POLL_FORM}");
    let with_task = |path: &String| match path.contains("{task}") {
        true => Ok(()),
        false => Err(format!(
            "{path} has no {{task}} where the name of the task goes"
        )),
    };
    let asked = match (part("path"), part("url")) {
        (Some(path), None) => {
            with_task(&path)?;
            Asked::Path(path)
        }
        (None, Some(pointer)) => Asked::Told(pointer),
        (Some(_), Some(_)) => return Err("give either path= or url=".to_owned()),
        (None, None) => return Err(lacks("path")),
    };
    let cancel = match (part("cancel"), part("delete")) {
        (Some(path), None) => Some(("POST", path)),
        (None, Some(path)) => Some(("DELETE", path)),
        (None, None) => None,
        (Some(_), Some(_)) => return Err("give either cancel= or delete=".to_owned()),
    };
    let result = part("result");
    for path in result.iter().chain(cancel.iter().map(|(_, path)| path)) {
        with_task(path)?;
    }
    let words = |text: String| text.split(',').map(str::to_owned).collect();
    Ok(Some(Polled {
        task: part("task").ok_or_else(|| lacks("task"))?,
        asked,
        state: part("state").ok_or_else(|| lacks("state"))?,
        ok: part("ok").map(words).ok_or_else(|| lacks("ok"))?,
        failed: part("failed").map(words).ok_or_else(|| lacks("failed"))?,
        result,
        cancel,
    }))
}

/// Dearer than any call is.
const MOST_CENTS: f64 = 1_000_000.0;

/// What `poll` may be given.
const PARTS: [&str; 9] = [
    "task", "path", "url", "state", "ok", "failed", "result", "cancel", "delete",
];

fn price(answer: &str) -> Result<(f64, Vec<String>), String> {
    let mut words = answer.split_whitespace();
    let cents: Option<f64> = words.next().and_then(|word| word.parse().ok());
    let cents = cents.filter(|cents| (0.0..=MOST_CENTS).contains(cents));
    let cents = cents.ok_or("the price comes first: a number of US cents, such as 4 or 0.25")?;
    let files: Vec<String> = words.map(str::to_owned).collect();
    match files.iter().find(|pointer| !pointer.starts_with('/')) {
        Some(word) => Err(format!("`{word}` is no JSON Pointer: it begins with /")),
        None => Ok((cents, files)),
    }
}

/// As TOML writes texts. A text of JSON is one of TOML.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Words of states; whole numbers are numbers.
fn set(words: &[String]) -> String {
    let words = words.iter().map(|word| match word.parse::<i64>() {
        Ok(number) => number.to_string(),
        Err(_) => quoted(word),
    });
    format!("[{}]", words.collect::<Vec<_>>().join(", "))
}

fn capitalised(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests;
