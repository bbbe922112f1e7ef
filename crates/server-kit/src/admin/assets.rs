//! The command on assets, and what it asks for: what keeps one, and a hold of the operator.

use admin_http::wire::{Answer, AssetBody, HoldBody, Problem, Request};
use asset_store::{Asset, AssetId, AssetRecords, Hold, KeptAsset};
use clap::{Arg, ArgMatches, Command};

use super::AdminPorts;
use super::bodies::time;
use super::client::Client;
use super::commands::{done, say};
use super::flags::group;
use super::service::{absent, fault, uuid};
use crate::listing::{self, json_flag};
use crate::program::{self, Failure};

/// How many holds of an asset are listed at most.
const MOST_HOLDS: usize = 100;

/// The subcommand `asset`.
pub(super) fn command() -> Command {
    let word = |name: &'static str, about: &'static str| {
        let id = Arg::new("id").value_name("ASSET").required(true);
        Command::new(name)
            .about(about)
            .arg(id.help("The id of the asset"))
    };
    let hold = group("hold", "Keeps assets from being deleted and swept")
        .subcommand(word("add", "Keeps an asset until the hold is removed"))
        .subcommand(word("remove", "Lets an asset be deleted and expire again"));
    let show = word("show", "Shows an asset, and what keeps it").arg(json_flag());
    group("asset", "Shows assets, and holds them")
        .subcommand(show)
        .subcommand(hold)
}

/// Carries a command out.
pub(super) async fn run(
    words: &[&str],
    arguments: &ArgMatches,
    client: &mut Client<'_>,
) -> Result<(), Failure> {
    let id = arguments
        .get_one::<String>("id")
        .cloned()
        .unwrap_or_default();
    match words {
        ["hold", word] => {
            let held = *word == "add";
            let state = match held {
                true => "is kept",
                false => "is not kept any longer",
            };
            let told = format!("asset {id} {state}");
            done(client, Request::HoldAsset { id, held }).await?;
            say(&told);
        }
        _ => {
            if let Answer::Asset(asset) = client.ask(Request::Asset { id }).await?? {
                program::print(&match listing::wants_json(arguments) {
                    true => listing::json(&asset),
                    false => shown(&asset),
                });
            }
        }
    }
    Ok(())
}

/// An asset of any account, and what keeps it.
pub(super) async fn look(ports: &AdminPorts, id: &str) -> Result<Answer, Problem> {
    let kept = records(ports)?.kept(asset_id(id)?, MOST_HOLDS + 1).await;
    let kept = kept.map_err(|error| fault(&error))?;
    let kept = kept.ok_or_else(|| no_asset(id))?;
    Ok(Answer::Asset(Box::new(asset_body(kept))))
}

/// Keeps an asset for the operator, or lets it go.
pub(super) async fn hold(ports: &AdminPorts, id: &str, held: bool) -> Result<Answer, Problem> {
    let found = records(ports)?.hold(asset_id(id)?, Hold::Operator, held);
    match found.await.map_err(|error| fault(&error))? {
        true => Ok(Answer::Done),
        false => Err(no_asset(id)),
    }
}

fn records(ports: &AdminPorts) -> Result<&dyn AssetRecords, Problem> {
    let records = ports.records.as_deref();
    records.ok_or_else(|| absent("this installation keeps no assets"))
}

fn asset_id(id: &str) -> Result<AssetId, Problem> {
    uuid(id).map(AssetId)
}

fn no_asset(id: &str) -> Problem {
    absent(&format!("there is no asset {id}; it may have expired"))
}

fn asset_body(kept: KeptAsset) -> AssetBody {
    let KeptAsset { asset, holds } = kept;
    let Asset {
        id,
        account,
        file_path,
        content_type,
        size_bytes,
        job_id,
        created_at,
        expires_at,
        hash: _,
        tags: _,
    } = asset;
    AssetBody {
        id: id.to_string(),
        account: account.to_string(),
        file_path: file_path.map(|path| path.to_string()),
        content_type,
        size_bytes,
        job_id: job_id.map(|job| job.to_string()),
        created_at: time(created_at),
        expires_at: expires_at.map(time),
        has_more_holds: holds.len() > MOST_HOLDS,
        holds: holds.into_iter().take(MOST_HOLDS).map(hold_body).collect(),
    }
}

fn hold_body(hold: Hold) -> HoldBody {
    let (kind, job) = match hold {
        Hold::Input(job) => ("input", Some(job)),
        Hold::Output(job) => ("output", Some(job)),
        Hold::Operator => ("operator", None),
    };
    HoldBody {
        kind: kind.to_owned(),
        job_id: job.map(|job| job.to_string()),
    }
}

/// An asset for people: its fields, and a line for each hold.
fn shown(asset: &AssetBody) -> String {
    let or = |value: &Option<String>, none: &str| value.clone().unwrap_or_else(|| none.to_owned());
    let fields = [
        ("id", asset.id.clone()),
        ("account", asset.account.clone()),
        ("file", or(&asset.file_path, "has no name")),
        ("type", asset.content_type.clone()),
        ("bytes", asset.size_bytes.to_string()),
        ("made by", or(&asset.job_id, "an upload")),
        ("created", asset.created_at.clone()),
        ("expires", or(&asset.expires_at, "never")),
    ];
    let fields = fields.iter().map(|(name, value)| (*name, value.clone()));
    let held = asset.holds.iter().map(|hold| ("kept by", holder(hold)));
    let free = asset
        .holds
        .is_empty()
        .then(|| ("kept by", "nothing: it can be deleted".to_owned()));
    let more = asset
        .has_more_holds
        .then(|| ("kept by", "more jobs".to_owned()));
    let lines = fields.chain(held).chain(free).chain(more);
    lines
        .map(|(name, value)| format!("{name:<9}{value}\n"))
        .collect()
}

/// What keeps an asset, and until when.
fn holder(hold: &HoldBody) -> String {
    let job = hold.job_id.as_deref().unwrap_or_default();
    match hold.kind.as_str() {
        "input" => format!("job {job}, which reads it, until that job ends"),
        "output" => format!("job {job}, which made it, as long as that job is kept"),
        _ => "an operator, until `asset hold remove`".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn an_asset_is_shown_with_what_keeps_it() {
        let job = Uuid::from_u128(7);
        let asset = |holds| AssetBody {
            id: "a".to_owned(),
            account: "acme".to_owned(),
            file_path: None,
            content_type: "image/png".to_owned(),
            size_bytes: 12,
            job_id: None,
            created_at: "2026-01-02T03:04:05Z".to_owned(),
            expires_at: None,
            holds,
            has_more_holds: false,
        };
        let free = shown(&asset(Vec::new()));
        assert!(
            free.ends_with("kept by  nothing: it can be deleted\n"),
            "{free}"
        );
        let holds = [Hold::Input(job), Hold::Output(job), Hold::Operator];
        let kept = AssetBody {
            has_more_holds: true,
            ..asset(holds.map(hold_body).to_vec())
        };
        let kept = shown(&kept);
        let lines = Vec::from_iter(kept.lines().skip(8));
        let expected = [
            format!("kept by  job {job}, which reads it, until that job ends"),
            format!("kept by  job {job}, which made it, as long as that job is kept"),
            "kept by  an operator, until `asset hold remove`".to_owned(),
            "kept by  more jobs".to_owned(),
        ];
        assert_eq!(lines, expected);
    }
}
