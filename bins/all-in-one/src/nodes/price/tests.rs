//! Badges of every model: what they say of a new node is what the router estimates for it.

use providers::{Settings, Source};
use server_kit::timer::TokioTimer;

use super::super::fields::definitions;
use super::*;

/// Every model that is compiled in and that a partner runs.
pub(crate) fn models() -> Vec<Arc<Model>> {
    let settings = Settings::new(Vec::new(), Vec::new(), None, Arc::new(TokioTimer));
    let source = Source {
        builtin: true,
        folder: None,
    };
    let settings = settings.expect("the usual authorities");
    let secret = |name: &str| (!name.ends_with("_WEIGHT")).then(|| "secret".to_owned());
    let loaded = providers::load(&source, &settings, &secret);
    let models = loaded.expect("what is compiled in is right").models;
    models.into_iter().map(|loaded| loaded.model).collect()
}

/// What an expression reads where widgets hold these values and nothing is linked.
fn value(seen: &Seen, held: &dyn Fn(&str) -> Value) -> Option<f64> {
    match seen {
        Seen::Always(counted) => *counted,
        Seen::Word(name, words) => {
            let held = held(name);
            let word = held
                .as_str()
                .map_or_else(|| held.to_string(), str::to_lowercase);
            words.get(&word).copied()
        }
        Seen::Number(name) => held(name).as_f64(),
        Seen::Truth(name, yes, no) => match held(name).as_bool() {
            Some(true) => *yes,
            _ => *no,
        },
        Seen::Link(_, _, free) => *free,
    }
}

#[test]
fn the_badge_of_a_new_node_is_the_estimate_of_its_body() {
    let mut calculated = 0;
    for model in models() {
        let (id, form) = (model.id(), Form::of(&model));
        let info = badge(&model, &form);
        let price = model.provider().price(&preset_body(&form));
        let inputs = definitions(&form);
        for widget in info["depends_on"]["widgets"].as_array().expect("a list") {
            let name = widget["name"].as_str().expect("a name");
            let input = inputs.iter().find(|input| input.name == name);
            let input = input.unwrap_or_else(|| panic!("{id} has no {name}"));
            assert_eq!(input.socket.io_type(), widget["type"], "{id} {name}");
            assert!(input.options.contains_key("default"), "{id} {name}");
            assert!(!input.options.contains_key("forceInput"), "{id} {name}");
        }
        for name in info["depends_on"]["inputs"].as_array().expect("a list") {
            let mut names = inputs.iter().map(|input| &input.name);
            assert!(names.any(|known| known == name), "{id} has no {name}");
        }
        let Some(calculation) = model.provider().priced_by() else {
            let said = info["expr"].as_str().expect("an expression");
            assert!(said.contains(&short(price)), "{id}: {said} {price:?}");
            continue;
        };
        calculated += 1;
        let Badge { term, watched } = seen_by_page(&calculation, &form);
        let held = |name: &str| {
            let mut inputs = inputs.iter();
            let input = inputs.find(|input| input.name == name).expect("it is one");
            input.options["default"].clone()
        };
        let cents = term.calculate(&|seen| value(seen, &held));
        let estimated = match price {
            Price::Exact { cents } => Some(cents as f64),
            Price::Estimated { max_cents, .. } => Some(max_cents as f64),
            Price::Unknown { .. } => None,
        };
        assert_eq!(cents, estimated, "{id}: {info:#}");
        let kind_of = |name: &str| {
            let field = form.fields.iter().find(|field| field.name == name);
            &field.expect("it is an input").kind
        };
        for (name, condition) in &watched.open {
            // Widgets of values are seen; lists are written as JSON.
            let is_seen = !condition.contains("!=");
            assert!(is_seen || *kind_of(name) == Kind::Json, "{id} {name}");
        }
    }
    assert!(calculated > 140, "{calculated}");
}

#[test]
fn the_price_follows_from_what_is_filled_in() {
    let models = models();
    let kling = models
        .iter()
        .find(|model| model.id().to_string() == "kling/kling-v3-omni");
    let kling = kling.expect("it is in the catalog");
    let form = Form::of(kling);
    let calculation = kling.provider().priced_by().expect("it is calculated");
    let Badge { term, watched } = seen_by_page(&calculation, &form);
    assert!(watched.widgets.contains_key("mode"), "{watched:?}");
    for (mode, seconds, sound) in [("std", "5", "on"), ("4k", "10", "off"), ("pro", "15", "on")] {
        let body = json!({"mode": mode, "duration": seconds, "sound": sound});
        let held = |name: &str| body.get(name).cloned().unwrap_or_default();
        let cents = term
            .calculate(&|seen| value(seen, &held))
            .map(|cents| cents as u64);
        let Price::Exact { cents: estimated } = kling.provider().price(&body) else {
            panic!("it is exact: {body}");
        };
        assert_eq!(cents, Some(estimated), "{body}");
    }
}
