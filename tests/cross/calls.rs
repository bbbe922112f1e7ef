//! One random call of one route, made of what one account has, what another has, or what nobody has.

use it::{Form, Random, Request};
use serde_json::{Value, json};

use super::routes::Route;
use super::stock::{Credential, Kind, Stock, graph};

/// Whose the things are that a call names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Own,
    Other,
    /// Nobody's, each as long as the other's thing in its place.
    Nobody,
    /// No names at all.
    Garbage,
}

/// A request, and what it names.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) request: Request,
    /// The target, for messages.
    pub(super) target: String,
    /// Everything that it names of whoever it is.
    pub(super) named: Vec<String>,
}

/// What a call is made with.
pub(super) struct Maker<'a> {
    pub(super) random: Random,
    pub(super) own: &'a Stock,
    pub(super) other: &'a Stock,
    pub(super) owner: Owner,
    named: Vec<String>,
}

/// What is no name of anything.
const GARBAGE: &[&str] = &[
    "x",
    "0",
    "-1",
    "null",
    "%00",
    "..%2Fx",
    "a%2Fb",
    "%FF",
    "%7B%7D",
    "9c0e6f4a",
    "%F0%9F%98%80",
];

/// What stands in a query for parameters that name nothing.
const VALUES: &[&str] = &[
    "",
    "1",
    "2",
    "0",
    "-1",
    "64",
    "true",
    "false",
    "output",
    "input",
    "temp",
    "completed",
    "pending,failed",
    "image",
    "asc",
    "create_time",
    "rgb",
    "a",
    "webp;90",
    "x",
];

impl<'a> Maker<'a> {
    pub(super) fn new(random: Random, own: &'a Stock, other: &'a Stock, owner: Owner) -> Self {
        Self {
            random,
            own,
            other,
            owner,
            named: Vec::new(),
        }
    }

    /// A thing of a kind; `changes` says that the call may take it away.
    fn thing(&mut self, kind: Kind, changes: bool) -> String {
        // The draw is the same whoever is meant, so that two calls differ in whose things they name and in nothing else.
        let draw = self.random.index(1 << 20);
        let of = |things: &[String]| things[draw % things.len()].clone();
        let spare = self.own.spare.get(&kind).filter(|_| changes);
        let thing = match self.owner {
            Owner::Own => of(spare.unwrap_or(&self.own.things[&kind])),
            Owner::Other => of(&self.other.things[&kind]),
            Owner::Nobody => nobodys(&of(&self.other.things[&kind])),
            Owner::Garbage => GARBAGE[draw % GARBAGE.len()].to_owned(),
        };
        self.named.push(thing.clone());
        thing
    }

    /// A call of this route.
    pub(super) fn call(mut self, route: &Route, credential: Option<&Credential>) -> Call {
        let mut target = self.path(route);
        let query: Vec<String> = route
            .query
            .iter()
            .filter_map(|name| self.parameter(name))
            .collect();
        if !query.is_empty() {
            target = format!("{target}?{}", query.join("&"));
        }
        // Many routes of the older API exist without their first segment, too.
        let is_older = target.starts_with("/api/") && !target.starts_with("/api/v2/");
        if is_older && self.random.one_in(4) {
            target = target["/api".len()..].to_owned();
        }
        let mut request = Request::new(&route.method, &target);
        if route.takes_key && self.random.one_in(2) {
            let key = self.thing(Kind::Key, false);
            request = request.header("Idempotency-Key", &key);
        }
        if route.method == "POST" {
            request = self.body(route, request);
        }
        if let Some(Credential { header, .. }) = credential {
            request = request.header(header.0, &header.1);
        }
        Call {
            request,
            target,
            named: self.named,
        }
    }

    fn path(&mut self, route: &Route) -> String {
        let changes = route.method == "DELETE" || route.is("POST", "/api/userdata/{file}");
        let changes =
            changes || route.is("POST", "/api/settings/{id}") || route.path.ends_with("/move/{to}");
        let changes = changes || route.method == "PUT";
        let mut path = String::new();
        for segment in route.path.split('/').skip(1) {
            let filled = match segment {
                "{id}" if route.path.contains("/assets/") => self.thing(Kind::Asset, changes),
                "{id}" if route.path.contains("/settings/") => self.thing(Kind::Setting, changes),
                "{id}" => self.thing(Kind::Job, changes),
                "{hash}" => format!("blake3:{}", self.thing(Kind::Hash, false)),
                "{file}" | "{to}" => self.thing(Kind::UserFile, changes),
                // Both in one: a link is its token and its name.
                "{token}" => self.link(),
                "{name}" => continue,
                "{class}" => (*self
                    .random
                    .pick(&["LoadImage", "SaveImage", "Nothing"])
                    .unwrap())
                .to_owned(),
                "{folder}" => {
                    (*self.random.pick(&["output", "input", "temp", "x"]).unwrap()).to_owned()
                }
                "{provider}" => "easel".to_owned(),
                "{request}" => self.thing(Kind::Request, changes),
                "{model}" => {
                    (*self.random.pick(&["resize", "blend", "nothing"]).unwrap()).to_owned()
                }
                plain => {
                    assert!(!plain.contains('{'), "{}: {plain} is filled", route.path);
                    plain.to_owned()
                }
            };
            path.push('/');
            path.push_str(&filled);
        }
        path
    }

    /// A link is good for whoever has it, which is what it is for: none of another account's is asked for, but ones that
    /// were changed are.
    fn link(&mut self) -> String {
        let link = self.own.things[&Kind::Link][0].clone();
        // The answer names the file, and the file its graph.
        let name = link.rsplit('/').next().unwrap().to_owned();
        self.named
            .extend([link.clone(), name, self.own.word.to_owned()]);
        match self.owner {
            Owner::Own => link,
            Owner::Other | Owner::Nobody | Owner::Garbage => {
                let (token, name) = link.split_once('/').unwrap();
                let place = self.random.index(token.len());
                let changed = if &token[place..=place] == "A" {
                    "B"
                } else {
                    "A"
                };
                format!("{}{changed}{}/{name}", &token[..place], &token[place + 1..])
            }
        }
    }

    fn parameter(&mut self, name: &str) -> Option<String> {
        if self.random.one_in(3) && name != "filename" {
            return None;
        }
        let value = match name {
            "cursor" | "after" => self.thing(Kind::Cursor, false),
            "filename" => self.thing(Kind::File, false),
            "clientId" => self.thing(Kind::Client, false),
            "workflow_id" => format!("{}-flow", self.thing(Kind::Label, false)),
            "metadata" => return Some(format!("metadata[of]={}", self.thing(Kind::Label, false))),
            // Credentials come by themselves.
            "token" => return None,
            _ => (*self.random.pick(VALUES).unwrap()).to_owned(),
        };
        Some(format!("{name}={value}"))
    }

    fn body(&mut self, route: &Route, request: Request) -> Request {
        if self.random.one_in(12) {
            let odd: &[&str] = &["", "{", "[]", "null", "{\"prompt\": 1}", "\u{0}"];
            return request.body(*self.random.pick(odd).unwrap());
        }
        if route.path.contains("/upload/") || route.path == "/api/v2/assets" {
            return self.form(route, request);
        }
        let body = match route.path.as_str() {
            "/api/prompt" => self.prompt(),
            "/api/v2/jobs" => self.submission(),
            "/api/v2/assets/from-hash" => json!({
                "hash": format!("blake3:{}", self.thing(Kind::Hash, false)),
                "file_path": self.thing(Kind::File, false),
            }),
            "/api/jobs/cancel" => json!({"job_ids": [self.thing(Kind::Job, true)]}),
            // Everything of one's own is cleared now and then; what is named is another's just as well.
            "/api/queue" | "/api/history" => json!({
                "delete": [self.thing(Kind::Job, true)],
                "clear": self.random.one_in(8),
            }),
            "/api/interrupt" if self.random.one_in(3) => json!({}),
            "/api/interrupt" => json!({"prompt_id": self.thing(Kind::Job, true)}),
            "/api/settings" => json!({self.thing(Kind::Setting, true): self.own.word}),
            // A key that counts would let its caller in, as it must.
            "/api/session" => json!({"key": format!("{}x", self.thing(Kind::Label, false))}),
            "/v1/models/{provider}/{model}"
            | "/v1/models/{provider}/{model}/estimate"
            | "/v1/models/{provider}/{model}/requests" => self.model_input(),
            _ => Value::from(self.own.word),
        };
        request
            .header("Content-Type", "application/json")
            .body(body.to_string())
    }

    /// A graph of one's own, or one that loads a file by some name.
    fn workflow(&mut self) -> Value {
        let mut graph = graph(self.own.word, self.random.index(1000));
        match self.random.index(4) {
            0 => {}
            1 => {
                graph["1"] = json!({"class_type": "LoadImage", "inputs": {"image": self.thing(Kind::File, false)}})
            }
            2 => {
                let name = format!("{} [output]", self.thing(Kind::File, false));
                graph["1"] = json!({"class_type": "LoadImageOutput", "inputs": {"image": name}});
            }
            _ => {
                let asset =
                    json!({"__type": "core/ASSET", "info": {"id": self.thing(Kind::Asset, false)}});
                graph["1"] = json!({"class_type": "LoadImage", "inputs": {"image": asset}});
            }
        }
        graph
    }

    fn prompt(&mut self) -> Value {
        let mut body =
            json!({"prompt": self.workflow(), "client_id": self.thing(Kind::Client, false)});
        if self.random.one_in(2) {
            body["prompt_id"] = self.thing(Kind::Job, true).into();
        }
        body
    }

    fn submission(&mut self) -> Value {
        json!({"workflow": self.workflow(), "metadata": {"of": self.own.word}})
    }

    fn model_input(&mut self) -> Value {
        match self.random.index(3) {
            0 => json!({"image": self.thing(Kind::Asset, false)}),
            1 => json!({"image": format!("https://127.0.0.1/{}", self.thing(Kind::File, false))}),
            _ => json!({"image": PIXEL, "width": 2, "height": 2}),
        }
    }

    fn form(&mut self, route: &Route, request: Request) -> Request {
        let (name, size) = (self.thing(Kind::File, true), self.random.index(1000));
        let content = format!("{} sends {size} as {name}", self.own.word);
        // A second file of that name is called `name (1).txt`.
        let stem = name.rsplit_once('.').map(|(stem, _)| stem.to_owned());
        self.named.extend(stem);
        let mut form = Form::new();
        if route.path == "/api/v2/assets" {
            form = form
                .field("content_type", "text/plain")
                .field("file_path", &name);
            if self.random.one_in(3) {
                form = form.field(
                    "expected_hash",
                    &format!("blake3:{}", self.thing(Kind::Hash, false)),
                );
            }
            form = form.file("file", &name, content.as_bytes());
        } else {
            let original = json!({"filename": self.thing(Kind::File, false), "subfolder": "", "type": "input"});
            form = form
                .file("image", &name, content.as_bytes())
                .field("type", "input")
                .field("subfolder", "clipspace")
                .field("original_ref", &original.to_string());
        }
        request
            .header("Content-Type", &Form::content_type())
            .body(form.body())
    }
}

/// One red pixel.
pub(super) const PIXEL: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";

/// A name that nobody has, of the same form: every letter and digit is another one of its kind. The digit that tells a
/// UUID's version stays.
pub(super) fn nobodys(name: &str) -> String {
    let is_hexadecimal = name.len() >= 36 && !name.contains(['_', '=']);
    let other = |(place, letter): (usize, char)| match letter {
        '1'..='8' if place == 14 && name.len() == 36 => letter,
        '8' | '9' | 'a' | 'b' if place == 19 && name.len() == 36 => letter,
        '0'..='9' => char::from(b'0' + (letter as u8 - b'0' + 3) % 10),
        'a'..='f' if is_hexadecimal => char::from(b'a' + (letter as u8 - b'a' + 2) % 6),
        'a'..='z' => char::from(b'a' + (letter as u8 - b'a' + 5) % 26),
        other => other,
    };
    name.char_indices().map(other).collect()
}
