//! The document, and what its validator says.

use serde_json::json;

use super::*;
use crate::ViolationStep;

fn id() -> ModelId {
    "bfl/flux-2".parse().expect("a valid id")
}

fn document(schema: Value) -> SchemaDocument {
    SchemaDocument::new(&id(), Some(schema), false).expect("a valid schema")
}

fn served(document: &SchemaDocument) -> Value {
    serde_json::from_slice(document.bytes()).expect("a document is JSON")
}

/// `loc type ctx` of each violation.
fn check(schema: Value, body: &Value, expected: &[&str]) {
    let told: Vec<String> = document(schema).violations(body).iter().map(line).collect();
    assert_eq!(told, expected, "{body}");
}

fn line(violation: &Violation) -> String {
    let location = violation.location.iter().map(|step| match step {
        ViolationStep::Field(name) => name.clone(),
        ViolationStep::Index(index) => format!("[{index}]"),
    });
    let location: Vec<String> = location.collect();
    let mut line = format!("{} {}", location.join("."), violation.kind);
    if let Some((name, bound)) = &violation.context {
        line += &format!(" {name}={bound}");
    }
    line
}

#[test]
fn the_document_is_openapi_with_the_concrete_path_of_the_model() {
    let schema = json!({"type": "object", "properties": {"prompt": {"type": "string"}}});
    let document = document(schema.clone());
    let served = served(&document);
    assert_eq!(served["openapi"], "3.1.0");
    assert_eq!(served["x-service-router-model-id"], "bfl/flux-2");
    assert_eq!(served["x-service-input-schema-authored"], true);
    let operation = &served["paths"]["/v1/models/bfl/flux-2"]["post"];
    let body = &operation["requestBody"];
    assert_eq!(body["content"]["application/json"]["schema"], schema);
    assert_eq!(body["required"], true);
    assert!(operation["responses"]["200"]["description"].is_string());
    assert_eq!(operation["security"], json!([{"bearer": []}]));
    assert_eq!(
        served["components"]["securitySchemes"]["bearer"]["type"],
        "http"
    );
    let text = String::from_utf8(document.bytes().to_vec()).expect("UTF-8");
    assert!(
        !text.contains('\n') && !text.contains(": "),
        "not minified: {text}"
    );
}

#[test]
fn the_bytes_and_the_tag_follow_from_the_definition_alone() {
    let schema = json!({"type": "object", "$defs": {"b": {}, "a": {}},
        "properties": {"x": {"$ref": "#/$defs/b"}, "y": {"$ref": "#/$defs/a"}}});
    let (one, other) = (document(schema.clone()), document(schema));
    assert_eq!(one.bytes(), other.bytes());
    assert_eq!(one.etag(), other.etag());
    assert!(one.etag().starts_with('"') && one.etag().ends_with('"') && one.etag().len() > 2);
    assert_ne!(one.etag(), document(json!({"type": "object"})).etag());
}

#[test]
fn a_model_without_a_schema_is_an_open_object() {
    let open = SchemaDocument::new(&id(), None, false).expect("an open schema");
    assert!(!open.is_authored());
    let served = served(&open);
    assert_eq!(served["x-service-input-schema-authored"], false);
    let body = &served["paths"]["/v1/models/bfl/flux-2"]["post"]["requestBody"];
    assert_eq!(
        body["content"]["application/json"]["schema"],
        json!({"type": "object", "additionalProperties": true})
    );
    assert_eq!(open.violations(&json!({"any": ["thing", 1]})), []);
}

#[test]
fn only_definitions_that_are_referenced_become_components() {
    let document = document(json!({
        "type": "object",
        "properties": {"size": {"$ref": "#/$defs/size"}, "$ref": {"default": {"$ref": "#/left/alone"}}},
        "$defs": {
            "size": {"type": "object", "properties": {"side": {"$ref": "#/definitions/side"}}},
            "unused": {"type": "null"},
        },
        "definitions": {"side": {"type": "integer", "maximum": 9}},
    }));
    let served = served(&document);
    let schemas = served["components"]["schemas"].as_object().expect("a map");
    assert_eq!(schemas.keys().collect::<Vec<_>>(), ["side", "size"]);
    let body = &served["paths"]["/v1/models/bfl/flux-2"]["post"]["requestBody"]["content"]["application/json"]
        ["schema"];
    assert_eq!(
        body["properties"]["size"]["$ref"],
        "#/components/schemas/size"
    );
    assert_eq!(
        body["properties"]["$ref"]["default"]["$ref"],
        "#/left/alone"
    );
    assert_eq!(
        schemas["size"]["properties"]["side"]["$ref"],
        "#/components/schemas/side"
    );
    let told = document.violations(&json!({"size": {"side": 10}}));
    assert_eq!(
        told.iter().map(line).collect::<Vec<_>>(),
        ["size.side less_than_equal le=9"]
    );
}

#[test]
fn a_schema_of_its_own_becomes_a_part_of_the_document() {
    let document = document(json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://example.com/flux.json",
        "type": "object",
        "properties": {"size": {"$ref": "#/$defs/size"}},
        "$defs": {"size": {"type": "integer"}},
    }));
    let text = String::from_utf8(document.bytes().to_vec()).expect("UTF-8");
    assert!(!text.contains("$id") && !text.contains("$schema"), "{text}");
    let told = document.violations(&json!({"size": "x"}));
    assert_eq!(told.iter().map(line).collect::<Vec<_>>(), ["size int_type"]);
}

#[test]
fn definitions_may_refer_to_each_other_in_a_circle() {
    let schema = json!({"$ref": "#/$defs/tree", "$defs": {"tree": {
        "type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}, "value": {"type": "integer"}}}}});
    check(
        schema,
        &json!({"left": {"left": {"value": "x"}}}),
        &["left.left.value int_type"],
    );
}

#[test]
fn a_schema_that_cannot_be_used_is_refused_with_the_reason() {
    for (schema, reason) in [
        (
            json!({"$ref": "https://example.com/schema.json"}),
            "https://example.com/schema.json",
        ),
        (json!({"$ref": "file:///etc/passwd"}), "file:///etc/passwd"),
        (json!({"$ref": "#/$defs/missing"}), "missing"),
        (json!({"properties": {"a": {"pattern": "(a)\\1"}}}), "a"),
        (json!({"type": "thing"}), "type (at /type)"),
        (json!({"$defs": {"a": {}}, "definitions": {"a": {}}}), "`a`"),
    ] {
        let refused =
            SchemaDocument::new(&id(), Some(schema.clone()), false).expect_err("unusable");
        assert!(refused.to_string().contains(reason), "{schema}: {refused}");
    }
}

#[test]
fn all_errors_are_told_in_document_order() {
    let schema = json!({"type": "object", "required": ["prompt", "seed"], "additionalProperties": false,
    "properties": {
        "prompt": {"type": "string", "maxLength": 3},
        "seed": {"type": "integer"},
        "images": {"type": "array", "items": {"type": "object", "properties": {"w": {"type": "integer"}, "h": {"type": "integer"}}}},
        "mode": {"enum": ["a", "b", 3]},
    }});
    check(
        schema,
        &json!({"mode": "c", "extra": 1, "images": [{"h": "x", "w": "y"}, 3], "prompt": "long"}),
        &[
            "mode enum expected=\"'a', 'b' or 3\"",
            "extra extra_forbidden",
            "images.[0].h int_type",
            "images.[0].w int_type",
            "images.[1] dict_type",
            "prompt string_too_long max_length=3",
            "seed missing",
        ],
    );
}

#[test]
fn a_body_that_is_no_object_is_dict_type_at_the_body() {
    for body in [json!([]), json!("x"), json!(1), json!(null)] {
        check(json!({"type": "object"}), &body, &[" dict_type"]);
        let open = SchemaDocument::new(&id(), None, false).expect("an open schema");
        assert_eq!(
            open.violations(&body).iter().map(line).collect::<Vec<_>>(),
            [" dict_type"]
        );
    }
}

#[test]
fn every_keyword_has_its_word() {
    let string = json!("x");
    let number = json!(5);
    for (keyword, value, expected) in [
        (json!({"type": "string"}), &number, "a string_type"),
        (json!({"type": "integer"}), &string, "a int_type"),
        (json!({"type": "number"}), &string, "a float_type"),
        (json!({"type": "boolean"}), &string, "a bool_type"),
        (json!({"type": "array"}), &string, "a list_type"),
        (json!({"type": "object"}), &string, "a dict_type"),
        (json!({"type": "null"}), &string, "a none_required"),
        (json!({"type": ["integer", "null"]}), &string, "a int_type"),
        (
            json!({"type": ["integer", "array"]}),
            &string,
            "a type_error expected=\"integer, array\"",
        ),
        (json!({"minimum": 6}), &number, "a greater_than_equal ge=6"),
        (
            json!({"exclusiveMinimum": 5}),
            &number,
            "a greater_than gt=5",
        ),
        (json!({"maximum": 4.5}), &number, "a less_than_equal le=4.5"),
        (json!({"exclusiveMaximum": 5}), &number, "a less_than lt=5"),
        (
            json!({"multipleOf": 2}),
            &number,
            "a multiple_of multiple_of=2.0",
        ),
        (
            json!({"minLength": 2}),
            &string,
            "a string_too_short min_length=2",
        ),
        (
            json!({"maxLength": 0}),
            &string,
            "a string_too_long max_length=0",
        ),
        (
            json!({"pattern": "^y"}),
            &string,
            "a string_pattern_mismatch pattern=\"^y\"",
        ),
        (json!({"enum": ["y"]}), &string, "a enum expected=\"'y'\""),
        (
            json!({"const": "y"}),
            &string,
            "a literal_error expected=\"y\"",
        ),
        (
            json!({"minItems": 2}),
            &json!([1]),
            "a too_short min_length=2",
        ),
        (
            json!({"maxItems": 0}),
            &json!([1]),
            "a too_long max_length=0",
        ),
        (
            json!({"uniqueItems": true}),
            &json!([1, 1]),
            "a unique_items",
        ),
        (json!(false), &string, "a extra_forbidden"),
        (json!({"not": {"type": "string"}}), &string, "a value_error"),
        (
            json!({"oneOf": [{"type": "string"}, {"maxLength": 9}]}),
            &string,
            "a one_of",
        ),
    ] {
        let schema = json!({"type": "object", "properties": {"a": keyword}});
        check(schema, &json!({"a": value}), &[expected]);
    }
}

#[test]
fn no_error_hides_another_of_its_keyword() {
    let missing = json!({"type": "object", "required": ["a", "b", "c"]});
    check(
        missing.clone(),
        &json!({"b": 1}),
        &["a missing", "c missing"],
    );
    check(
        json!({"allOf": [missing, {"required": ["d"]}]}),
        &json!({}),
        &["a missing", "b missing", "c missing", "d missing"],
    );
    check(
        json!({"dependentRequired": {"a": ["b", "c"]}}),
        &json!({"a": 1}),
        &["b missing", "c missing"],
    );
    check(
        json!({"unevaluatedProperties": false, "properties": {"a": {}}}),
        &json!({"a": 1, "b": 1, "c": 1}),
        &["b extra_forbidden", "c extra_forbidden"],
    );
    check(
        json!({"patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": false}),
        &json!({"x1": "", "x2": "", "y": 1, "z": 1}),
        &[
            "x1 int_type",
            "x2 int_type",
            "y extra_forbidden",
            "z extra_forbidden",
        ],
    );
    check(
        json!({"additionalProperties": {"type": "integer"}}),
        &json!({"a": "", "b": ""}),
        &["a int_type", "b int_type"],
    );
    check(
        json!({"properties": {"a": {"minLength": 3, "pattern": "^x", "enum": ["x"]}}}),
        &json!({"a": "y"}),
        &[
            "a enum expected=\"'x'\"",
            "a string_too_short min_length=3",
            "a string_pattern_mismatch pattern=\"^x\"",
        ],
    );
}

#[test]
fn of_alternatives_the_one_that_takes_the_type_is_told() {
    let nullable = json!({"anyOf": [{"type": "string", "maxLength": 2}, {"type": "null"}]});
    let schema = |a: &Value| json!({"type": "object", "properties": {"a": a}});
    check(
        schema(&nullable),
        &json!({"a": "long"}),
        &["a string_too_long max_length=2"],
    );
    check(schema(&nullable), &json!({"a": 1}), &["a string_type"]);
    let objects = json!({"oneOf": [
        {"type": "object", "required": ["x"], "properties": {"x": {"type": "integer"}}},
        {"type": "array"},
    ]});
    check(schema(&objects), &json!({"a": {}}), &["a.x missing"]);
    let unlike = json!({"anyOf": [{"type": "object", "required": ["x"]}, {"type": "object", "required": ["y"]}]});
    check(schema(&unlike), &json!({"a": {}}), &["a no_match"]);
}

#[test]
fn unknown_fields_pass_unless_additional_properties_is_false() {
    check(
        json!({"type": "object", "properties": {"a": {}}}),
        &json!({"b": 1}),
        &[],
    );
    check(
        json!({"type": "object", "properties": {"a": {}}, "additionalProperties": false}),
        &json!({"b": 1, "a": 2, "c": 3}),
        &["b extra_forbidden", "c extra_forbidden"],
    );
    let closed = json!({"type": "object", "properties": {"a": {"additionalProperties": false}}});
    check(
        closed,
        &json!({"a": {"x": 1, "y": {}}}),
        &["a.x extra_forbidden", "a.y extra_forbidden"],
    );
    let field = json!({"type": "object", "properties": {"additionalProperties": false}});
    check(
        field,
        &json!({"additionalProperties": {"x": 1}}),
        &["additionalProperties extra_forbidden"],
    );
}

#[test]
fn errors_never_echo_what_was_sent() {
    let schema = json!({"type": "object", "additionalProperties": false, "properties": {
        "a": {"type": "integer"}, "b": {"enum": ["x"]}, "c": {"pattern": "^y"}, "d": {"const": 1}, "e": {"not": {}}}});
    let body = json!({"a": "s3cret", "b": "s3cret", "c": "s3cret", "d": "s3cret", "e": "s3cret"});
    let told = document(schema).violations(&body);
    assert_eq!(told.len(), 5);
    assert!(!format!("{told:?}").contains("s3cret"), "{told:?}");
}

#[test]
fn a_pattern_that_backtracks_elsewhere_takes_no_time_here() {
    let schema = json!({"type": "object", "properties": {"a": {"pattern": "^(a+)+$"}}});
    let hostile = format!("{}!", "a".repeat(100_000));
    assert_eq!(
        document(schema).violations(&json!({ "a": hostile })).len(),
        1
    );
}

#[test]
fn an_endless_list_of_errors_is_cut() {
    let schema = json!({"type": "object", "properties": {"a": {"items": {"type": "string"}}}});
    let many = vec![0; 5_000];
    let told = document(schema).violations(&json!({ "a": many }));
    assert_eq!(told.len(), 1_000);
    let strict = json!({"type": "object", "additionalProperties": false});
    let fields = (0..50_000).map(|n| (format!("f{n}"), json!(n)));
    let told = document(strict).violations(&Value::Object(fields.collect()));
    assert_eq!(told.len(), 1_000);
    assert_eq!(line(&told[999]), "f999 extra_forbidden");
}
