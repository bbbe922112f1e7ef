//! Which alternates of a model are refused.

use super::*;

#[test]
fn an_alternate_that_cannot_be_right_is_refused() {
    let other = MODEL.replace("cat.json", "dog.json");
    let faults = |alternate: &str| {
        let model = format!("{MODEL}\n{alternate}");
        let folder = acme(&[
            ("acme/cat.toml", &model),
            ("zoo/partner.toml", PARTNER),
            ("zoo/dog.toml", &other),
            (
                "zoo/dog.json",
                r#"{"type": "object", "properties": {"b": {"type": "string"}}}"#,
            ),
        ]);
        match check(&folder.source(), &settings(&[], &[])) {
            Ok(_) => Vec::new(),
            Err(faults) => faults.into_iter().map(|fault| fault.reason).collect(),
        }
    };
    let mapped = |body: &str, answer: &str| {
        let of = "[[alternate]]\nprovider = \"zoo\"\nmodel = \"dog\"";
        faults(&format!(
            "{of}\nmapping = {{ body = [{body}], answer = [{answer}] }}"
        ))
    };
    let moved = r#"{ from = "/a", to = "/b" }"#;
    let url = r#"{ from = "/url" }"#;
    assert!(mapped(moved, url).is_empty());
    for (body, answer, reason) in [
        (
            "",
            url,
            "no rule says what becomes of `/a`: move it, or `drop` or `refuse` it with the reason",
        ),
        (
            r#"{ from = "/a" }"#,
            url,
            "the schema of the other model has no `/a`",
        ),
        (
            r#"{ from = "/a", to = "/b" }, { from = "/c", drop = "x" }"#,
            url,
            "the schema of this model has no `/c`",
        ),
        (
            r#"{ from = "/a/*", to = "/b" }"#,
            url,
            "`/a/*` of a body names one member or item, without `*`",
        ),
        (
            moved,
            r#"{ from = "/x/*", to = "/y" }"#,
            "`/x/*` and `/y` have one `*` each, or none",
        ),
        (
            moved,
            r#"{ from = "/x", drop = "y" }"#,
            "what an answer has besides needs no rule",
        ),
    ] {
        assert_eq!(mapped(body, answer), [format!("at `zoo/dog`: {reason}")]);
    }
    let mapping = format!("mapping = {{ body = [{moved}], answer = [{url}] }}");
    let named = |provider: &str, model: &str| {
        format!("[[alternate]]\nprovider = \"{provider}\"\nmodel = \"{model}\"\n{mapping}\n")
    };
    let sourced = named("zoo", "dog").replace("model =", "source = \"https://a.test\"\nmodel =");
    assert_eq!(
        faults(&sourced),
        ["`source` and `read_on` go together: where, and on which day"]
    );
    assert_eq!(
        faults(&named("zoo", "cow")),
        ["there is no model `zoo/cow`"]
    );
    assert_eq!(
        faults(&[named("zoo", "dog"), named("zoo", "dog")].concat()),
        ["`zoo` serves this model twice; callers choose alternates by it"]
    );
    assert_eq!(
        faults(&named("acme", "cat"))[0],
        "`acme` serves this model twice; callers choose alternates by it"
    );
    assert!(
        faults(&named("Zoo", "dog"))[0].contains("provider"),
        "no id has capitals"
    );
}
