//! `nodes list`: the classes of nodes that graphs may have here, and ComfyUI's own that need a worker.

use clap::{ArgMatches, Command};
use serde::Serialize;
use server_kit::listing::{json, json_flag, table, wants_json};
use server_kit::program;
use workflow_core::{ComfyuiNeed, NodeCatalog, comfyui_classes};

/// A class, as it is listed.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    class: &'a str,
    display_name: &'a str,
    category: &'a str,
    /// Whether its nodes call a partner's model, which may cost money.
    partner: bool,
    /// `native`, or what it needs: `model`, `worker`.
    state: &'static str,
    /// What it needs in words, in the state `worker`; else nothing.
    needs: &'static str,
}

/// The states of classes, and what they mean.
const STATES: [(&str, &str); 3] = [
    ("native", "runs here"),
    ("model", "needs a model, so a ComfyUI worker"),
    ("worker", "needs a ComfyUI worker, for the reason shown"),
];

/// The subcommand.
#[must_use]
pub fn command() -> Command {
    let list = Command::new("list")
        .about(
            "Lists every class that a graph may use: its name, whether it runs here or what it needs, what people call it, \
             its category",
        )
        .after_help(STATES.map(|(state, meaning)| format!("{state}: {meaning}")).join("\n"))
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

/// Prints what `catalog` has and what a ComfyUI worker would add, by name. `arguments` are those of [`command`].
pub fn list(arguments: &ArgMatches, catalog: &NodeCatalog) {
    let json_wanted = arguments
        .subcommand()
        .is_some_and(|(_, arguments)| wants_json(arguments));
    let classes = listed(catalog);
    program::print(&match json_wanted {
        true => json(&classes),
        false => {
            let rows = classes.iter().map(|listed| {
                let name = match listed.needs {
                    "" => listed.display_name,
                    needs => needs,
                };
                let cells = [listed.class, listed.state, name, listed.category];
                cells.map(str::to_owned).to_vec()
            });
            table(&["CLASS", "STATE", "NAME OR NEED", "CATEGORY"], rows)
        }
    });
}

/// Every class that is known, by name.
fn listed(catalog: &NodeCatalog) -> Vec<Listed<'_>> {
    let here = catalog.iter().map(|definition| Listed {
        class: &definition.class,
        display_name: definition
            .display_name
            .as_ref()
            .unwrap_or(&definition.class),
        category: &definition.category,
        partner: definition.calls_partners(),
        state: "native",
        needs: "",
    });
    let elsewhere = comfyui_classes().filter(|(class, _)| catalog.get(class).is_none());
    let elsewhere = elsewhere.map(|(class, need)| {
        let (state, needs) = match need {
            ComfyuiNeed::Model => ("model", ""),
            ComfyuiNeed::Worker(reason) => ("worker", reason),
        };
        Listed {
            class,
            display_name: "",
            category: "",
            partner: false,
            state,
            needs,
        }
    });
    let mut classes: Vec<Listed<'_>> = here.chain(elsewhere).collect();
    classes.sort_unstable_by_key(|listed| listed.class);
    classes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page of all classes, as it is committed.
    fn page() -> String {
        let catalog = of_engine();
        let classes = listed(&catalog);
        let count = |state: &str| {
            classes
                .iter()
                .filter(|listed| listed.state == state)
                .count()
        };
        let mut page = "# Node classes\n\nEvery class of ComfyUI's own that is known, and where it runs. `nodes list` prints \
                        the same, with the classes of partners where there are any. Made from the classes of the engine and \
                        `crates/workflow-core/src/validate/comfyui_classes.txt`; a test compares it (`BLESS=1` writes it).\n\n\
                        | State | Classes | Meaning |\n|---|---|---|\n"
            .to_owned();
        for (state, meaning) in STATES {
            page += &format!("| {state} | {} | {meaning} |\n", count(state));
        }
        page += "\nNative classes are equal to recorded results of ComfyUI on a CPU: pictures within the tolerances that the \
                 recordings need, sounds to 13 bits, latents to the bit where additions and products settle it and to five digits \
                 where roots and sines do not. Merged tiles \
                 are equal to five digits, so a saved picture may differ by one level where tiles overlap. \
                 Seeds shuffle and cut as numpy does. The preview of CreateBoundingBoxes has no labels, and a format of StringFormat \
                 reads no attributes but those of numbers. What LTXVPreprocess makes depends a little on the version of x264. \
                 GLSLShader computes as a processor does; graphics cards differ in the last bits of roots, powers and sines, \
                 so a saved picture may differ by one level, and noise that is made of such bits may differ wholly. \
                 GLSLShader shows no preview at its node. Pictures of a video are exactly those that ComfyUI \
                 reads, sample by sample; those of 8 bits with full range may differ by two levels between kinds of processors, in ComfyUI, \
                 too. What encoders write depends on the version of FFmpeg. \
                 A shader has at most 65,536 bytes, 131,072 tokens with those of its macros, 8,192 values at once, 256 functions and \
                 4,194,304 steps for a pixel; its pictures and values count as memory of the job. \
                 FFmpeg must be installed for videos, for files of MP3, Opus and OpenEXR that are saved, and for sounds of other formats \
                 than WAV, FLAC and MP3 to begin and end as in ComfyUI.\n";
        page += "\nPictures are read as PNG, JPEG, WebP, GIF, BMP, TIFF and ICO. ComfyUI also reads AVIF, JPEG 2000, TGA, PNM, PCX, \
                 QOI and others; here they fail the node that loads them.\n";
        for (state, _) in STATES {
            page += &format!("\n## {state}\n\n");
            for listed in classes.iter().filter(|listed| listed.state == state) {
                page += &match (listed.display_name, listed.needs) {
                    ("", "") => format!("- `{}`\n", listed.class),
                    ("", needs) => format!("- `{}`: {needs}\n", listed.class),
                    (name, _) => format!("- `{}`: {name} ({})\n", listed.class, listed.category),
                };
            }
        }
        page
    }

    #[test]
    fn the_page_of_classes_says_what_is_there() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/NODES.md");
        let page = page();
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(path, &page).expect("the page can be written");
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == page,
            "docs/NODES.md is not what the engine has; run this test with BLESS=1 and commit it"
        );
    }

    #[test]
    fn no_class_of_the_engine_is_said_to_need_a_worker() {
        let classes = of_engine();
        let classes = classes.iter().map(|definition| definition.class.clone());
        for class in classes {
            assert!(!workflow_core::needs_comfyui_worker(&class), "{class}");
        }
    }
}
