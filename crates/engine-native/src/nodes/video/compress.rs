//! Pictures as they look after a strong compression: what models of videos are used to.

use std::path::Path;
use std::sync::Arc;

use images::kernel::transform;
use images::{Frame, Image};
use serde_json::json;
use workflow_core::NodeDefinition;

use super::write::{Samples, raw};
use crate::define::{int_input, latest, link, named, named_output};
use crate::nodes::class::Class;
use crate::program::{Ffmpeg, folder, written};
use crate::{Inputs, NodeContext, NodeError, NodeOutput};

/// The classes of this family.
pub(in crate::nodes) const CLASSES: &[Class] = &[(definition, run)];

fn definition() -> NodeDefinition {
    let compression = json!({"default": 35, "min": 0, "max": 100});
    NodeDefinition {
        display_name: named("LTXV Preprocess"),
        inputs: vec![
            link("image", "IMAGE"),
            int_input("img_compression", compression),
        ],
        outputs: vec![named_output("IMAGE", "output_image")],
        ..latest(
            "LTXVPreprocess",
            "comfy_extras.nodes_lt",
            "video/preprocessors",
            json!({}),
        )
    }
}

fn run(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let compression: u32 = inputs.int("img_compression")?;
    let image = inputs.image("image")?;
    if compression == 0 {
        return Ok(image.into());
    }
    // Chroma has half the sides: an odd one is cut.
    let even = |side: usize| side & !1;
    let (height, width) = (even(image.first().height()), even(image.first().width()));
    if width == 0 || height == 0 {
        return Err(NodeError::value(
            "a picture must have at least 2x2 pixels to be compressed; enlarge it before",
        ));
    }
    let program = Ffmpeg::installed()?;
    let mut made = Vec::with_capacity(image.frames().len());
    for frame in transform::crop(image, width, height, 0, 0)?.into_frames() {
        context.reserve((width * height * 3 * size_of::<f32>()) as u64)?;
        made.push(compressed(program, frame, compression, context)?);
    }
    Ok(Image::new(made)?.into())
}

/// A picture after H.264 with this rate factor, on its own.
fn compressed(
    program: Ffmpeg,
    frame: Arc<Frame>,
    compression: u32,
    context: &NodeContext,
) -> Result<Arc<Frame>, NodeError> {
    let (height, width, _) = frame.shape();
    let folder = folder()?;
    let (plain, video) = (folder.path().join("plain"), folder.path().join("video"));
    raw(&plain, &Image::new(vec![frame])?, Samples::Bytes, context)?;
    let size = format!("{width}x{height}");
    let how = [
        "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", &size, "-r", "1",
    ];
    // x264 knows factors up to 51, and takes what is above for 51.
    let factor = compression.min(51).to_string();
    let options = [
        "-sws_flags",
        "bilinear",
        "-c:v",
        "libx264",
        "-crf",
        &factor,
        "-preset",
        "veryfast",
        "-pix_fmt",
        "yuv420p",
        "-f",
        "mp4",
    ];
    let inputs: [(&Path, &[&str]); 1] = [(&plain, &how)];
    written(&video, &program.write(&inputs, &options, context)?)?;
    let options = [
        "-frames:v",
        "1",
        "-sws_flags",
        "bilinear",
        "-pix_fmt",
        "rgb24",
        "-f",
        "rawvideo",
    ];
    let bytes = width * height * 3;
    let mut made = None;
    program.read((&video, &[]), &options, bytes, context, |levels| {
        if levels.len() == bytes {
            made = Some(Frame::from_bytes(height, width, 3, levels));
        }
        Ok(())
    })?;
    made.map(Arc::new).ok_or_else(|| {
        NodeError::value("FFmpeg gave no picture of this one; choose a lower compression")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;

    /// A soft picture with a hard edge, of an odd height.
    fn picture() -> Image {
        let (height, width) = (49, 64);
        let mut samples = Vec::new();
        for y in 0..height {
            for x in 0..width {
                let is_red = (height / 4..height / 2).contains(&y) && (16..32).contains(&x);
                samples.extend(match is_red {
                    true => [250, 10, 10],
                    false => [x * 4 % 256, y * 4 % 256, (x + y) * 2 % 256],
                });
            }
        }
        let samples = samples.iter().map(|level| *level as f32 / 255.0).collect();
        Image::single(Frame::new(height, width, 3, samples))
    }

    /// How far the levels are from those of the picture on average, and the average of each colour.
    fn measured(compression: i128) -> (f32, [f32; 3]) {
        let values = [
            ("image", picture().into()),
            ("img_compression", Value::Int(compression)),
        ];
        let mut inputs = Inputs::new(definition(), values);
        let output = run(&mut inputs, &NodeContext::detached()).expect("a picture");
        let Some(crate::Slot::One(Value::Image(made))) = output.slots.first() else {
            panic!("{output:?}")
        };
        let (made, original) = (made.first(), picture());
        let original = &original.first().data()[..made.data().len()];
        let pairs = made.data().iter().zip(original);
        let off: f32 = pairs.map(|(made, original)| (made - original).abs()).sum();
        let count = made.data().len() as f32;
        let mean = [0, 1, 2].map(|at| {
            let color = made.data().iter().skip(at).step_by(3);
            color.sum::<f32>() * 255.0 * 3.0 / count
        });
        (off * 255.0 / count, mean)
    }

    #[test]
    fn pictures_lose_what_the_real_one_loses() {
        if Ffmpeg::installed().is_err() {
            return;
        }
        // Recorded; versions of x264 differ a little.
        let recorded = [
            (10, 1.943, [134.73, 88.83, 104.50]),
            (35, 3.231, [134.13, 88.66, 104.04]),
            (100, 6.877, [133.95, 87.71, 101.28]),
        ];
        for (compression, off, mean) in recorded {
            let (found, colors) = measured(compression);
            assert!((found - off).abs() < off * 0.1, "{compression}: {found}");
            let near = |at: usize| (colors[at] - mean[at]).abs() < 0.5;
            assert!(near(0) && near(1) && near(2), "{compression}: {colors:?}");
        }
    }

    #[test]
    fn no_compression_changes_nothing_and_a_line_is_refused() {
        let values = [
            ("image", picture().into()),
            ("img_compression", Value::Int(0)),
        ];
        let mut inputs = Inputs::new(definition(), values);
        let output = run(&mut inputs, &NodeContext::detached()).expect("the picture");
        let Some(crate::Slot::One(Value::Image(made))) = output.slots.first() else {
            panic!("{output:?}")
        };
        assert_eq!(*made, picture());
        let line = Image::single(Frame::filled(1, 9, 3, 0.5));
        let values = [("image", line.into()), ("img_compression", Value::Int(5))];
        let mut inputs = Inputs::new(definition(), values);
        let refused = run(&mut inputs, &NodeContext::detached()).expect_err("one row");
        assert!(refused.to_string().contains("at least 2x2"), "{refused}");
    }
}
