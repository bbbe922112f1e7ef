//! Words that no Rust file holds: tests that do not run, holes in the code, sleeping threads, notes to self; and words of
//! texts and types that people have to read twice.

use crate::finding::Finding;
use crate::source::{Source, words};
use crate::workspace::Workspace;

/// Words of code, and what to do instead.
const IN_CODE: &[(&str, &str)] = &[
    ("#[ignore", "make the test run, or delete it"),
    ("#[should_panic", "return an error and assert on it"),
    ("todo!", "write the code"),
    (
        "unimplemented!",
        "write the code, or make the case impossible",
    ),
    ("dbg!", "delete the line"),
    ("thread::sleep", "wait for the event, or move `now`"),
];

/// Words of comments.
const IN_COMMENTS: &[&str] = &["TODO", "FIXME", "XXX"];

/// Words of texts that programs and crates show, and what to write instead; tests and tools may say what they like.
const IN_TEXTS: &[(&str, &str)] = &[
    ("whoever", "name the actor: a client, a user, an operator"),
    ("somebody", "name the actor: a client, a user, an operator"),
    (
        "taken up",
        "write what happens: accepted, claimed, recovered",
    ),
    (
        "took up",
        "write what happens: accepted, claimed, recovered",
    ),
    ("is told", "write what is sent, shown or answered"),
    ("was told", "write what is sent, shown or answered"),
    ("cannot be told", "write what is unknown"),
    ("for want of", "write \"because there is no\""),
    ("goes on", "write \"continues\", or \"still runs\""),
];

/// Names of types that say nothing of what they are; tests may use them.
const IN_TYPES: &[&str] = &["Beside", "Pace", "Standing", "Told", "Verdict"];

/// What a type is declared by.
const DECLARED_BY: [&str; 4] = ["struct", "enum", "trait", "type"];

/// Looks through every Rust file, tests included.
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    workspace.sources.iter().flat_map(found).collect()
}

fn found(source: &Source) -> Vec<Finding> {
    let finding = |offset, word: &str, advice| {
        Finding::new(
            &source.path,
            source.line(offset),
            format!("no file holds `{word}`"),
            advice,
        )
    };
    let mut findings = Vec::new();
    for (word, advice) in IN_CODE {
        findings.extend(words(&source.code, word).map(|offset| finding(offset, word, *advice)));
    }
    for word in IN_COMMENTS {
        let advice = "do it now, or open an issue and say what holds today";
        findings.extend(words(&source.comments, word).map(|offset| finding(offset, word, advice)));
    }
    let is_product = ["bins/", "crates/"]
        .iter()
        .any(|folder| source.path.starts_with(folder));
    for (word, advice) in IN_TEXTS.iter().filter(|_| is_product) {
        let shown = words(&source.literals, word).filter(|at| !source.in_tests(*at));
        findings.extend(shown.map(|offset| finding(offset, word, *advice)));
    }
    for name in IN_TYPES.iter().filter(|_| is_product) {
        for keyword in DECLARED_BY {
            let declared = format!("{keyword} {name}");
            let found = words(&source.code, &declared).filter(|at| !source.in_tests(*at));
            let advice = "use the field's term, or say of what it is: `KeyAnswer`, `TurnTimes`";
            findings.extend(found.map(|offset| finding(offset, &declared, advice)));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(code: &str) -> Vec<String> {
        rules_at("crates/x/src/tests.rs", code)
    }

    fn rules_at(path: &str, code: &str) -> Vec<String> {
        let workspace = Workspace::of(&[(path, code)]);
        check(&workspace)
            .into_iter()
            .map(|finding| finding.rule)
            .collect()
    }

    #[test]
    fn each_word_is_found_in_tests_too() {
        for (word, _) in IN_CODE {
            assert_eq!(
                rules(&format!("{word}(1)")),
                [format!("no file holds `{word}`")]
            );
        }
        for word in IN_COMMENTS {
            assert_eq!(
                rules(&format!("// {word}: later")),
                [format!("no file holds `{word}`")]
            );
        }
    }

    #[test]
    fn a_text_that_is_shown_has_no_word_to_read_twice() {
        for (word, _) in IN_TEXTS {
            let code = format!("let a = \"it {word} b\";");
            let found = rules_at("crates/x/src/a.rs", &code);
            assert_eq!(found, [format!("no file holds `{word}`")]);
            assert_eq!(rules(&code), Vec::<String>::new(), "a test may say so");
            let comment = format!("// it {word} b");
            assert_eq!(rules_at("crates/x/src/a.rs", &comment), [""; 0]);
        }
    }

    #[test]
    fn a_type_is_called_what_it_is() {
        for name in IN_TYPES {
            let code = format!("pub struct {name}<A>(A);");
            let found = rules_at("crates/x/src/a.rs", &code);
            assert_eq!(found, [format!("no file holds `struct {name}`")]);
            assert_eq!(rules(&code), [""; 0], "a test may");
            let longer = format!("pub enum {name}State {{}}");
            assert_eq!(rules_at("crates/x/src/a.rs", &longer), [""; 0]);
        }
    }

    #[test]
    fn a_sentence_about_code_and_a_string_pass() {
        assert_eq!(
            rules("// no todo! here\nlet a = \"TODO\";"),
            Vec::<String>::new()
        );
    }
}
