//! Schemas as inputs, and inputs as bodies.

use std::sync::Arc;

use async_trait::async_trait;
use engine_native::Value as NodeValue;
use engine_native::define::classic;
use engine_native::images::{Frame, Image};
use router_core::{
    ChargesOnPolicyRejection, Collected, Contact, Failure, Handle, Model, ModelDefinition,
    ModelForm, ModelId, Price, Provider, Submission, Submitted,
};
use workflow_core::NodeDefinition;

use super::*;

/// A model is never run here.
struct Nobody;

#[async_trait]
impl Provider for Nobody {
    async fn submit(&self, _: Submission) -> Result<Submitted, Failure> {
        unreachable!("nothing is submitted")
    }

    async fn collect(&self, _: &Handle, _: &Contact) -> Result<Collected, Failure> {
        unreachable!("nothing is submitted")
    }

    async fn cancel(&self, _: &Handle) {}

    fn price(&self, _: &Value) -> Price {
        Price::Exact { cents: 0 }
    }
}

fn form(schema: Option<Value>, pictures: &[(&str, PictureEncoding)]) -> Form {
    let pictures = pictures.iter();
    let pictures = pictures.map(|(name, encoding)| ((*name).to_owned(), *encoding));
    let definition = ModelDefinition {
        id: ModelId::new("a", "b").expect("it is one"),
        charges_on_policy_rejection: ChargesOnPolicyRejection::No,
        input_schema: schema,
        form: ModelForm {
            pictures: pictures.collect(),
            ..ModelForm::default()
        },
        polling: None,
        alternates: Vec::new(),
        provider: Arc::new(Nobody),
    };
    Form::of(&Model::new(definition).expect("a right schema"))
}

/// What clients see of each input: whether it is required, its type, and its options without the tooltip.
fn seen(form: &Form) -> Vec<(String, bool, String, Value)> {
    let inputs = definitions(form).into_iter();
    let seen = inputs.map(|mut input| {
        input.options.remove("tooltip");
        let io_type = input.socket.io_type().to_owned();
        (input.name, input.required, io_type, input.options.into())
    });
    seen.collect()
}

/// The body of these inputs.
fn body_of(
    form: &Form,
    values: impl IntoIterator<Item = (&'static str, NodeValue)>,
) -> Result<Value, NodeError> {
    let definition = NodeDefinition {
        inputs: definitions(form),
        ..classic("Toy", "tests", "tests")
    };
    let mut inputs = Inputs::new(definition, values);
    body(form, &mut inputs, &NodeContext::detached()).map(Value::Object)
}

fn schema() -> Value {
    json!({
        "type": "object",
        "required": ["model", "prompt", "image"],
        "properties": {
            "model": {"type": "string", "enum": ["only-this"]},
            "stream": {"const": false},
            "webhook_url": false,
            "prompt": {"type": "string", "description": "In words.", "minLength": 1},
            "image": {"type": ["string", "null"]},
            "more": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
            "size": {"type": "string", "enum": ["small", "large"], "default": "large"},
            "seconds": {"type": "integer", "enum": [5, 10]},
            "seed": {"type": ["integer", "null"]},
            "steps": {"type": "integer", "minimum": 1, "maximum": 50, "multipleOf": 2, "default": 28},
            "top": {"type": "integer", "minimum": 1},
            "scale": {"type": "number", "minimum": 0, "maximum": 1, "default": 0.5},
            "raw": {"type": "boolean", "default": true},
            "maybe": {"type": "boolean"},
            "shape": {"anyOf": [{"type": "string", "enum": ["square"]}, {"type": "object"}], "default": "square"},
            "loras": {"type": "array"},
            "parameters": {"type": "object", "properties": {"n": {"type": "integer", "default": 4}}},
        },
    })
}

fn pictures() -> [(&'static str, PictureEncoding); 2] {
    [
        ("image", PictureEncoding::Base64),
        ("more", PictureEncoding::DataUrl),
    ]
}

#[test]
fn a_schema_becomes_inputs() {
    let form = form(Some(schema()), &pictures());
    let expected = [
        (
            "prompt",
            true,
            "STRING",
            json!({"default": "", "multiline": true}),
        ),
        ("image", true, "IMAGE", json!({})),
        ("more", false, "IMAGE", json!({})),
        ("size", false, "COMBO", json!({"default": "large"})),
        (
            "seconds",
            false,
            "COMBO",
            json!({"default": "model default"}),
        ),
        (
            "seed",
            false,
            "INT",
            json!({"default": 0, "min": 0, "max": 2_147_483_647, "step": 1, "control_after_generate": true}),
        ),
        (
            "steps",
            false,
            "INT",
            json!({"default": 28, "min": 1, "max": 50, "step": 2}),
        ),
        (
            "top",
            false,
            "INT",
            json!({"default": 1, "min": 1, "max": 2_147_483_647, "step": 1, "forceInput": true}),
        ),
        (
            "scale",
            false,
            "FLOAT",
            json!({"default": 0.5, "min": 0.0, "max": 1.0, "step": 0.01}),
        ),
        ("raw", false, "BOOLEAN", json!({"default": true})),
        (
            "maybe",
            false,
            "BOOLEAN",
            json!({"default": false, "forceInput": true}),
        ),
        ("shape", false, "COMBO", json!({"default": "square"})),
        (
            "loras",
            false,
            "STRING",
            json!({"default": "", "multiline": true}),
        ),
        (
            "parameters.n",
            false,
            "INT",
            json!({"default": 4, "min": -2_147_483_648_i64, "max": 2_147_483_647, "step": 1}),
        ),
        (
            "ask_again",
            false,
            "INT",
            json!({"default": 0, "min": 0, "max": 2_147_483_647}),
        ),
    ];
    let expected = expected.map(|(name, required, io_type, options)| {
        (name.to_owned(), required, io_type.to_owned(), options)
    });
    assert_eq!(seen(&form), expected);
}

#[test]
fn inputs_become_a_body_with_what_is_always_the_same() {
    let form = form(Some(schema()), &pictures());
    let picture = |frames: usize| {
        let frame = Arc::new(Frame::filled(2, 2, 3, 0.5));
        let image = Image::new(vec![frame; frames]).expect("frames of one shape");
        NodeValue::from(image)
    };
    let made = body_of(
        &form,
        [
            ("prompt", NodeValue::string("a cat")),
            ("image", picture(1)),
            ("more", picture(2)),
            ("seconds", NodeValue::string("10")),
            ("size", NodeValue::string("small")),
            ("seed", NodeValue::Int(7)),
            ("loras", NodeValue::string("[{\"path\": \"x\"}]")),
            ("parameters.n", NodeValue::Int(2)),
            ("ask_again", NodeValue::Int(3)),
        ],
    );
    let mut made = made.expect("they can be sent");
    let image = made["image"].take();
    let image = STANDARD
        .decode(image.as_str().expect("a text"))
        .expect("base64");
    assert!(image.starts_with(b"\x89PNG"));
    let more = made["more"].take();
    let more = more.as_array().expect("several pictures");
    assert!(
        more.len() == 2
            && more.iter().all(|one| one
                .as_str()
                .is_some_and(|one| one.starts_with("data:image/png;base64,")))
    );
    assert_eq!(
        made,
        json!({
            "prompt": "a cat", "image": null, "more": null, "size": "small", "seconds": 10, "seed": 7,
            "loras": [{"path": "x"}], "parameters": {"n": 2}, "model": "only-this",
        })
    );

    let left_out = body_of(
        &form,
        [
            ("prompt", NodeValue::string("")),
            ("seconds", NodeValue::string(UNSET)),
            ("loras", NodeValue::string(" ")),
        ],
    );
    let left_out = left_out.expect("they can be sent");
    assert_eq!(left_out, json!({"prompt": "", "model": "only-this"}));
}

#[test]
fn what_no_body_can_hold_is_refused_by_name() {
    let form = form(Some(schema()), &pictures());
    let frame = Arc::new(Frame::filled(2, 2, 3, 0.5));
    let two = Image::new(vec![frame; 2]).expect("frames of one shape");
    for (name, value) in [
        ("image", NodeValue::from(two)),
        ("loras", NodeValue::string("[1,")),
        ("scale", NodeValue::Float(f64::NAN)),
    ] {
        let error = body_of(&form, [(name, value)]).expect_err(name);
        assert!(error.to_string().contains(&format!("`{name}`")), "{error}");
    }
}

#[test]
fn a_model_without_a_schema_takes_its_whole_body() {
    let form = form(None, &[]);
    let names: Vec<String> = definitions(&form)
        .into_iter()
        .map(|input| input.name)
        .collect();
    assert_eq!(names, ["body", "ask_again"]);
    let made = body_of(&form, [("body", NodeValue::string("{\"a\": [1.50]}"))]);
    assert_eq!(made.expect("an object"), json!({"a": [1.50]}));
    assert!(body_of(&form, [("body", NodeValue::string("[]"))]).is_err());
}
