//! `[[worker]]` in the configuration file: workers with a name, headers of their own and authorities of their own.
//!
//! Values of headers are credentials, so the file says where they are and never what they are.

use std::path::PathBuf;

use engine_comfy::{WorkerConfig, WorkerHeaders, WorkerSlots, WorkerUrl};
use serde_json::{Map, Value as Json};
use server_kit::config::{Value, array};

use crate::stack::StackError;

/// Workers, as tables of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerTables(pub Vec<WorkerTable>);

/// A worker, as a table of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerTable {
    /// What it is called; its host and port if nothing is said.
    pub name: Option<String>,
    /// Where it is.
    pub url: WorkerUrl,
    /// Headers of every request to it.
    pub headers: Vec<WorkerHeader>,
    /// A PEM file of authorities to trust for it besides.
    pub ca: Option<PathBuf>,
    /// How many jobs it may have at once; as `comfyui_slots` says if nothing is said.
    pub slots: Option<WorkerSlots>,
}

/// A header, and where its value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerHeader {
    /// Its name.
    pub name: String,
    /// What stands before the value, such as `Bearer `.
    pub prefix: String,
    /// Where the value is.
    pub source: HeaderSource,
}

/// Where the value of a header is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderSource {
    /// In this variable.
    Variable(String),
    /// In this file, without the line feed at its end.
    File(PathBuf),
}

impl Value for WorkerTables {
    const ALLOWED: &'static str = "tables [[worker]] with `url`, and as wanted `name`, `ca` (a PEM file), `slots` (jobs at \
                                   once, from 1 to 16) and `headers`, each of them as { env = \"VARIABLE\" } or { file = \"PATH\" } with \
                                   a `prefix` such as \"Bearer \" as wanted";

    fn read(text: &str) -> Option<Self> {
        let tables: Vec<Map<String, Json>> = match text.is_empty() {
            true => Vec::new(),
            false => serde_json::from_str(text).ok()?,
        };
        tables
            .into_iter()
            .map(table)
            .collect::<Option<_>>()
            .map(Self)
    }

    fn show(&self) -> String {
        let shown = self.0.iter().map(|table| table.url.to_string());
        array(shown)
    }
}

fn table(mut fields: Map<String, Json>) -> Option<WorkerTable> {
    let name = text(&mut fields, "name")?;
    let url = text(&mut fields, "url")??.parse().ok()?;
    let ca = text(&mut fields, "ca")?.map(PathBuf::from);
    let slots = match fields.remove("slots") {
        None => None,
        Some(count) => {
            let count = u8::try_from(count.as_u64()?).ok()?;
            Some(WorkerSlots::new(count)?)
        }
    };
    let headers = match fields.remove("headers") {
        None => Vec::new(),
        Some(Json::Object(headers)) => headers.into_iter().map(header).collect::<Option<_>>()?,
        Some(_) => return None,
    };
    fields.is_empty().then_some(WorkerTable {
        name,
        url,
        headers,
        ca,
        slots,
    })
}

fn header((name, value): (String, Json)) -> Option<WorkerHeader> {
    if !WorkerHeaders::takes(&name) {
        return None;
    }
    let Json::Object(mut fields) = value else {
        return None;
    };
    let prefix = text(&mut fields, "prefix")?.unwrap_or_default();
    let source = match (text(&mut fields, "env")?, text(&mut fields, "file")?) {
        (Some(variable), None) => HeaderSource::Variable(variable),
        (None, Some(path)) => HeaderSource::File(path.into()),
        (Some(_), Some(_)) | (None, None) => return None,
    };
    fields.is_empty().then_some(WorkerHeader {
        name,
        prefix,
        source,
    })
}

/// A text that may be there; `None` if something else is.
fn text(fields: &mut Map<String, Json>, name: &str) -> Option<Option<String>> {
    match fields.remove(name) {
        None => Some(None),
        Some(Json::String(text)) => Some(Some(text)),
        Some(_) => None,
    }
}

impl WorkerTable {
    /// The worker, with the values of its headers and its authorities.
    pub(crate) fn config(&self, name: String) -> Result<WorkerConfig, StackError> {
        let mut headers = WorkerHeaders::default();
        for header in &self.headers {
            let added = header.value().and_then(|value| {
                let added = headers.add(&header.name, &value);
                added.map_err(|error| error.to_string())
            });
            added.map_err(|why| StackError::WorkerHeader {
                worker: name.clone(),
                header: header.name.clone(),
                why,
            })?;
        }
        let ca_pem = self.ca.as_ref().map(std::fs::read).transpose();
        let ca_pem = ca_pem.map_err(|source| StackError::WorkerCa {
            worker: name.clone(),
            source,
        })?;
        Ok(WorkerConfig {
            name,
            url: self.url.clone(),
            headers,
            ca_pem,
            slots: self.slots,
            keeps_definitions: true,
        })
    }
}

impl WorkerHeader {
    /// Its value; an error says what is wrong without it.
    fn value(&self) -> Result<String, String> {
        let value = match &self.source {
            HeaderSource::Variable(variable) => std::env::var(variable)
                .map_err(|_| format!("the variable {variable} is not set, or is no text"))?,
            HeaderSource::File(path) => {
                let text = std::fs::read_to_string(path);
                let text = text.map_err(|error| {
                    format!("the file {} cannot be read: {error}", path.display())
                })?;
                text.strip_suffix('\n').unwrap_or(&text).to_owned()
            }
        };
        Ok(format!("{}{value}", self.prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_says_where_credentials_are_and_never_what_they_are() {
        let text = r#"[{"url": "https://gpu", "name": "a", "ca": "/ca.pem", "headers": {"Authorization":
            {"env": "TOKEN", "prefix": "Bearer "}, "x-key": {"file": "/run/key"}}}, {"url": "http://b:1", "slots": 4}]"#;
        let tables = WorkerTables::read(text).expect("it is right").0;
        assert_eq!((tables.len(), tables[0].headers.len()), (2, 2));
        assert_eq!(
            tables[0].headers[0].source,
            HeaderSource::Variable("TOKEN".to_owned())
        );
        assert_eq!(
            (tables[0].slots, tables[1].slots),
            (None, WorkerSlots::new(4))
        );
        for wrong in [
            "{}",
            "[{}]",
            r#"[{"url": "gpu"}]"#,
            r#"[{"url": "http://a", "heders": {}}]"#,
            r#"[{"url": "http://a", "name": 1}]"#,
            r#"[{"url": "http://a", "slots": 0}]"#,
            r#"[{"url": "http://a", "slots": 17}]"#,
            r#"[{"url": "http://a", "slots": "2"}]"#,
            r#"[{"url": "http://a", "headers": {"authorization": "Bearer x"}}]"#,
            r#"[{"url": "http://a", "headers": {"authorization": {}}}]"#,
            r#"[{"url": "http://a", "headers": {"authorization": {"env": "A", "file": "b"}}}]"#,
            r#"[{"url": "http://a", "headers": {"host": {"env": "A"}}}]"#,
            r#"[{"url": "http://a", "headers": {"Sec-WebSocket-Key": {"env": "A"}}}]"#,
        ] {
            assert_eq!(WorkerTables::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_value_is_read_from_its_file_and_hidden() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let file = root.path().join("key");
        std::fs::write(&file, "s3cret\n").expect("room");
        let table = |file: PathBuf| WorkerTable {
            slots: None,
            name: None,
            url: "http://a".parse().expect("an address"),
            headers: vec![WorkerHeader {
                name: "x-key".to_owned(),
                prefix: "Key ".to_owned(),
                source: HeaderSource::File(file),
            }],
            ca: None,
        };
        let config = table(file).config("a".to_owned()).expect("it is there");
        let shown = format!("{config:?} {:?}", config.headers);
        assert!(
            shown.contains("x-key") && !shown.contains("s3cret"),
            "{shown}"
        );
        let missing = table(root.path().join("none")).config("a".to_owned());
        let missing = missing.expect_err("it is not there").to_string();
        assert!(
            missing.contains("x-key") && missing.contains("none"),
            "{missing}"
        );
    }
}
