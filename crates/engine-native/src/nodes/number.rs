//! Numbers, sizes and colours: converted, chosen and taken apart.

use serde_json::json;
use workflow_core::{NodeDefinition, Socket};

use crate::define::{
    float_input, input, int_input, latest, modern_combo, named, named_output, output, widget,
};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput, Value};

/// A number out of a number, a text or a truth value.
#[derive(Clone, Copy, Debug)]
pub struct ComfyNumberConvert;

impl Node for ComfyNumberConvert {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Convert Number"),
            inputs: vec![input(
                "value",
                Socket::Link("INT,FLOAT,STRING,BOOLEAN".to_owned()),
                json!({"display_name": "value"}),
            )],
            outputs: vec![output("FLOAT"), output("INT")],
            ..latest(
                "ComfyNumberConvert",
                "comfy_extras.nodes_number_convert",
                "utilities",
                json!({"search_aliases": ["int to float", "float to int", "number convert", "int2float", "float2int", "cast", "parse number", "string to number", "bool to int"]}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let (float, whole) = converted(&inputs.value("value")?)?;
        Ok(NodeOutput::of([Value::Float(float), Value::Int(whole)]))
    }
}

fn converted(value: &Value) -> Result<(f64, i128), NodeError> {
    // What is beyond the whole numbers of a graph has no place on a link of them.
    let of_float = |float: f64| match float.abs() < i128::MAX as f64 {
        true => Ok((float, float as i128)),
        false => Err(NodeError::value(format!(
            "{float} is not finite or too large; give a smaller number"
        ))),
    };
    match value {
        Value::Boolean(truth) => Ok((f64::from(u8::from(*truth)), i128::from(*truth))),
        Value::Int(number) => Ok((*number as f64, *number)),
        Value::Float(number) => of_float(*number),
        Value::String(text) => {
            let wrong = || {
                NodeError::value(format!(
                    "{:?} is no number; write it in digits, such as 12 or 1.5e3",
                    shortened(text)
                ))
            };
            let text = python_number(text).ok_or_else(wrong)?;
            let float: f64 = text.parse().map_err(|_| wrong())?;
            let (float, truncated) = of_float(float)?;
            Ok((float, text.parse().unwrap_or(truncated)))
        }
        Value::Image(_)
        | Value::Mask(_)
        | Value::Json(_)
        | Value::File(_)
        | Value::Opaque(_)
        | Value::Blocker(_) => Err(NodeError::new(
            "TypeError",
            format!(
                "{} is no number; give a number, a text or a truth value",
                value.io_type()
            ),
        )),
    }
}

/// A number as Rust reads it: Python also takes space around it and underscores between digits.
pub(super) fn python_number(text: &str) -> Option<String> {
    let text = text.trim_matches(super::text::is_space);
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let is_wrong = |at: usize| bytes[at] == b'_' && !(at > 0 && digit(at - 1) && digit(at + 1));
    let wrong = (0..bytes.len()).any(is_wrong) || text.is_empty();
    (!wrong).then(|| text.replace('_', ""))
}

fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Width and height for a shape and so many megapixels.
#[derive(Clone, Copy, Debug)]
pub struct ResolutionSelector;

impl Node for ResolutionSelector {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Resolution Selector"),
            inputs: vec![
                modern_combo(
                    "aspect_ratio",
                    &[
                        "1:1 (Square)",
                        "2:3 (Portrait Photo)",
                        "3:2 (Photo)",
                        "3:4 (Portrait Standard)",
                        "4:3 (Standard)",
                        "9:16 (Portrait Widescreen)",
                        "16:9 (Widescreen)",
                        "21:9 (Ultrawide)",
                    ],
                    json!({"default": "1:1 (Square)"}),
                ),
                float_input(
                    "megapixels",
                    json!({"default": 1.0, "min": 0.1, "max": 16.0, "step": 0.1}),
                ),
                int_input(
                    "multiple",
                    json!({"advanced": true, "default": 8, "min": 8, "max": 128, "step": 4}),
                ),
            ],
            outputs: vec![named_output("INT", "width"), named_output("INT", "height")],
            ..latest(
                "ResolutionSelector",
                "comfy_extras.nodes_resolution",
                "utilities",
                json!({}),
            )
        }
    }

    fn run(&self, inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let (wide, high) = inputs.choice("aspect_ratio", |word| {
            let (ratio, _) = word.split_once(' ')?;
            let (wide, high) = ratio.split_once(':')?;
            Some((wide.parse::<f64>().ok()?, high.parse::<f64>().ok()?))
        })?;
        let pixels = inputs.float("megapixels")? * 1024.0 * 1024.0;
        let multiple: u32 = inputs.int("multiple")?;
        let scale = (pixels / (wide * high)).sqrt();
        let side = |parts: f64| {
            let steps = (parts * scale / f64::from(multiple)).round_ties_even();
            Value::Int(steps as i128 * i128::from(multiple))
        };
        Ok(NodeOutput::of([side(wide), side(high)]))
    }
}

/// A number to draw from.
#[derive(Clone, Copy, Debug)]
pub struct SeedNode;

impl Node for SeedNode {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Seed"),
            inputs: vec![int_input(
                "seed",
                json!({"min": 0, "max": i64::MAX, "control_after_generate": "fixed"}),
            )],
            outputs: vec![named_output("INT", "seed")],
            ..latest(
                "SeedNode",
                "comfy_extras.nodes_seed",
                "utilities",
                json!({"search_aliases": ["seed", "random"]}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        Ok(inputs.value("seed")?.into())
    }
}

/// A rectangle.
#[derive(Clone, Copy, Debug)]
pub struct PrimitiveBoundingBox;

impl Node for PrimitiveBoundingBox {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Bounding Box"),
            inputs: vec![
                int_input("x", json!({"default": 0, "min": 0, "max": 16384})),
                int_input("y", json!({"default": 0, "min": 0, "max": 16384})),
                int_input("width", json!({"default": 512, "min": 1, "max": 16384})),
                int_input("height", json!({"default": 512, "min": 1, "max": 16384})),
            ],
            outputs: vec![output("BOUNDING_BOX")],
            ..latest(
                "PrimitiveBoundingBox",
                "comfy_extras.nodes_images",
                "utilities/primitive",
                json!({}),
            )
        }
    }

    fn run(&self, inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let side = |name: &str| inputs.int::<i64>(name);
        let (x, y, width, height) = (side("x")?, side("y")?, side("width")?, side("height")?);
        let area = json!({"x": x, "y": y, "width": width, "height": height});
        Ok(Value::from_json(&area).into())
    }
}

/// A colour as a number, as text, and its opacity.
#[derive(Clone, Copy, Debug)]
pub struct ColorToRGBInt;

impl Node for ColorToRGBInt {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Color Picker"),
            inputs: vec![widget(
                "color",
                "COLOR",
                json!({"default": "#ffffff", "socketless": true}),
            )],
            outputs: vec![
                named_output("INT", "rgb_int"),
                named_output("COLOR", "hex"),
                named_output("FLOAT", "alpha"),
            ],
            ..latest(
                "ColorToRGBInt",
                "comfy_extras.nodes_color",
                "utilities",
                json!({}),
            )
        }
    }

    fn run(&self, inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let color = inputs.text("color")?;
        let digits = color.strip_prefix('#').filter(|digits| {
            matches!(digits.len(), 6 | 8) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        let number = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let (Some(digits), Some(number)) = (digits, number) else {
            return Err(NodeError::value(
                "the colour must be written as #RRGGBB or #RRGGBBAA",
            ));
        };
        let (rgb, alpha) = match digits.len() {
            8 => (number >> 8, f64::from(number & 0xff) / 255.0),
            _ => (number, 1.0),
        };
        Ok(NodeOutput::of([
            Value::Int(i128::from(rgb)),
            Value::string(&color[..7]),
            Value::Float(alpha),
        ]))
    }
}
