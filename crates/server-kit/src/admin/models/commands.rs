//! The commands on published models: the file of a graph, what is asked, and what is printed.

use std::path::Path;

use admin_http::wire::{
    Answer, GraphBody, ModelAnswer, ModelRequest, PublishedModelBody, PublishedVersionBody, Request,
};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::{Map, Value};

use crate::admin::client::Client;
use crate::admin::commands::say;
use crate::admin::flags::{flag, group};
use crate::admin::remote;
use crate::listing::{self, json_flag, table};
use crate::program::{self, Failure};

/// The name of the subcommand.
pub(in crate::admin) const NAME: &str = "model";

/// Where a model is whose name has no slash.
const PROVIDER: &str = "easel";

/// The fields of bodies that submit a graph.
const WRAPPERS: [&str; 2] = ["prompt", "workflow"];

/// The subcommand `model`, for programs that publish models.
#[must_use]
pub fn command() -> Command {
    let name = |help: &'static str| {
        Arg::new("name")
            .value_name("NAME")
            .required(true)
            .help(help)
    };
    let publish = Command::new("publish")
        .about("Makes a model of a workflow, or a new version of it; without a change nothing happens")
        .arg(
            Arg::new("graph")
                .value_name("GRAPH.json")
                .required(true)
                .help("The workflow in API format, or a body that submits one"),
        )
        .arg(
            flag(
                "name",
                "NAME",
                "The id of the model, such as easel/upscale; without a slash it begins with easel/",
            )
            .required(true),
        )
        .arg(
            flag(
                "input",
                "NAME=NODE.FIELD",
                "A field of the body and the input that it fills in, in addition to files and nodes titled `input: NAME`; may be repeated",
            )
            .action(ArgAction::Append),
        )
        .arg(flag(
            "output",
            "NODE",
            "The node whose outputs are the result; may be left out if only one makes outputs",
        ))
        .arg(
            flag("price", "CENTS", "What a call costs, in US cents; nothing by default")
                .value_parser(value_parser!(u64)),
        )
        .arg(flag("description", "TEXT", "What the model does, for people"))
        .arg(json_flag());
    let list = Command::new("list")
        .about("Lists published models")
        .arg(json_flag());
    let show = Command::new("show")
        .about("Shows a published model: its versions, and the schema of its body")
        .arg(name("The model, as `model list` shows it"))
        .arg(json_flag());
    let withdraw = Command::new("withdraw")
        .about("Withdraws a published model, or one version of it: new calls get 404, and running calls continue")
        .arg(name("The model, or NAME@VERSION for one version, such as easel/upscale@2"));
    group(NAME, "Publishes workflows as models, and withdraws them")
        .subcommands([publish, list, show, withdraw])
        .args(remote::flags())
}

/// Carries a command out.
pub(in crate::admin) async fn run(
    word: &str,
    arguments: &ArgMatches,
    client: &mut Client<'_>,
) -> Result<(), Failure> {
    let text = |name: &str| arguments.get_one::<String>(name).cloned();
    let name = || text("name").unwrap_or_default();
    match word {
        "publish" => {
            let (model, graph) = (id_of(&name()), graph(arguments)?);
            let published = one(client, ModelRequest::Publish { model, graph }).await?;
            if listing::wants_json(arguments) {
                program::print(&listing::json(&published));
            }
            say(&told(&published));
            Ok(())
        }
        "list" => {
            let all = all(client).await?;
            print(arguments, &all, |all| listed(all));
            Ok(())
        }
        "show" => {
            let model = id_of(&name());
            let shown = one(client, ModelRequest::Show { model }).await?;
            print(arguments, &shown, self::shown);
            Ok(())
        }
        "withdraw" => {
            let (model, version) = versioned(&name())?;
            let left = one(client, ModelRequest::Withdraw { model, version }).await?;
            let gone = version.map_or_else(
                || left.id.clone(),
                |version| format!("version {version} of {}", left.id),
            );
            say(&match left.version {
                Some(offered) => format!(
                    "{gone} is withdrawn; calls of {} run version {offered}",
                    left.id
                ),
                None => format!("{gone} is withdrawn"),
            });
            Ok(())
        }
        _ => unreachable!("clap lets no other command through"),
    }
}

async fn ask(client: &mut Client<'_>, request: ModelRequest) -> Result<ModelAnswer, Failure> {
    let Answer::Model(answer) = client.ask(Request::Model(request)).await?? else {
        return Err(odd());
    };
    Ok(answer)
}

async fn one(
    client: &mut Client<'_>,
    request: ModelRequest,
) -> Result<PublishedModelBody, Failure> {
    let ModelAnswer::One(model) = ask(client, request).await? else {
        return Err(odd());
    };
    Ok(*model)
}

async fn all(client: &mut Client<'_>) -> Result<Vec<PublishedModelBody>, Failure> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let request = ModelRequest::List { after, limit: None };
        let ModelAnswer::List(page) = ask(client, request).await? else {
            return Err(odd());
        };
        all.extend(page.models);
        after = page.next_cursor;
        if after.is_none() {
            return Ok(all);
        }
    }
}

/// What is to be published.
fn graph(arguments: &ArgMatches) -> Result<GraphBody, Failure> {
    let text = |name: &str| arguments.get_one::<String>(name).cloned();
    let path = text("graph").unwrap_or_default();
    let named = arguments.get_many::<String>("input");
    let mut inputs = std::collections::BTreeMap::new();
    for input in named.into_iter().flatten() {
        let parts = input.split_once('=');
        let parts = parts.filter(|(name, place)| !name.is_empty() && place.contains('.'));
        let (name, place) = parts.ok_or_else(|| {
            usage(format!(
                "--input {input}: write it as NAME=NODE.FIELD, such as prompt=6.text"
            ))
        })?;
        if inputs.insert(name.to_owned(), place.to_owned()).is_some() {
            return Err(usage(format!(
                "--input {input}: there are two inputs `{name}`; give each a name of its own"
            )));
        }
    }
    Ok(GraphBody {
        graph: read(Path::new(&path))?,
        inputs,
        output: text("output"),
        price_cents: arguments
            .get_one::<u64>("price")
            .copied()
            .unwrap_or_default(),
        description: text("description"),
    })
}

/// The graph of a file: as it is, or that of a body that submits one.
fn read(path: &Path) -> Result<Map<String, Value>, Failure> {
    let refused = |why: String| usage(format!("{}: {why}", path.display()));
    let text = std::fs::read(path).map_err(|error| {
        refused(format!(
            "the workflow cannot be read; correct the path: {error}"
        ))
    })?;
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
    let value = json_text::read(text).map_err(|error| {
        refused(format!(
            "this is no JSON; export the workflow with \"Export (API)\": {error}"
        ))
    })?;
    let Value::Object(mut graph) = value else {
        return Err(refused(
            "a workflow is an object of nodes; export it with \"Export (API)\"".to_owned(),
        ));
    };
    for wrapper in WRAPPERS {
        if let Some(Value::Object(inner)) = graph.get(wrapper)
            && !inner.contains_key("class_type")
        {
            let inner = inner.clone();
            graph = inner;
            break;
        }
    }
    Ok(graph)
}

fn id_of(name: &str) -> String {
    match name.contains('/') {
        true => name.to_owned(),
        false => format!("{PROVIDER}/{name}"),
    }
}

/// A model, and the version of it that is meant, if one is.
fn versioned(name: &str) -> Result<(String, Option<u32>), Failure> {
    let Some((model, version)) = name.split_once('@') else {
        return Ok((id_of(name), None));
    };
    let version = version.parse().map_err(|_| {
        usage(format!(
            "\"{name}\" names no version; write NAME@VERSION, such as easel/upscale@2"
        ))
    })?;
    Ok((id_of(model), Some(version)))
}

fn told(published: &PublishedModelBody) -> String {
    let version = published.version.unwrap_or_default();
    let versioned = published.versions.iter().find(|one| one.version == version);
    let alone = versioned.map_or("", |one| &one.id);
    format!(
        "{} is offered as version {version}, which is also called {alone}; its body has {}",
        published.id,
        published.inputs.join(", ")
    )
}

fn listed(all: &[PublishedModelBody]) -> String {
    let rows = all.iter().map(|model| {
        let number = |number: Option<u64>| number.map_or("-".to_owned(), |it| it.to_string());
        vec![
            model.id.clone(),
            model.state.clone(),
            number(model.version.map(u64::from)),
            number(model.price_cents),
            model.inputs.join(", "),
        ]
    });
    table(&["MODEL", "STATE", "VERSION", "CENTS", "INPUTS"], rows)
}

fn shown(model: &PublishedModelBody) -> String {
    let rows = model.versions.iter().map(|version| {
        let PublishedVersionBody {
            version,
            id,
            calls,
            published_at,
            withdrawn_at,
        } = version;
        vec![
            version.to_string(),
            id.clone(),
            published_at.clone(),
            withdrawn_at.clone().unwrap_or_else(|| "-".to_owned()),
            calls.join(", "),
        ]
    });
    let versions = table(&["VERSION", "ID", "PUBLISHED", "WITHDRAWN", "CALLS"], rows);
    let schema = model.schema.as_ref().map(listing::json);
    let schema = schema.unwrap_or_default();
    format!("{}{versions}{schema}", listed(std::slice::from_ref(model)))
}

fn print<T: serde::Serialize>(arguments: &ArgMatches, found: &T, shown: impl FnOnce(&T) -> String) {
    program::print(&match listing::wants_json(arguments) {
        true => listing::json(found),
        false => shown(found),
    });
}

fn odd() -> Failure {
    Failure {
        exit_code: 1,
        message: "the server's answer is not one to this command; use the version of this program that the server runs"
            .to_owned(),
    }
}

fn usage(message: String) -> Failure {
    Failure {
        exit_code: 2,
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_slash_is_one_of_easel() {
        assert_eq!(id_of("upscale"), "easel/upscale");
        assert_eq!(id_of("acme/upscale"), "acme/upscale");
        let version = |name: &str| versioned(name).map_err(|failure| failure.message);
        assert_eq!(
            version("upscale@2"),
            Ok(("easel/upscale".to_owned(), Some(2)))
        );
        assert_eq!(version("a/b"), Ok(("a/b".to_owned(), None)));
        for wrong in ["a/b@", "a/b@x", "a/b@-1", "a/b@1@2"] {
            let refused = version(wrong).expect_err(wrong);
            assert!(refused.contains("names no version"), "{refused}");
        }
    }
}
