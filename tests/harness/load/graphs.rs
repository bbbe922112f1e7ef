//! The graphs that benches and campaigns submit, spelled as bodies of submissions.

use serde::{Deserialize, Serialize};

/// A kind of graph, of which each number gives another one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Graph {
    /// `EmptyImage` of 64 by 64 pixels to `SaveImage`, told apart by its colour: no result can be reused.
    Trivial,
    /// The trivial graph with one and the same colour: only the first one draws anything.
    Repeated,
    /// `LoadImage` to `ImageInvert` to `SaveImage`, over the files with these asset ids in turn.
    Invert(Vec<String>),
}

/// Colours that an `EmptyImage` can have.
const COLORS: u64 = 1 << 24;

impl Graph {
    /// The body of the submission with this number; `None` once every input was used.
    #[must_use]
    pub fn submission(&self, number: u64) -> Option<String> {
        match self {
            Self::Trivial => Some(solid(number % COLORS)),
            Self::Repeated => Some(solid(0)),
            Self::Invert(assets) => assets
                .get(usize::try_from(number).ok()?)
                .map(|id| invert(id)),
        }
    }
}

/// The body of a submission of `EmptyImage` to `SaveImage`.
#[must_use]
pub fn solid(color: u64) -> String {
    format!(
        r#"{{"workflow":{{"1":{{"class_type":"EmptyImage","inputs":{{"width":64,"height":64,"batch_size":1,"color":{color}}}}},"2":{{"class_type":"SaveImage","inputs":{{"images":["1",0],"filename_prefix":"solid"}}}}}}}}"#
    )
}

/// The body of a submission with `count` pictures of different colours, each saved on its own.
#[must_use]
pub fn several(color: u64, count: u64) -> String {
    let nodes: Vec<String> = (0..count)
        .map(|number| {
            let color = (color + number) % COLORS;
            format!(
                r#""{number}":{{"class_type":"EmptyImage","inputs":{{"width":16,"height":16,"batch_size":1,"color":{color}}}}},"save-{number}":{{"class_type":"SaveImage","inputs":{{"images":["{number}",0],"filename_prefix":"several"}}}}"#
            )
        })
        .collect();
    format!(r#"{{"workflow":{{{}}}}}"#, nodes.join(","))
}

/// The body of a submission with `count` pictures of noise, each of about 48 KiB: as large as one that the store keeps with its
/// rows, and no two alike.
#[must_use]
pub fn noise(seed: u64, count: u64) -> String {
    format!(
        r#"{{"workflow":{{"1":{{"class_type":"EmptyImage","inputs":{{"width":128,"height":128,"batch_size":{count},"color":8421504}}}},"2":{{"class_type":"ImageAddNoise","inputs":{{"image":["1",0],"seed":{seed},"strength":1.0}}}},"3":{{"class_type":"SaveImage","inputs":{{"images":["2",0],"filename_prefix":"noise"}}}}}}}}"#
    )
}

/// The body of a submission that a worker alone can run: it takes so many steps, and differs in its colour.
#[must_use]
pub fn waiting(color: u64, steps: u64) -> String {
    let color = color % COLORS;
    format!(
        r#"{{"workflow":{{"1":{{"class_type":"EmptyImage","inputs":{{"width":64,"height":64,"batch_size":1,"color":{color}}}}},"2":{{"class_type":"Wait","inputs":{{"image":["1",0],"steps":{steps}}}}},"3":{{"class_type":"SaveImage","inputs":{{"images":["2",0],"filename_prefix":"waited"}}}}}}}}"#
    )
}

/// A body with the label `key` on its job.
#[must_use]
pub fn labelled(body: &str, key: &str) -> String {
    let open = body.strip_suffix('}').unwrap_or(body);
    format!(r#"{open},"metadata":{{"key":"{key}"}}}}"#)
}

/// The body of a submission that inverts an uploaded picture.
#[must_use]
pub fn invert(asset: &str) -> String {
    format!(
        r#"{{"workflow":{{"1":{{"class_type":"LoadImage","inputs":{{"image":{}}}}},"2":{{"class_type":"ImageInvert","inputs":{{"image":["1",0]}}}},"3":{{"class_type":"SaveImage","inputs":{{"images":["2",0],"filename_prefix":"inverted"}}}}}}}}"#,
        reference(asset)
    )
}

/// The body of a submission that scales an uploaded picture to 512 by 512 pixels.
#[must_use]
pub fn scale(asset: &str) -> String {
    format!(
        r#"{{"workflow":{{"1":{{"class_type":"LoadImage","inputs":{{"image":{}}}}},"2":{{"class_type":"ImageScale","inputs":{{"image":["1",0],"upscale_method":"lanczos","width":512,"height":512,"crop":"center"}}}},"3":{{"class_type":"SaveImage","inputs":{{"images":["2",0],"filename_prefix":"scaled"}}}}}}}}"#,
        reference(asset)
    )
}

/// The body of a submission that keeps a slot busy for long: a chain of `nodes` blurs, each over the one before.
#[must_use]
pub fn busy(nodes: u32) -> String {
    let mut text = String::from(
        r#"{"workflow":{"0":{"class_type":"EmptyImage","inputs":{"width":512,"height":512,"batch_size":1,"color":1}}"#,
    );
    for node in 1..=nodes {
        let before = node - 1;
        text.push_str(&format!(
            r#","{node}":{{"class_type":"ImageBlur","inputs":{{"image":["{before}",0],"blur_radius":31,"sigma":10.0}}}}"#
        ));
    }
    text.push_str(&format!(
        r#","save":{{"class_type":"SaveImage","inputs":{{"images":["{nodes}",0],"filename_prefix":"busy"}}}}}}}}"#
    ));
    text
}

fn reference(asset: &str) -> String {
    format!(r#"{{"__type":"core/ASSET","info":{{"id":"{asset}"}}}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn every_body_is_json_with_a_workflow() {
        let bodies = [
            solid(7),
            several(7, 3),
            noise(7, 3),
            invert("a"),
            scale("a"),
            busy(3),
            waiting(7, 3),
        ];
        for body in bodies {
            let body: Value = serde_json::from_str(&body).expect("json");
            let nodes = body["workflow"].as_object().expect("a graph");
            assert!(nodes.values().all(|node| node["class_type"].is_string()));
        }
    }

    #[test]
    fn a_label_stands_beside_the_graph() {
        let body: Value = serde_json::from_str(&labelled(&several(7, 2), "k")).expect("json");
        assert_eq!(body["metadata"]["key"], "k");
        assert_eq!(
            body["workflow"].as_object().map(serde_json::Map::len),
            Some(4)
        );
    }

    #[test]
    fn a_chain_has_every_node_and_ends_in_an_output() {
        let body: Value = serde_json::from_str(&busy(3)).expect("json");
        assert_eq!(
            body["workflow"].as_object().map(serde_json::Map::len),
            Some(5)
        );
        assert_eq!(body["workflow"]["3"]["inputs"]["image"][0], "2");
        assert_eq!(body["workflow"]["save"]["inputs"]["images"][0], "3");
    }

    #[test]
    fn graphs_differ_by_number_and_end_with_their_inputs() {
        assert_ne!(Graph::Trivial.submission(1), Graph::Trivial.submission(2));
        assert_eq!(Graph::Repeated.submission(1), Graph::Repeated.submission(2));
        let two = Graph::Invert(vec!["a".to_owned(), "b".to_owned()]);
        assert!(two.submission(1).is_some_and(|body| body.contains("\"b\"")));
        assert_eq!(two.submission(2), None);
    }
}
