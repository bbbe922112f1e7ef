//! Vector pictures, as nodes of embedders make them.

use bytes::Bytes;
use serde_json::json;
use workflow_core::NodeDefinition;

use crate::define::{classic, hands_on, link, metadata, string_input};
use workflow_core::OutputKind;

use super::save::Prefix;
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput, OutputFile};

/// The value of an `SVG` socket: documents, to be wrapped in a [`crate::value::Opaque`].
#[derive(Clone, Debug)]
pub struct Svg(pub Vec<Bytes>);

/// Vector pictures into files, with the submission in their metadata.
#[derive(Clone, Copy, Debug)]
pub struct SaveSVGNode;

impl Node for SaveSVGNode {
    fn definition(&self) -> NodeDefinition {
        hands_on(
            NodeDefinition {
                description: "Save SVG files on disk.".to_owned(),
                inputs: vec![
                    link("svg", "SVG"),
                    string_input(
                        "filename_prefix",
                        json!({
                            "default": "svg/ComfyUI",
                            "tooltip": "The prefix for the file to save. This may include formatting information \
                        such as %date:yyyy-MM-dd% or %Empty Latent Image.width% to include values \
                        from nodes.",
                        }),
                    ),
                ],
                hidden: metadata(),
                output_node: true,
                ..classic("SaveSVGNode", "comfy_extras.nodes_images", "image/save")
            },
            "SVG",
            "svg",
        )
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let svg: &Svg = inputs.opaque("svg")?;
        let prefix = Prefix::of(inputs.text("filename_prefix")?, 0, 0)?;
        let metadata = metadata_element(context);
        for (index, document) in svg.0.iter().enumerate() {
            let document = std::str::from_utf8(document).map_err(|_| {
                NodeError::new("UnicodeDecodeError", "the vector picture is no UTF-8 text")
            })?;
            context.emit(OutputFile {
                kind: OutputKind::Image,
                temp: false,
                name: prefix.name(index, "svg"),
                content_type: "image/svg+xml",
                bytes: annotated(document, &metadata).into(),
                shown_under: Some("images"),
            })?;
        }
        Ok(inputs.value("svg")?.into())
    }
}

/// The submission as an element, indented as Python indents JSON.
fn metadata_element(context: &NodeContext) -> String {
    let prompt = ("prompt".to_owned(), context.prompt().clone().into());
    let extra = context
        .extra_pnginfo()
        .iter()
        .map(|(key, value)| (key.clone(), value.clone()));
    let all: serde_json::Map<String, serde_json::Value> =
        std::iter::once(prompt).chain(extra).collect();
    let json = format!("{:#}", serde_json::Value::Object(all));
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            // A closing bracket in a text must not end the section that holds it.
            '>' => escaped.push_str("\\u003e"),
            '\u{7f}'.. => character
                .encode_utf16(&mut [0; 2])
                .iter()
                .for_each(|unit| escaped.push_str(&format!("\\u{unit:04x}"))),
            _ => escaped.push(character),
        }
    }
    format!("\n  <metadata>\n    <![CDATA[\n{escaped}\n    ]]>\n  </metadata>\n")
}

/// The document with an element behind every opening `<svg ...>`.
fn annotated(document: &str, element: &str) -> String {
    let mut annotated = String::with_capacity(document.len() + element.len());
    let mut rest = document;
    while let Some(end) = rest
        .find("<svg")
        .and_then(|at| Some(at + rest[at..].find('>')? + 1))
    {
        annotated.push_str(&rest[..end]);
        annotated.push_str(element);
        rest = &rest[end..];
    }
    annotated.push_str(rest);
    annotated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_handed_on() {
        let svg = Svg(vec![Bytes::from_static(b"<svg/>")]);
        let svg = crate::value::Opaque::new("SVG", svg, 6);
        let values = [
            ("svg", svg.into()),
            ("filename_prefix", crate::Value::string("a")),
        ];
        let inputs = Inputs::new(SaveSVGNode.definition(), values);
        let output = SaveSVGNode.run(inputs, &NodeContext::detached());
        let slots = output.expect("it is saved").slots;
        let [crate::Slot::One(value)] = &slots[..] else {
            panic!("one output: {slots:?}")
        };
        assert_eq!(value.io_type(), "SVG");
    }

    #[test]
    fn every_svg_element_gets_the_metadata() {
        let document = "<?xml?><svg a='1'><svg/></svg><svg";
        assert_eq!(
            annotated(document, "M"),
            "<?xml?><svg a='1'>M<svg/>M</svg><svg"
        );
    }
}
