//! Pictures drawn by a fragment shader.

use std::sync::Arc;

use serde_json::json;
use workflow_core::{InputDefinition, NodeDefinition, OutputDefinition};

use super::class::Class;
use super::curve;
use crate::define::{
    autogrow, boolean_input, dynamic_combo, float_input, int_input, latest, link, named,
    named_output, string_input, widget,
};
use crate::shader::{MOST_STEPS, Number, Program, Run, Texture};
use crate::{Inputs, NodeContext, NodeError, NodeOutput, Value};
use images::kernel::output_bytes;
use images::{Frame, Image};

pub(super) const CLASSES: &[Class] = &[(definition, run)];

/// Pictures that a shader may draw at once.
const OUTPUTS: usize = 4;

/// Most times that a shader runs over what it drew.
const MOST_PASSES: usize = 64;

/// The longest side of a picture.
const MAX_RESOLUTION: usize = 16384;

const DEFAULT: &str = "#version 300 es\nprecision highp float;\n\nuniform sampler2D u_image0;\nuniform vec2 u_resolution;\n\nin vec2 v_texCoord;\nlayout(location = 0) out vec4 fragColor0;\n\nvoid main() {\n    fragColor0 = texture(u_image0, v_texCoord);\n}\n";

fn definition() -> NodeDefinition {
    let group = |name, template, prefix, min, max, tooltip: &str| {
        let mut group = autogrow(name, template, prefix, min, max);
        group.options.insert("tooltip".to_owned(), tooltip.into());
        group
    };
    let side = |name| {
        int_input(
            name,
            json!({"default": 512, "min": 1, "max": MAX_RESOLUTION}),
        )
    };
    let sizes = vec![
        ("from_input", vec![]),
        ("custom", vec![side("width"), side("height")]),
    ];
    let output = |at: usize| OutputDefinition {
        tooltip: Some(format!(
            "Available via layout(location = {at}) out vec4 fragColor{at} in the shader code"
        )),
        ..named_output("IMAGE", &format!("IMAGE{at}"))
    };
    NodeDefinition {
        display_name: named("GLSL Shader"),
        description:
            "Apply GLSL ES fragment shaders to images. u_resolution (vec2) is always available."
                .to_owned(),
        inputs: vec![
            string_input(
                "fragment_shader",
                json!({
                    "default": DEFAULT, "multiline": true,
                    "tooltip": "GLSL fragment shader source code (GLSL ES 3.00 / WebGL 2.0 compatible)",
                }),
            ),
            dynamic_combo(
                "size_mode",
                sizes,
                json!({"tooltip": "Output size: 'from_input' uses first input image dimensions, 'custom' allows manual size"}),
            ),
            group(
                "images",
                link("image", "IMAGE"),
                "image",
                1,
                5,
                "Images are available as u_image0-4 (sampler2D) in the shader code",
            ),
            group(
                "floats",
                float_input("float", json!({"default": 0.0, "forceInput": true})),
                "u_float",
                0,
                20,
                "Floats are available as u_float0-19 in the shader code",
            ),
            group(
                "ints",
                int_input("int", json!({"default": 0, "forceInput": true})),
                "u_int",
                0,
                20,
                "Ints are available as u_int0-19 in the shader code",
            ),
            group(
                "bools",
                boolean_input("bool", json!({"default": false, "forceInput": true})),
                "u_bool",
                0,
                10,
                "Booleans are available as u_bool0-9 (bool) in the shader code",
            ),
            group(
                "curves",
                curve_input(),
                "u_curve",
                0,
                4,
                "Curves are available as u_curve0-3 (sampler2D, 1D LUT) in the shader code. Sample with texture(u_curve0, vec2(x, 0.5)).r",
            ),
        ],
        outputs: (0..OUTPUTS).map(output).collect(),
        ..latest(
            "GLSLShader",
            "comfy_extras.nodes_glsl",
            "image/shader",
            json!({"experimental": true, "has_intermediate_output": true}),
        )
    }
}

fn curve_input() -> InputDefinition {
    let line = json!({"points": [[0.0, 0.0], [1.0, 1.0]], "interpolation": "monotone_cubic"});
    widget(
        "curve",
        "CURVE",
        json!({"default": line, "socketless": true, "forceInput": true}),
    )
}

fn run(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let source = inputs.text("fragment_shader")?.to_owned();
    let program = Program::new(&source).map_err(|wrong| {
        NodeError::new("RuntimeError", format!("the shader cannot run; {wrong}"))
    })?;
    let mut images = Vec::new();
    for name in inputs.group("images") {
        images.push(inputs.image(&name)?);
    }
    let Some(first) = images.first() else {
        return Err(NodeError::value(
            "a shader needs a picture; link one to images.image0",
        ));
    };
    for image in &images {
        if !matches!(image.first().channels(), 3 | 4) {
            return Err(NodeError::value(
                "a shader needs pictures of 3 or 4 channels; connect an RGB or RGBA image, such as the output of Load Image",
            ));
        }
        if image.frames().len() < first.frames().len() {
            return Err(NodeError::new(
                "IndexError",
                "every picture of the first batch needs one of each other batch; a batch is shorter",
            ));
        }
    }
    let size = match inputs.text("size_mode")? {
        "custom" => (
            inputs.int("size_mode.width")?,
            inputs.int("size_mode.height")?,
        ),
        _ => (first.first().width(), first.first().height()),
    };
    let curves = curves(inputs)?;
    let mut numbers = numbers(inputs)?;
    let (width, height) = size;
    let resolution = [width, height].map(|side| Number::Float(side as f32));
    numbers.push(("u_resolution".to_owned(), resolution.to_vec()));
    let (outputs, passes) = (outputs_of(&source), passes_of(&source)?);
    let frames = first.frames().len();
    context.reserve(output_bytes(frames * outputs + 1, height, width, 4))?;
    let mut drawn = [const { Vec::new() }; OUTPUTS];
    let nothing = Arc::new(Frame::filled(height, width, 4, 0.0));
    let mut is_reserved = false;
    for at in 0..frames {
        let pictures = images
            .iter()
            .map(|image| Texture::Picture(Arc::clone(&image.frames()[at])));
        let mut pictures: Vec<Texture> = pictures.collect();
        for pass in 0..passes {
            let is_last = pass + 1 == passes;
            let mut numbers = numbers.clone();
            numbers.push(("u_pass".to_owned(), vec![Number::Int(pass as i32)]));
            let uniforms = uniforms(&program, &numbers)?;
            let textures: Vec<Texture> = program
                .samplers()
                .iter()
                .map(|name| texture(name, &pictures, &curves))
                .collect();
            let run = Run {
                program: &program,
                uniforms: &uniforms,
                textures: &textures,
                size,
                outputs: if is_last { outputs } else { 1 },
                most_steps: MOST_STEPS,
            };
            // Every run after the first has the memory of the one before; passes before the last keep a picture besides.
            if !is_reserved {
                let largest = Run { outputs, ..run };
                let kept = output_bytes(2, height, width, 4);
                context.reserve(largest.bytes().saturating_add(kept))?;
                is_reserved = true;
            }
            let frames = run.render(context)?;
            if is_last {
                for (drawn, frame) in drawn.iter_mut().zip(frames) {
                    drawn.push(Arc::new(frame));
                }
            } else if let Some(frame) = frames.into_iter().next() {
                pictures[0] = Texture::Picture(Arc::new(frame));
            }
        }
    }
    let pictures = drawn.map(|drawn| match drawn.is_empty() {
        true => Image::new(vec![Arc::clone(&nothing); frames]),
        false => Image::new(drawn),
    });
    let pictures: Vec<Image> = pictures.into_iter().collect::<Result<_, _>>()?;
    Ok(NodeOutput::of(pictures.into_iter().map(Value::from)))
}

/// What a sampler stands for; those that nothing is linked to show the first picture, as in OpenGL.
fn texture(name: &str, pictures: &[Texture], curves: &[Arc<[f32]>]) -> Texture {
    let at = |prefix| name.strip_prefix(prefix)?.parse::<usize>().ok();
    let picture = at("u_image").and_then(|at| pictures.get(at));
    let curve = || at("u_curve").and_then(|at| curves.get(at));
    match picture {
        Some(picture) => picture.clone(),
        None => curve().map_or_else(
            || pictures[0].clone(),
            |curve| Texture::Row(Arc::clone(curve)),
        ),
    }
}

type Numbers = Vec<(String, Vec<Number>)>;

/// The numbers that are linked, under the names that a shader has for them: counted, wherever they are linked.
fn numbers(inputs: &Inputs) -> Result<Numbers, NodeError> {
    let mut numbers = Vec::new();
    for (at, name) in inputs.group("floats").into_iter().enumerate() {
        let number = Number::Float(inputs.float(&name)? as f32);
        numbers.push((format!("u_float{at}"), vec![number]));
    }
    for (at, name) in inputs.group("ints").into_iter().enumerate() {
        let number = Number::Int(inputs.int(&name)?);
        numbers.push((format!("u_int{at}"), vec![number]));
    }
    for (at, name) in inputs.group("bools").into_iter().enumerate() {
        let number = Number::Bool(inputs.boolean(&name)?);
        numbers.push((format!("u_bool{at}"), vec![number]));
    }
    Ok(numbers)
}

fn curves(inputs: &mut Inputs) -> Result<Vec<Arc<[f32]>>, NodeError> {
    let mut curves = Vec::new();
    for name in inputs.group("curves") {
        let samples = match inputs.maybe(&name) {
            Some(Value::Json(curve)) => curve::samples(&curve),
            Some(_) | None => None,
        };
        let samples = samples.ok_or_else(|| {
            NodeError::value(format!(
                "{name} is no curve; link one that Curve Editor makes"
            ))
        })?;
        curves.push(samples.into());
    }
    Ok(curves)
}

fn uniforms(program: &Program, numbers: &Numbers) -> Result<Vec<(u32, u32)>, NodeError> {
    let mut bits = Vec::new();
    for uniform in program.uniforms() {
        let Some((name, numbers)) = numbers.iter().find(|(name, _)| *name == uniform.name) else {
            continue;
        };
        let set = uniform.bits(numbers).ok_or_else(|| {
            let kind = uniform.kind();
            NodeError::value(format!(
                "the shader declares {name} as {kind}; declare u_float as float, u_int as int, u_bool as bool, u_pass as int \
                 and u_resolution as vec2"
            ))
        })?;
        bits.extend(set);
    }
    Ok(bits)
}

/// As many pictures as the names of outputs in a source need.
fn outputs_of(source: &str) -> usize {
    let behind = source.split("fragColor").skip(1);
    let numbers = behind.filter_map(|rest| {
        let end = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        match end {
            0 => None,
            _ => Some(rest[..end].parse().unwrap_or(OUTPUTS)),
        }
    });
    numbers
        .max()
        .map_or(1, |last: usize| last.saturating_add(1).min(OUTPUTS))
}

/// How often a source asks to run over what it drew: `#pragma passes 2`.
fn passes_of(source: &str) -> Result<usize, NodeError> {
    let mut pragmas = source.split("#pragma").skip(1);
    let passes = pragmas.find_map(|rest| {
        let mut words = rest.split_whitespace();
        let is_passes = words.next() == Some("passes");
        let digits: String = words
            .next()
            .filter(|_| is_passes)?
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        (!digits.is_empty()).then_some(digits)
    });
    let Some(digits) = passes else { return Ok(1) };
    let passes = digits.parse().ok().filter(|passes| *passes <= MOST_PASSES);
    let passes: usize = passes.ok_or_else(|| {
        NodeError::value(format!(
            "a shader runs at most {MOST_PASSES} times over a picture; write fewer passes"
        ))
    })?;
    Ok(passes.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_has_as_many_outputs_as_its_names_need() {
        for (source, outputs) in [
            ("out vec4 fragColor;", 1),
            ("fragColor0 fragColor2 fragColor1", 3),
            ("fragColor9", OUTPUTS),
            ("// fragColor18446744073709551615", OUTPUTS),
            ("// fragColor18446744073709551616", OUTPUTS),
        ] {
            assert_eq!(outputs_of(source), outputs, "{source}");
        }
    }
}
