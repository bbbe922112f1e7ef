//! What is written, and what is refused.

use super::*;

fn draft() -> Draft {
    Draft::new("2026-11-27".parse().expect("it is a date"))
}

fn answered(answers: &[(Question, &str)]) -> Draft {
    let next = |draft: Draft, (question, answer): &(Question, &str)| {
        draft.with(*question, answer).expect(answer)
    };
    answers.iter().fold(draft(), next)
}

#[test]
fn the_examples_of_the_questions_make_a_whole_partner() {
    let examples = Question::ALL.map(|question| (question, question.example()));
    let draft = answered(&examples);
    let partner = r#"# How acme is called. The keys are explained in docs/PARTNERS.md.
name = "Acme"
base_url = "https://api.acme.example"

[auth]
kind = "bearer"
secret = { env = "ACME_KEY" }

[call.run]
style = "poll"
submit = { path = "/v1/paint" }

[call.run.task]
id = "/id"

[call.run.poll]
path = "/v1/tasks/{task}"

# A state that is in no set means: ask again.
[call.run.state]
pointer = "/status"
ok = ["done"]
failed = ["failed"]
"#;
    let model = r#"# Whether acme charges for what its policy refuses: "yes", "no" or "unknown".
charges_on_policy_rejection = "unknown"
read_on = "2026-11-27"
assets = ["/images/*/url"]

[price]
kind = "fixed"
cents = 4
"#;
    assert_eq!(draft.partner_file(), partner);
    assert_eq!(draft.model_file(), model);
}

#[test]
fn every_part_of_a_polled_call_is_written() {
    let told = "poll task=/id url=/urls/get state=/state ok=2,done failed=3 result=/r/{task} delete=/t/{task}";
    let draft = answered(&[
        (Question::Key, "header Authorization ACME_KEY Key"),
        (Question::Answer, told),
    ]);
    let text = draft.partner_file();
    for line in [
        "name = \"Authorization\"\nprefix = \"Key \"\nsecret = { env = \"ACME_KEY\" }\n",
        "keep = { status_url = \"/urls/get\" }\n\n[call.run.poll]\nurl = \"{status_url}\"\n",
        "ok = [2, \"done\"]\nfailed = [3]\n",
        "[[call.run.result]]\npath = \"/r/{task}\"\n",
        "[call.run.cancel]\nmethod = \"DELETE\"\npath = \"/t/{task}\"\n",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
}

#[test]
fn a_refusal_says_what_to_write_and_never_repeats_a_key() {
    for (question, answer, told) in [
        (
            Question::Model,
            "Acme Painter",
            "a model id is `provider/model`",
        ),
        (
            Question::Model,
            "acme/partner",
            "partner.toml is the file of the partner itself",
        ),
        (
            Question::Address,
            "api.acme.example/v1",
            "an address is whole",
        ),
        (
            Question::Address,
            "https://api.acme.example/",
            "an address is whole",
        ),
        (Question::Key, "bearer sk-hunter2", "never the key itself"),
        (Question::Key, "", "write `bearer VARIABLE`"),
        (Question::Answer, "later", "write `sync` alone"),
        (Question::Answer, "poll task=/id", "path= is missing"),
        (
            Question::Answer,
            "poll task=/id path=/v1/tasks",
            "/v1/tasks has no {task}",
        ),
        (
            Question::Answer,
            "poll task=/id task=/id",
            "`task` is there twice",
        ),
        (
            Question::Answer,
            "poll colour=red",
            "`colour=red` is no part of it",
        ),
        (Question::Price, "free", "the price comes first"),
        (Question::Price, "-1", "the price comes first"),
        (Question::Price, "NaN", "the price comes first"),
        (Question::Price, "4 images", "`images` is no JSON Pointer"),
    ] {
        let refused = draft().with(question, answer).expect_err(answer);
        assert!(refused.contains(told), "{answer}: {refused}");
        assert!(!refused.contains("hunter2"), "{refused}");
    }
}
