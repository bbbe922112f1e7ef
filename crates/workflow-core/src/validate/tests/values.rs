//! Constants, choices and files.

use serde_json::json;

use super::*;
use crate::references::references;

/// What becomes of `value` in an input of `Values`: the input, or the error.
fn put(input: &str, value: Value) -> Result<NodeInput, Box<ValidationError>> {
    put_with(&ResolvedFiles::new(), "Values", input, value)
}

fn put_with(
    files: &ResolvedFiles,
    class: &str,
    input: &str,
    value: Value,
) -> Result<NodeInput, Box<ValidationError>> {
    let sent = graph(json!({
        "1": {"class_type": class, "inputs": {input: value}},
        "2": {"class_type": "Save", "inputs": {"images": ["1", 0]}},
    }));
    let targets = [if class == "Values" { "1" } else { "2" }.to_owned()];
    let validation = validate(&sent, &catalog(), files, Some(&targets));
    match validation.graph {
        Some(valid) => Ok(valid.nodes["1"].inputs[input].clone()),
        None => Err(Box::new(sole_error(&validation).clone())),
    }
}

fn constant(value: Value) -> Result<NodeInput, Box<ValidationError>> {
    Ok(NodeInput::Constant(value))
}

#[test]
fn constants_take_the_type_of_their_socket() {
    let cases = [
        ("int", json!("7"), json!(7)),
        ("int", json!(7.9), json!(7)),
        ("int", json!(true), json!(1)),
        ("int", json!({"__value__": "7"}), json!(7)),
        ("int", json!(u64::MAX), json!(u64::MAX)),
        ("float", json!(7), json!(7.0)),
        ("float", json!("1e3"), json!(1000.0)),
        ("float", json!("NaN"), json!("nan")),
        ("float", json!("-Infinity"), json!("-inf")),
        ("text", json!(null), json!("None")),
        ("text", json!(1.0), json!("1.0")),
        ("text", json!({"__value__": [1, "a"]}), json!("[1, 'a']")),
        ("text", json!({"a": true}), json!("{'a': True}")),
        ("truth", json!("false"), json!(true)),
        ("truth", json!(""), json!(false)),
        ("truth", json!({"__value__": []}), json!(false)),
        ("any", json!({"a": null}), json!({"a": null})),
        ("any", json!({"__value__": ["1", 0]}), json!(["1", 0])),
        ("any", json!(null), json!(null)),
    ];
    for (input, value, expected) in cases {
        assert_eq!(put(input, value), constant(expected), "{input}");
    }
}

#[test]
fn what_cannot_be_converted_is_told_in_pythons_words() {
    let cases = [
        (
            "int",
            json!("abc"),
            "int, abc, invalid literal for int() with base 10: 'abc'",
            "'abc' is not a whole number of at most 64 bits",
        ),
        (
            "int",
            json!(null),
            "int, None, int() argument must be a string, a bytes-like object or a real number, not 'NoneType'",
            "None is not a whole number of at most 64 bits",
        ),
        (
            "int",
            json!(1e20),
            "int, 1e+20, Python int too large to convert to C long",
            "1e+20 is not a whole number of at most 64 bits",
        ),
        (
            "float",
            json!("wide"),
            "float, wide, could not convert string to float: 'wide'",
            "'wide' is not a number",
        ),
        (
            "either",
            json!("x"),
            "either, x, IMAGE,MASK takes a link to the output of a node",
            "takes a link to an output of type IMAGE,MASK, not a value",
        ),
    ];
    for (input, value, details, reason) in cases {
        let error = put(input, value.clone()).unwrap_err();
        assert_eq!(error.kind.error_type(), "invalid_input_type");
        assert_eq!(
            (error.details(), error.reason()),
            (details.to_owned(), reason.to_owned())
        );
        assert_eq!(error.received, Some(value));
    }
    let error = put("int", json!("abc")).unwrap_err();
    assert_eq!(
        error.message(),
        "Failed to convert an input value to a INT value"
    );
}

#[test]
fn numbers_stay_within_their_bounds() {
    let none = ResolvedFiles::new();
    let size = |value| put_with(&none, "Make", "size", value);
    assert_eq!(size(json!(1)), constant(json!(1)));
    assert_eq!(size(json!("64")), constant(json!(64)));
    let error = size(json!("65.5")).unwrap_err();
    assert_eq!(error.kind.error_type(), "invalid_input_type");
    let error = size(json!(65.5)).unwrap_err();
    assert_eq!(error.message(), "Value 65 bigger than max of 64");
    assert_eq!(error.details(), "size");
    assert_eq!(
        error.reason(),
        "65 is bigger than the largest value allowed, 64"
    );
    assert_eq!(error.received, Some(json!(65)));
    let error = size(json!(false)).unwrap_err();
    assert_eq!(error.message(), "Value 0 smaller than min of 1");
    assert_eq!(
        error.reason(),
        "0 is smaller than the smallest value allowed, 1"
    );
    let error = size(json!("123456789012345678901234567890")).unwrap_err();
    assert_eq!(
        error.message(),
        "Value 123456789012345678901234567890 bigger than max of 64"
    );
    let error = size(json!(-1e300)).unwrap_err();
    assert_eq!(error.kind, ValidationErrorKind::ValueSmallerThanMin);
}

#[test]
fn floats_stay_within_their_bounds() {
    let amount = |value: Value| {
        let validation = check(json!({
            "0": {"class_type": "Make", "inputs": {}},
            "1": {"class_type": "Change", "inputs": {"image": ["0", 0], "amount": value}},
            "2": {"class_type": "Save", "inputs": {"images": ["1", 0]}},
        }));
        validation
            .errors
            .values()
            .map(|node| node.errors[0].message())
            .next()
    };
    assert_eq!(amount(json!(1)), None);
    assert_eq!(
        amount(json!("nan")),
        None,
        "what is not a number is out of no bound"
    );
    assert_eq!(
        amount(json!(2)).unwrap(),
        "Value 2.0 bigger than max of 1.0"
    );
    assert_eq!(
        amount(json!("inf")).unwrap(),
        "Value inf bigger than max of 1.0"
    );
    assert_eq!(
        amount(json!(-1e-7)).unwrap(),
        "Value -1e-07 smaller than min of 0.0"
    );
}

#[test]
fn words_are_among_the_choices_of_both_spellings() {
    assert_eq!(put("old", json!("b")), constant(json!("b")));
    assert_eq!(put("new", json!("b")), constant(json!("b")));
    assert_eq!(put("new", json!(8)), constant(json!(8)));
    for (input, listed) in [("old", "['a', 'b']"), ("new", "['a', 'b', '8']")] {
        let error = put(input, json!("c")).unwrap_err();
        assert_eq!(error.details(), format!("{input}: 'c' not in {listed}"));
        assert_eq!(error.message(), "Value not in list");
    }
    assert_eq!(
        put("old", json!("c")).unwrap_err().reason(),
        "'c' is not one of a, b"
    );
    for wrong in [
        json!(null),
        json!(1),
        json!({"a": 1}),
        json!({"__value__": ["a"]}),
    ] {
        assert_eq!(
            put("old", wrong).unwrap_err().kind,
            ValidationErrorKind::ValueNotInList
        );
    }
}

#[test]
fn several_words_may_be_chosen_where_that_is_allowed() {
    assert_eq!(
        put("many", json!({"__value__": ["a", "b"]})),
        constant(json!(["a", "b"]))
    );
    assert_eq!(put("many", json!("a")), constant(json!("a")));
    let error = put("many", json!({"__value__": ["a", "c"]})).unwrap_err();
    assert_eq!(error.kind, ValidationErrorKind::ValueNotInList);
}

#[test]
fn long_lists_of_choices_are_not_spelled_out() {
    let choices: Vec<String> = (0..21).map(|choice| choice.to_string()).collect();
    let chooser = object_info::catalog(&json!({
        "Choose": {"output_node": true, "input": {"required": {"long": [choices], "empty": [[]]}}},
    }));
    let sent = graph(json!({"1": {"class_type": "Choose", "inputs": {"long": "x", "empty": "y"}}}));
    let validation = validate(&sent, &chooser, &ResolvedFiles::new(), None);
    let errors = &validation.errors["1"].errors;
    assert_eq!(errors[0].details(), "long: 'x' not in (list of length 21)");
    assert_eq!(
        errors[0].reason(),
        "'x' is not among the choices (list of length 21)"
    );
    assert_eq!(
        errors[1].reason(),
        "'y' cannot be chosen, since there are no choices"
    );
}

#[test]
fn files_go_by_their_whole_name_before_the_note_of_a_folder() {
    let files = files_named(&["cat.png", "dog.png [output]", "dog.png"]);
    let load = |value| put_with(&files, "Load", "image", value);
    assert_eq!(load(json!("cat.png")), Ok(NodeInput::File(file("cat.png"))));
    assert_eq!(
        load(json!("cat.png [input]")),
        Ok(NodeInput::File(file("cat.png")))
    );
    assert_eq!(
        load(json!("cat.png [temp]")),
        Ok(NodeInput::File(file("cat.png")))
    );
    assert_eq!(
        load(json!("dog.png [output]")),
        Ok(NodeInput::File(file("dog.png [output]")))
    );
    let address = json!("https://example.com/cat.png");
    assert_eq!(load(address.clone()), constant(address));
    for wrong in [
        "",
        "emu.png",
        "cat.png[input]",
        "http://example.com/cat.png",
        "old.png",
    ] {
        let error = load(json!(wrong)).unwrap_err();
        assert_eq!(error.kind.error_type(), "custom_validation_failed");
        assert_eq!(
            error.details(),
            format!("image - Invalid image file: {wrong}")
        );
        assert_eq!(
            error.reason(),
            format!("there is no file '{wrong}' in this account; upload it first")
        );
    }
    assert_eq!(
        load(json!(5)).unwrap_err().kind,
        ValidationErrorKind::InvalidFile {
            name: "5".to_owned()
        }
    );
}

#[test]
fn a_scene_names_files_of_the_account_and_no_others() {
    let mut files = files_named(&["3d/scene.png [temp]", "mask.png"]);
    files.insert("id-1".to_owned(), file("normal.png"));
    let scene = |value| put_with(&files, "Values", "scene", value);
    let sent = json!({
        "image": "3d/scene.png [temp]", "mask": "mask.png [input]", "recording": "",
        "normal": {"__type": "core/ASSET", "info": {"id": "id-1"}},
        "camera_info": {"image": "of-somebody.png"}
    });
    let found = scene(sent.clone()).unwrap();
    let names: Vec<&str> = found.files().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["3d/scene.png [temp]", "mask.png", "normal.png"]);
    let NodeInput::Scene { value, .. } = found else {
        panic!("a scene");
    };
    assert_eq!(Value::Object(value), sent);
    for without in [json!({}), json!({"image": null}), json!("none"), json!(7)] {
        let found = scene(without.clone());
        assert_eq!(found.unwrap().files().count(), 0, "{without}");
    }
    for key in ["image", "mask", "normal", "recording"] {
        for name in ["of-somebody.png [output]", "https://example.com/cat.png"] {
            let error = scene(json!({key: name})).unwrap_err();
            let expected = format!("there is no file '{name}' in this account; upload it first");
            assert_eq!(error.reason(), expected);
        }
        assert!(scene(json!({key: ["mask.png"]})).is_err());
    }
}

#[test]
fn what_a_scene_names_is_looked_for() {
    let scene = json!({"image": "a.png [temp]", "mask": "b.png", "recording": "", "camera_info": {"image": "c.png"}});
    let sent = graph(json!({
        "1": {"class_type": "Values", "inputs": {"scene": {"__value__": scene}, "any": scene}}
    }));
    let found = references(&sent, &catalog());
    let named: Vec<(&str, &str)> = found
        .iter()
        .map(|found| (found.field.as_str(), found.text.as_str()))
        .collect();
    assert_eq!(named, [("scene", "a.png [temp]"), ("scene", "b.png")]);
}

#[test]
fn references_to_assets_are_files_where_a_file_can_be_meant() {
    let reference = |id: &str| json!({"__type": "core/ASSET", "info": {"id": id, "file_path": "elsewhere.png"}});
    let files = ResolvedFiles::from([("id-1".to_owned(), file("cat.png"))]);
    let cat = || Ok(NodeInput::File(file("cat.png")));
    assert_eq!(put_with(&files, "Load", "image", reference("id-1")), cat());
    assert_eq!(put_with(&files, "Values", "text", reference("id-1")), cat());
    assert_eq!(put_with(&files, "Values", "any", reference("id-1")), cat());
    for (input, error_type) in [
        ("int", "invalid_input_type"),
        ("either", "invalid_input_type"),
        ("old", "value_not_in_list"),
    ] {
        let error = put_with(&files, "Values", input, reference("id-1")).unwrap_err();
        assert_eq!(error.kind.error_type(), error_type);
    }
    for input in ["text", "any", "int", "either"] {
        let error = put_with(&files, "Values", input, reference("id-2")).unwrap_err();
        assert_eq!(
            error.kind,
            ValidationErrorKind::InvalidFile {
                name: "id-2".to_owned()
            }
        );
    }
    let error = put_with(&files, "Load", "image", json!({"__type": "core/ASSET"})).unwrap_err();
    assert_eq!(
        error.kind,
        ValidationErrorKind::InvalidFile {
            name: String::new()
        }
    );
}

#[test]
fn long_values_do_not_drown_the_reason() {
    let error = put("old", json!("é".repeat(1000))).unwrap_err();
    assert_eq!(
        error.reason(),
        format!("'{}...' is not one of a, b", "é".repeat(80))
    );
}
