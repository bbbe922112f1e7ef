//! Recorded workflows, run by a small interpreter over the kernels and compared picture by picture.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::goldens;
use crate::kernel::point;
use crate::kernel::scale::{self, Crop, Method};
use crate::value::{Frame, Image, Mask};

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
            other => panic!("{other} is not known to this test"),
        }
    }
}

/// How far a saved picture may be from the recorded one.
#[derive(Clone, Copy)]
enum Tolerance {
    /// Equal samples.
    Equal,
    /// One level off in at most 0.5 % of the samples.
    OneLevel,
}

/// Runs a case and compares every picture that it saves.
fn check(case: &str, tolerance: Tolerance) {
    let Some(root) = goldens::directory() else {
        return;
    };
    let directory = root.join(case);
    let mut workflow = Workflow::open(&directory);
    let saves: Vec<(String, Value)> = workflow
        .nodes
        .as_object()
        .expect("nodes")
        .iter()
        .filter(|(_, node)| node["class_type"] == "SaveImage")
        .map(|(id, node)| (id.clone(), node["inputs"]["images"].clone()))
        .collect();
    assert!(!saves.is_empty(), "{case} saves nothing");
    for (save, link) in saves {
        let Slot::Image(image) = workflow.slot(
            link[0].as_str().expect("node id"),
            link[1].as_u64().expect("slot"),
        ) else {
            panic!("{case}: {save} saves a mask");
        };
        for (i, frame) in image.frames().iter().enumerate() {
            let name = format!("{case}/out_{save}_{i}.png");
            compare(&name, frame, &goldens::saved(&root.join(&name)), tolerance);
        }
    }
}

fn compare(name: &str, frame: &Frame, expected: &goldens::Saved, tolerance: Tolerance) {
    assert_eq!(
        frame.shape(),
        (expected.height, expected.width, expected.channels),
        "{name}"
    );
    let got = point::to_bytes(frame);
    let worst = got
        .iter()
        .zip(&expected.samples)
        .map(|(a, b)| a.abs_diff(*b))
        .max()
        .unwrap_or(0);
    let differing = got
        .iter()
        .zip(&expected.samples)
        .filter(|(a, b)| a != b)
        .count();
    let share = differing as f64 / got.len() as f64;
    match tolerance {
        Tolerance::Equal => assert_eq!(
            differing, 0,
            "{name}: up to {worst} levels off in {share:.5} of the samples"
        ),
        Tolerance::OneLevel => assert!(
            worst <= 1 && share <= 0.005,
            "{name}: up to {worst} levels off in {share:.5} of the samples"
        ),
    }
}

#[test]
fn scale_nearest_exact() {
    check("scale_nearest_exact", Tolerance::Equal);
}

#[test]
fn scale_bilinear() {
    check("scale_bilinear", Tolerance::Equal);
}

#[test]
fn scale_bicubic() {
    check("scale_bicubic", Tolerance::OneLevel);
}

#[test]
fn scale_area() {
    check("scale_area", Tolerance::Equal);
}

#[test]
fn scale_lanczos() {
    check("scale_lanczos", Tolerance::Equal);
}

#[test]
fn scale_by() {
    check("scale_by", Tolerance::OneLevel);
}

#[test]
fn scale_total_pixels() {
    check("scale_total_pixels", Tolerance::OneLevel);
}
