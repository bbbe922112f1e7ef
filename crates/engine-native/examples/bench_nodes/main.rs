//! Runs one node, codec or graph at a time for `cargo xtask bench engine`, which asks line by line and compares.
//!
//! A request is one line of JSON on standard input, an answer one on standard output: how long it took, and how much memory
//! the process took beyond what it had. Only the call itself is timed; what goes in is made before, what comes out is dropped
//! after. `pictures` names the folder of what is worked on, `results` one for what is made; `fresh` gives the memory of frames
//! that are gone back first, without which what a call takes of it would not be seen.

#![expect(clippy::unwrap_used, reason = "a bench that cannot get on is to stop")]
#![expect(clippy::print_stdout, reason = "it answers there")]

mod graph;

use std::collections::HashMap;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use engine_native::{Inputs, Node, NodeContext, Slot, Value, nodes};
use images::codec::{self, Limits};
use images::{Frame, Image, Mask, release_spare_memory};
use rayon::prelude::*;
use serde_json::{Value as Json, json};

/// What is kept between requests.
struct Bench {
    classes: HashMap<String, Arc<dyn Node>>,
    pools: HashMap<u64, rayon::ThreadPool>,
    engines: HashMap<u64, graph::Engines>,
    pictures: HashMap<(u64, u64), Pictures>,
}

/// What a call made.
enum Made {
    Nothing,
    File(Bytes),
    Values(Vec<Value>),
}

/// What goes into nodes, for one size and batch.
struct Pictures {
    values: HashMap<&'static str, Value>,
    png: Vec<u8>,
}

fn main() {
    let classes = nodes::all()
        .into_iter()
        .map(|node| (node.definition().class, node));
    let mut bench = Bench {
        classes: classes.collect(),
        pools: HashMap::new(),
        engines: HashMap::new(),
        pictures: HashMap::new(),
    };
    for line in std::io::stdin().lines() {
        let request: Json = serde_json::from_str(&line.unwrap()).unwrap();
        println!("{}", bench.answer(&request));
    }
}

impl Bench {
    fn answer(&mut self, request: &Json) -> Json {
        let number = |name: &str| request[name].as_u64().unwrap();
        let (side, batch, threads) = (number("side"), number("batch"), number("threads"));
        // Others would only take memory.
        self.pictures.retain(|key, _| *key == (side, batch));
        let folder = request["pictures"].as_str().map(Path::new);
        let pictures = self
            .pictures
            .entry((side, batch))
            .or_insert_with(|| match folder {
                Some(folder) => Pictures::read(folder, side as usize),
                None => Pictures::new(side as usize, batch as usize),
            });
        let pool = self.pools.entry(threads).or_insert_with(|| {
            let builder = rayon::ThreadPoolBuilder::new();
            builder.num_threads(threads as usize).build().unwrap()
        });
        let class = request["class"].as_str().unwrap();
        let work: Box<dyn FnOnce() -> Made + Send + '_> = match class {
            "memcpy" => memcpy(pictures, threads),
            "encode_png" => {
                Box::new(|| Made::File(codec::encode_png(pictures.first(), &[]).unwrap().into()))
            }
            "decode_png" => Box::new(|| {
                let decoded = codec::decode(&pictures.png, &Limits::default()).unwrap();
                Made::Values(vec![decoded.image.into()])
            }),
            "graph" => {
                let engines = self.engines.entry(threads);
                let engine = engines.or_insert_with(|| graph::Engines::new(threads as usize));
                let run = engine.prepare(&request["graph"], &pictures.png);
                Box::new(|| Made::File(run()))
            }
            _ => {
                let node = &self.classes[class];
                let inputs = pictures.inputs(&**node, request);
                Box::new(|| Made::of(node.run(inputs, &NodeContext::detached()).unwrap().slots))
            }
        };
        if request["fresh"] == true {
            release_spare_memory();
        }
        let before = memory("VmRSS:");
        let _resets = fs::write("/proc/self/clear_refs", "5");
        let started = Instant::now();
        // A graph has threads of its own, and would wait for them on one of these.
        let made = match class {
            "graph" => work(),
            _ => pool.install(work),
        };
        let took = started.elapsed();
        let peak = memory("VmHWM:").saturating_sub(before);
        if let Some(folder) = request["results"].as_str() {
            made.write(Path::new(folder));
        }
        json!({"ns": took.as_nanos() as u64, "peak_bytes": peak})
    }
}

/// The floor: the bytes of a batch from one place to another that was touched before, by as many threads.
fn memcpy(pictures: &Pictures, threads: u64) -> Box<dyn FnOnce() -> Made + Send + '_> {
    let source = pictures.first().data();
    let mut target = source.to_vec();
    let share = source.len().div_ceil(threads as usize);
    Box::new(move || {
        let parts = target.par_chunks_mut(share).zip(source.par_chunks(share));
        parts.for_each(|(target, source)| target.copy_from_slice(source));
        black_box(&target);
        Made::Nothing
    })
}

impl Made {
    fn of(slots: Vec<Slot>) -> Self {
        let values = slots.into_iter().map(|slot| match slot {
            Slot::One(value) => value,
            Slot::List(_) | Slot::Expanded { .. } => panic!("no class here gives lists or graphs"),
        });
        Self::Values(values.collect())
    }

    /// Leaves each value where the other program compares it.
    fn write(&self, folder: &Path) {
        match self {
            Self::Nothing => {}
            Self::File(png) => fs::write(folder.join("0.png"), png).unwrap(),
            Self::Values(values) => {
                for (number, value) in values.iter().enumerate() {
                    let samples = frames(value).iter().flat_map(|frame| frame.data());
                    let bytes: Vec<u8> = samples.flat_map(|sample| sample.to_le_bytes()).collect();
                    fs::write(folder.join(format!("{number}.f32")), bytes).unwrap();
                }
            }
        }
    }
}

fn frames(value: &Value) -> &[Arc<Frame>] {
    if let Value::Image(image) = value {
        return image.frames();
    }
    let Value::Mask(mask) = value else {
        panic!("{value:?} has no frames");
    };
    mask.frames()
}

impl Pictures {
    fn new(side: usize, batch: usize) -> Self {
        let frames = |seed: u32, channels: usize| {
            let frames = (0..batch as u32).map(|at| Arc::new(scene(side, channels, seed + at)));
            frames.collect()
        };
        let png = codec::encode_png(&scene(side, 3, 1), &[]).unwrap();
        Self::of(png, |name, channels| match name {
            "b" => frames(1000, channels),
            "mask" => frames(7, channels),
            "mask2" => frames(1007, channels),
            _ => frames(1, channels),
        })
    }

    /// What the other program left.
    fn read(folder: &Path, side: usize) -> Self {
        let png = fs::read(folder.join("photo.png")).unwrap();
        Self::of(png, |name, channels| {
            let bytes = fs::read(folder.join(format!("{name}.f32"))).unwrap();
            let (samples, _) = bytes.as_chunks::<4>();
            let samples: Vec<f32> = samples.iter().map(|&b| f32::from_le_bytes(b)).collect();
            let frames = samples.chunks_exact(side * side * channels);
            frames
                .map(|data| Arc::new(Frame::new(side, side, channels, data.to_vec())))
                .collect()
        })
    }

    fn of(png: Vec<u8>, frames: impl Fn(&str, usize) -> Vec<Arc<Frame>>) -> Self {
        let image = |name, channels| Value::Image(Image::new(frames(name, channels)).unwrap());
        let mask = |name| Value::Mask(Mask::new(frames(name, 1)).unwrap());
        let values = [
            ("a", image("a", 3)),
            ("b", image("b", 3)),
            ("rgba", image("rgba", 4)),
            ("mask", mask("mask")),
            ("mask2", mask("mask2")),
        ];
        Self {
            values: values.into(),
            png,
        }
    }

    fn first(&self) -> &Frame {
        &frames(&self.values["a"])[0]
    }

    /// The inputs that a request names: constants as they are, links by the name of a picture. `own a` is a copy that nobody
    /// else holds.
    fn inputs(&self, node: &dyn Node, request: &Json) -> Inputs {
        let mut values: Vec<(&'static str, Value)> = Vec::new();
        for (name, value) in request["constants"].as_object().unwrap() {
            values.push((name.clone().leak(), Value::from_json(value)));
        }
        for (name, link) in request["links"].as_object().unwrap() {
            let link = link.as_str().unwrap();
            let value = match link.strip_prefix("own ") {
                Some(link) => owned(&self.values[link]),
                None => self.values[link].clone(),
            };
            values.push((name.clone().leak(), value));
        }
        Inputs::new(node.definition(), values)
    }
}

fn owned(value: &Value) -> Value {
    let Value::Image(image) = value else {
        panic!("only pictures are worked on in place");
    };
    let copies = image
        .frames()
        .iter()
        .map(|frame| Arc::new(Frame::clone(frame)));
    Value::Image(Image::new(copies.collect()).unwrap())
}

/// Soft shapes with some grain in 8 bits, as photographs have: it neither compresses to nothing nor not at all.
fn scene(side: usize, channels: usize, seed: u32) -> Frame {
    let mut noise = seed.wrapping_mul(0x9e37_79b9) | 1;
    let mut data = Vec::with_capacity(side * side * channels);
    for y in 0..side {
        for x in 0..side {
            for channel in 0..channels {
                noise ^= noise << 13;
                noise ^= noise >> 17;
                noise ^= noise << 5;
                let (u, v) = (x as f32 / side as f32, y as f32 / side as f32);
                let turn = 6.0 + channel as f32 + (seed % 7) as f32;
                let shape = 0.5 + 0.3 * (u * turn).sin() * (v * turn * 1.3).cos() + 0.15 * (u - v);
                let grain = (noise & 3) as f32 - 1.5;
                data.push((shape * 255.0 + grain).clamp(0.0, 255.0).trunc() / 255.0);
            }
        }
    }
    Frame::new(side, side, channels, data)
}

/// A line of the process' own account of its memory, in bytes.
fn memory(line: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = status.lines().find_map(|text| {
        text.strip_prefix(line)?
            .trim()
            .strip_suffix(" kB")?
            .parse::<u64>()
            .ok()
    });
    kilobytes.unwrap_or(0) << 10
}
