//! The commands on the catalog that a running server serves: without such a server there is nobody to ask.

use admin_http::wire::{Answer, CatalogBody, Request};
use clap::{ArgMatches, Command};

use super::client::Client;
use super::commands::say;
use super::remote;
use crate::listing::{self, json_flag, table};
use crate::program::{self, Failure};

/// The words behind `catalog` that ask a server.
pub(super) const WORDS: [&str; 2] = ["list", "reload"];

/// `catalog list` and `catalog reload`, for the command `catalog` of programs that serve one.
#[must_use]
pub fn commands() -> [Command; 2] {
    let list = Command::new("list")
        .about("Lists the models of the running server, and why some are not offered");
    let reload = Command::new("reload").about(
        "Makes the running server read its catalog again, and shows the faults of the catalog",
    );
    [list, reload].map(|command| command.arg(json_flag()).args(remote::flags()))
}

/// Carries a command out.
pub(super) async fn run(
    word: &str,
    arguments: &ArgMatches,
    client: &mut Client<'_>,
) -> Result<(), Failure> {
    let reloads = word == "reload";
    let request = if reloads {
        Request::ReloadCatalog
    } else {
        Request::Catalog
    };
    let Answer::Catalog(catalog) = client.ask(request).await?? else {
        return Ok(());
    };
    if listing::wants_json(arguments) {
        program::print(&listing::json(&catalog));
    } else if reloads {
        let offered = catalog.models.iter();
        let offered = offered.filter(|model| model.state == "offered").count();
        let all = catalog.models.len();
        say(&format!(
            "the catalog is read again: {all} models, of which {offered} are offered"
        ));
    } else {
        program::print(&listed(&catalog));
    }
    Ok(())
}

/// A line for each model; what its partner lacks stands behind it.
fn listed(catalog: &CatalogBody) -> String {
    let missing = |model: &str| {
        let mut partners = catalog.partners.iter();
        let owner = model.split_once('/').map(|(partner, _)| partner);
        let partner = partners.find(|partner| Some(partner.id.as_str()) == owner);
        partner.and_then(|partner| partner.missing.clone())
    };
    let rows = catalog.models.iter().map(|model| {
        let why = missing(&model.id).unwrap_or_default();
        vec![model.id.clone(), model.state.clone(), why]
    });
    table(&["MODEL", "STATE", "MISSING"], rows)
}

#[cfg(test)]
mod tests {
    use admin_http::wire::{ModelBody, PartnerBody};

    use super::*;

    #[test]
    fn a_model_is_listed_with_what_its_partner_lacks() {
        let model = |id: &str, state: &str| ModelBody {
            id: id.to_owned(),
            state: state.to_owned(),
        };
        let partner = |id: &str, missing: Option<&str>| PartnerBody {
            id: id.to_owned(),
            name: id.to_owned(),
            missing: missing.map(ToOwned::to_owned),
        };
        let catalog = CatalogBody {
            models: vec![model("a/one", "offered"), model("b/two", "no_credentials")],
            partners: vec![partner("a", None), partner("b", Some("set B_KEY"))],
        };
        let shown = "MODEL  STATE           MISSING\n\
                     a/one  offered\n\
                     b/two  no_credentials  set B_KEY\n";
        assert_eq!(listed(&catalog), shown);
    }
}
