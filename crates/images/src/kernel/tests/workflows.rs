//! Recorded workflows, run by a small interpreter over the kernels and compared picture by picture.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::goldens;
use crate::kernel::blend::{self, BlendMode};
use crate::kernel::channel::{self, Channel};
use crate::kernel::mask::{self, MaskOperation};
use crate::kernel::morphology::{self, Morphology};
use crate::kernel::pad::{self, Margins};
use crate::kernel::quantize::{self, BayerOrder, Dither};
use crate::kernel::scale::{self, Crop, Method};
use crate::kernel::transform::{self, Flip, Rotation};
use crate::kernel::yuv::{self, Planes};
use crate::kernel::{batch, blur, canny, noise, point, solid};
use crate::pixels::{Frame, Image, Mask};

mod recorded;

#[derive(Clone)]
enum Slot {
    Image(Image),
    Mask(Mask),
}

struct Workflow {
    directory: PathBuf,
    nodes: Value,
    done: HashMap<(String, u64), Slot>,
}

struct Inputs<'a> {
    values: &'a Value,
    links: HashMap<String, Slot>,
}

impl Inputs<'_> {
    fn image(&self, name: &str) -> Image {
        match &self.links[name] {
            Slot::Image(image) => image.clone(),
            Slot::Mask(_) => panic!("{name} is a mask"),
        }
    }
    fn mask(&self, name: &str) -> Mask {
        match &self.links[name] {
            Slot::Mask(mask) => mask.clone(),
            Slot::Image(_) => panic!("{name} is an image"),
        }
    }
    fn size(&self, name: &str) -> usize {
        self.values[name].as_u64().expect(name) as usize
    }
    fn float(&self, name: &str) -> f64 {
        self.values[name].as_f64().expect(name)
    }
    fn text(&self, name: &str) -> &str {
        self.values[name].as_str().expect(name)
    }
    fn method(&self, name: &str) -> Method {
        match self.text(name) {
            "nearest-exact" => Method::NearestExact,
            "bilinear" => Method::Bilinear,
            "area" => Method::Area,
            "bicubic" => Method::Bicubic,
            "lanczos" => Method::Lanczos,
            other => panic!("{other}"),
        }
    }
}

impl Workflow {
    fn open(directory: &Path) -> Self {
        Self {
            directory: directory.into(),
            nodes: goldens::json(&directory.join("workflow.json")),
            done: HashMap::new(),
        }
    }

    fn slot(&mut self, node: &str, index: u64) -> Slot {
        if let Some(slot) = self.done.get(&(node.into(), index)) {
            return slot.clone();
        }
        let description = self.nodes[node].clone();
        let values = &description["inputs"];
        let mut links = HashMap::new();
        for (name, value) in values.as_object().expect("inputs") {
            if let Some(link) = value.as_array() {
                let from = link[0].as_str().expect("node id");
                links.insert(
                    name.clone(),
                    self.slot(from, link[1].as_u64().expect("slot")),
                );
            }
        }
        let inputs = Inputs { values, links };
        let outputs = self.run(description["class_type"].as_str().expect("class"), &inputs);
        for (i, slot) in outputs.into_iter().enumerate() {
            self.done.insert((node.into(), i as u64), slot);
        }
        self.done[&(node.into(), index)].clone()
    }

    fn run(&self, class: &str, inputs: &Inputs<'_>) -> Vec<Slot> {
        let image = |image| vec![Slot::Image(image)];
        let mask = |mask| vec![Slot::Mask(mask)];
        match class {
            "LoadImage" => {
                let (picture, mask) = goldens::load(&self.directory.join(inputs.text("image")));
                vec![Slot::Image(picture), Slot::Mask(mask)]
            }
            "ImageScale" => {
                let picture = inputs.image("image");
                let (width, height) = (picture.first().width(), picture.first().height());
                let crop = if inputs.text("crop") == "center" {
                    Crop::Center
                } else {
                    Crop::Disabled
                };
                let size =
                    scale::scaled_to(width, height, inputs.size("width"), inputs.size("height"));
                image(match size {
                    None => picture,
                    Some((w, h)) => {
                        scale::common_upscale(picture, w, h, inputs.method("upscale_method"), crop)
                            .expect("scale")
                    }
                })
            }
            "ImageScaleBy" => {
                let picture = inputs.image("image");
                let (w, h) = scale::scaled_by(
                    picture.first().width(),
                    picture.first().height(),
                    inputs.float("scale_by"),
                )
                .expect("size");
                image(
                    scale::common_upscale(
                        picture,
                        w,
                        h,
                        inputs.method("upscale_method"),
                        Crop::Disabled,
                    )
                    .expect("scale"),
                )
            }
            "ImageScaleToTotalPixels" => {
                let picture = inputs.image("image");
                let (w, h) = scale::total_pixels(
                    picture.first().width(),
                    picture.first().height(),
                    inputs.float("megapixels"),
                )
                .expect("size");
                image(
                    scale::common_upscale(
                        picture,
                        w,
                        h,
                        inputs.method("upscale_method"),
                        Crop::Disabled,
                    )
                    .expect("scale"),
                )
            }
            "ImageInvert" => image(point::invert(inputs.image("image")).expect(class)),
            "ImageBlend" => {
                let mode = match inputs.text("blend_mode") {
                    "normal" => BlendMode::Normal,
                    "multiply" => BlendMode::Multiply,
                    "screen" => BlendMode::Screen,
                    "overlay" => BlendMode::Overlay,
                    "soft_light" => BlendMode::SoftLight,
                    "difference" => BlendMode::Difference,
                    other => panic!("{other}"),
                };
                let factor = inputs.float("blend_factor");
                image(
                    blend::blend(inputs.image("image1"), inputs.image("image2"), factor, mode)
                        .expect(class),
                )
            }
            "ImageBlur" => {
                let (radius, sigma) = (inputs.size("blur_radius"), inputs.float("sigma"));
                image(blur::blur(inputs.image("image"), radius, sigma).expect(class))
            }
            "ImageSharpen" => {
                let (radius, sigma) = (inputs.size("sharpen_radius"), inputs.float("sigma"));
                image(
                    blur::sharpen(inputs.image("image"), radius, sigma, inputs.float("alpha"))
                        .expect(class),
                )
            }
            "EmptyImage" => {
                let (width, height) = (inputs.size("width"), inputs.size("height"));
                image(
                    solid::empty_image(
                        width,
                        height,
                        inputs.size("batch_size"),
                        inputs.size("color") as u32,
                    )
                    .expect(class),
                )
            }
            "SolidMask" => mask(
                solid::solid_mask(
                    inputs.float("value"),
                    inputs.size("width"),
                    inputs.size("height"),
                )
                .expect(class),
            ),
            "InvertMask" => mask(point::invert_mask(inputs.mask("mask")).expect(class)),
            "ThresholdMask" => {
                mask(point::threshold(inputs.mask("mask"), inputs.float("value")).expect(class))
            }
            "MaskToImage" => image(channel::mask_to_image(inputs.mask("mask")).expect(class)),
            "ImageToMask" => {
                let channel = match inputs.text("channel") {
                    "red" => Channel::Red,
                    "green" => Channel::Green,
                    "blue" => Channel::Blue,
                    "alpha" => Channel::Alpha,
                    other => panic!("{other}"),
                };
                mask(channel::image_to_mask(inputs.image("image"), channel).expect(class))
            }
            "ImageColorToMask" => mask(
                channel::color_to_mask(inputs.image("image"), inputs.size("color") as u32)
                    .expect(class),
            ),
            "JoinImageWithAlpha" => image(
                channel::join_alpha(inputs.image("image"), inputs.mask("alpha")).expect(class),
            ),
            "SplitImageWithAlpha" => {
                let (colours, mask) = channel::split_alpha(inputs.image("image")).expect(class);
                vec![Slot::Image(colours), Slot::Mask(mask)]
            }
            "CropMask" => {
                let (x, y) = (inputs.size("x"), inputs.size("y"));
                mask(
                    mask::crop(
                        inputs.mask("mask"),
                        x,
                        y,
                        inputs.size("width"),
                        inputs.size("height"),
                    )
                    .expect(class),
                )
            }
            "MaskComposite" => {
                let operation = match inputs.text("operation") {
                    "multiply" => MaskOperation::Multiply,
                    "add" => MaskOperation::Add,
                    "subtract" => MaskOperation::Subtract,
                    "and" => MaskOperation::And,
                    "or" => MaskOperation::Or,
                    "xor" => MaskOperation::Xor,
                    other => panic!("{other}"),
                };
                let (destination, source) = (inputs.mask("destination"), inputs.mask("source"));
                mask(
                    mask::composite(
                        destination,
                        source,
                        inputs.size("x"),
                        inputs.size("y"),
                        operation,
                    )
                    .expect(class),
                )
            }
            "ImageBatch" => {
                image(batch::join(inputs.image("image1"), inputs.image("image2")).expect(class))
            }
            "ImageFromBatch" => image(
                batch::take(
                    &inputs.image("image"),
                    inputs.size("batch_index"),
                    inputs.size("length"),
                )
                .expect(class),
            ),
            "RepeatImageBatch" => {
                image(batch::repeat(&inputs.image("image"), inputs.size("amount")).expect(class))
            }
            "ImageCrop" => {
                let (width, height) = (inputs.size("width"), inputs.size("height"));
                image(
                    transform::crop(
                        inputs.image("image"),
                        width,
                        height,
                        inputs.size("x"),
                        inputs.size("y"),
                    )
                    .expect(class),
                )
            }
            "ImageRotate" => {
                let rotation = match inputs.text("rotation") {
                    "none" => Rotation::None,
                    "90 degrees" => Rotation::Quarter,
                    "180 degrees" => Rotation::Half,
                    "270 degrees" => Rotation::ThreeQuarters,
                    other => panic!("{other}"),
                };
                image(transform::rotate(inputs.image("image"), rotation).expect(class))
            }
            "ImageFlip" => {
                let direction = match inputs.text("flip_method") {
                    "x-axis: vertically" => Flip::Vertical,
                    "y-axis: horizontally" => Flip::Horizontal,
                    other => panic!("{other}"),
                };
                image(transform::flip(inputs.image("image"), direction).expect(class))
            }
            "ResizeAndPadImage" => {
                let (width, height) = (inputs.size("target_width"), inputs.size("target_height"));
                let background = if inputs.text("padding_color") == "white" {
                    1.0
                } else {
                    0.0
                };
                image(
                    pad::resize_and_pad(
                        inputs.image("image"),
                        width,
                        height,
                        background,
                        inputs.method("interpolation"),
                    )
                    .expect(class),
                )
            }
            "ImagePadForOutpaint" => {
                let [left, top, right, bottom] =
                    ["left", "top", "right", "bottom"].map(|side| inputs.size(side));
                let margins = Margins {
                    left,
                    top,
                    right,
                    bottom,
                };
                let (picture, mask) = pad::pad_for_outpaint(
                    inputs.image("image"),
                    margins,
                    inputs.size("feathering"),
                )
                .expect(class);
                vec![Slot::Image(picture), Slot::Mask(mask)]
            }
            "ImageQuantize" => {
                let dither = match inputs.text("dither") {
                    "none" => Dither::None,
                    "floyd-steinberg" => Dither::FloydSteinberg,
                    "bayer-2" => Dither::Bayer(BayerOrder::Two),
                    "bayer-4" => Dither::Bayer(BayerOrder::Four),
                    "bayer-8" => Dither::Bayer(BayerOrder::Eight),
                    "bayer-16" => Dither::Bayer(BayerOrder::Sixteen),
                    other => panic!("{other}"),
                };
                image(
                    quantize::quantize(inputs.image("image"), inputs.size("colors"), dither)
                        .expect(class),
                )
            }
            "Morphology" => {
                let operation = match inputs.text("operation") {
                    "erode" => Morphology::Erode,
                    "dilate" => Morphology::Dilate,
                    "open" => Morphology::Open,
                    "close" => Morphology::Close,
                    "gradient" => Morphology::Gradient,
                    "bottom_hat" => Morphology::BottomHat,
                    "top_hat" => Morphology::TopHat,
                    other => panic!("{other}"),
                };
                image(
                    morphology::morphology(
                        inputs.image("image"),
                        operation,
                        inputs.size("kernel_size"),
                    )
                    .expect(class),
                )
            }
            "ImageRGBToYUV" => {
                let Planes { y, u, v } = yuv::rgb_to_yuv(&inputs.image("image")).expect(class);
                vec![Slot::Image(y), Slot::Image(u), Slot::Image(v)]
            }
            "ImageYUVToRGB" => {
                let planes = Planes {
                    y: inputs.image("Y"),
                    u: inputs.image("U"),
                    v: inputs.image("V"),
                };
                image(yuv::yuv_to_rgb(&planes).expect(class))
            }
            "Canny" => {
                let (low, high) = (
                    inputs.float("low_threshold"),
                    inputs.float("high_threshold"),
                );
                image(canny::canny(inputs.image("image"), low, high).expect(class))
            }
            "ImageAddNoise" => {
                let seed = inputs.values["seed"].as_u64().expect("seed");
                image(
                    noise::add_noise(inputs.image("image"), seed, inputs.float("strength"))
                        .expect(class),
                )
            }
            other => panic!("{other} is not known to this test"),
        }
    }
}
