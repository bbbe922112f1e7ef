//! `nodes list`: the classes of nodes that graphs may have here.

use clap::{ArgMatches, Command};
use serde::Serialize;
use server_kit::listing::{json, json_flag, table, wants_json};
use server_kit::program;
use workflow_core::NodeCatalog;

/// A class, as it is listed.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    class: &'a str,
    display_name: &'a str,
    category: &'a str,
    /// Whether its nodes call a partner's model, which may cost money.
    partner: bool,
}

/// The subcommand.
#[must_use]
pub fn command() -> Command {
    let list = Command::new("list")
        .about(
            "Lists every class that a graph may use: its name, what people call it, its category",
        )
        .arg(json_flag());
    Command::new("nodes")
        .about("Shows the classes of nodes that run here")
        .subcommand_required(true)
        .subcommand(list)
}

/// The classes of the engine alone, without those that a program adds.
#[must_use]
pub fn of_engine() -> NodeCatalog {
    NodeCatalog::new(
        engine_native::nodes::all()
            .iter()
            .map(|node| node.definition()),
    )
}

/// Prints what `catalog` has, by name. `arguments` are those of [`command`].
pub fn list(arguments: &ArgMatches, catalog: &NodeCatalog) {
    let json_wanted = arguments
        .subcommand()
        .is_some_and(|(_, arguments)| wants_json(arguments));
    let mut classes: Vec<Listed<'_>> = catalog
        .iter()
        .map(|definition| Listed {
            class: &definition.class,
            display_name: definition
                .display_name
                .as_ref()
                .unwrap_or(&definition.class),
            category: &definition.category,
            partner: definition.calls_partners(),
        })
        .collect();
    classes.sort_unstable_by_key(|listed| listed.class);
    program::print(&match json_wanted {
        true => json(&classes),
        false => {
            let rows = classes.iter().map(|listed| {
                let cells = [listed.class, listed.display_name, listed.category];
                cells.map(str::to_owned).to_vec()
            });
            table(&["CLASS", "NAME", "CATEGORY"], rows)
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_class_of_the_engine_is_said_to_need_a_worker() {
        let media = engine_native::nodes::media();
        let media = media.iter().map(|node| node.definition().class);
        let classes = of_engine();
        let classes = classes.iter().map(|definition| definition.class.clone());
        for class in classes.chain(media) {
            assert!(!workflow_core::needs_comfyui_worker(&class), "{class}");
        }
    }
}
