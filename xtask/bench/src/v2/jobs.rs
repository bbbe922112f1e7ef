//! Whole jobs, from the submission until the stream of their events has ended.
//!
//! A client waits by following the events, as the official clients do; the time includes the second request. No two jobs
//! share an input, so no result is reused.

use std::io;

use serde_json::{Value, json};

use super::requests::submit_one;
use super::{Bench, cpu_us_each, halves, say};
use crate::claim::{Better, Claim};
use crate::client::{Outcome, Plan, Work};
use crate::report::{Figure, ServerUse, rounded};
use it::http::{Connection, request};
use it::load::form::Upload;
use it::load::graphs::{Graph, scale};
use it::load::server::Server;

const TRIVIAL_1: Claim = Claim {
    name: "trivial-1",
    what: "EmptyImage 64 -> SaveImage, submission to end of events, one at a time (p50)",
    unit: "ms",
    better: Better::Lower,
    gate: Some(1.5),
    aim: Some(0.6),
};
const TRIVIAL_32: Claim = Claim {
    name: "trivial-32",
    what: "the same, 32 queued all the time",
    unit: "jobs/s",
    better: Better::Higher,
    gate: Some(2_500.0),
    aim: Some(5_000.0),
};
const INVERT_1: Claim = Claim {
    name: "invert-1",
    what: "LoadImage 512 -> ImageInvert -> SaveImage, one at a time (p50)",
    unit: "ms",
    better: Better::Lower,
    gate: Some(6.0),
    aim: Some(3.0),
};
const INVERT_32: Claim = Claim {
    name: "invert-32",
    what: "the same, 32 queued all the time",
    unit: "jobs/s",
    better: Better::Higher,
    gate: Some(250.0),
    aim: Some(450.0),
};

/// Pictures for the jobs that run one at a time, and for those that queue. A load ends early when they are used up.
const PICTURES: (usize, usize) = (400, 1_600);
/// The length of a load that may need all of them, in seconds; a shorter one has a share of them.
const ALL_PICTURES: f64 = 4.0;
/// The photograph that the pictures are made from.
const PHOTO: &str = "examples/photo.png";

pub(super) async fn trivial(bench: &Bench) -> io::Result<Vec<Figure>> {
    let server = bench.server("trivial-1").await?;
    let plan = bench.plan(&server, 1, Work::Finish(Graph::Trivial));
    let one = at_a_time(TRIVIAL_1, bench.measure(&server, &[plan]).await?);
    server.kill().await?;
    say("32 queued");
    let server = bench.server("trivial-32").await?;
    let plan = bench.plan(&server, 32, Work::Finish(Graph::Trivial));
    let many = queued(TRIVIAL_32, bench.measure(&server, &halves(&plan)).await?);
    server.kill().await?;
    Ok(vec![one, many])
}

pub(super) async fn invert(bench: &Bench) -> io::Result<Vec<Figure>> {
    let server = bench.server("invert").await?;
    let share = (bench.seconds / ALL_PICTURES).min(1.0);
    let [alone, queued_up] =
        [PICTURES.0, PICTURES.1].map(|all| (all as f64 * share).ceil() as usize);
    let mut assets = pictures(bench, &server, alone + queued_up).await?;
    let queue = assets.split_off(alone);
    let plan = bench.plan(&server, 1, Work::Finish(Graph::Invert(assets)));
    let one = at_a_time(INVERT_1, bench.measure(&server, &[plan]).await?);
    say("32 queued");
    let plan = bench.plan(&server, 32, Work::Finish(Graph::Invert(queue)));
    let many = queued(INVERT_32, bench.measure(&server, &[plan]).await?);
    server.kill().await?;
    Ok(vec![one, many])
}

/// Uploads so many pictures of 512 by 512 pixels, each a file of its own; returns the ids of the assets.
pub(super) async fn pictures(
    bench: &Bench,
    server: &Server,
    count: usize,
) -> io::Result<Vec<String>> {
    let photo = std::fs::read(bench.repository.join(PHOTO))?;
    let picture = picture(bench, server, &photo).await?;
    say(&format!(
        "uploading {count} pictures of {} bytes",
        picture.len()
    ));
    let mut connection = server.connect().await?;
    let mut assets = Vec::with_capacity(count);
    for number in 0..count {
        assets.push(upload(&mut connection, &labelled(&picture, number)?).await?);
    }
    Ok(assets)
}

fn at_a_time(claim: Claim, (outcome, used): (Outcome, ServerUse)) -> Figure {
    let times = outcome.times();
    Figure {
        claim,
        value: times.median_ms().unwrap_or(f64::INFINITY),
        beside: beside(&outcome, used),
        samples: times,
        server: used,
    }
}

fn queued(claim: Claim, (outcome, used): (Outcome, ServerUse)) -> Figure {
    Figure {
        claim,
        value: outcome.rate(),
        beside: beside(&outcome, used),
        samples: outcome.times(),
        server: used,
    }
}

fn beside(outcome: &Outcome, used: ServerUse) -> Value {
    json!({
        "waited_by": "events",
        "jobs_per_second": rounded(outcome.rate()),
        "server_cpu_us_each": rounded(cpu_us_each(used, outcome.samples.len())),
    })
}

/// The photograph at 512 by 512 pixels, made by the server itself.
async fn picture(bench: &Bench, server: &Server, photo: &[u8]) -> io::Result<Vec<u8>> {
    let mut connection = server.connect().await?;
    let asset = upload(&mut connection, photo).await?;
    let id = submit_one(&mut connection, &scale(&asset)).await?;
    let plan = Plan {
        server: server.address,
        connections: 1,
        work: Work::Follow(id.clone()),
        seconds: 60.0,
        most: 1,
        first: 0,
    };
    bench.measure(server, &[plan]).await?;
    let job = connection
        .send(&request("GET", &format!("/api/v2/jobs/{id}")))
        .await?;
    let job = job.expect_status(200)?.try_json()?;
    let output = job["outputs"][0]["id"]
        .as_str()
        .ok_or_else(|| io::Error::other(format!("{PHOTO} was not scaled: {job}")))?;
    let target = format!("/api/v2/assets/{output}/content");
    let content = connection.send(&request("GET", &target)).await?;
    Ok(content.expect_status(200)?.body)
}

async fn upload(connection: &mut Connection, file: &[u8]) -> io::Result<String> {
    let upload = Upload::new("picture.png", file.len(), &[], "").around(file);
    let asset = connection
        .send(&upload)
        .await?
        .expect_status(201)?
        .try_json()?;
    let id = asset["id"].as_str().map(str::to_owned);
    id.ok_or_else(|| io::Error::other("an upload has no id"))
}

/// The same picture as another file: a text chunk with the number stands before its end.
fn labelled(picture: &[u8], number: usize) -> io::Result<Vec<u8>> {
    const END: usize = 12;
    let cut = picture
        .len()
        .checked_sub(END)
        .filter(|cut| &picture[cut + 4..cut + 8] == b"IEND")
        .ok_or_else(|| io::Error::other("the scaled picture is no PNG"))?;
    let text = format!("tEXtNumber\0{number}");
    let mut labelled = picture[..cut].to_vec();
    let length = u32::try_from(text.len() - 4).map_err(io::Error::other)?;
    labelled.extend_from_slice(&length.to_be_bytes());
    labelled.extend_from_slice(text.as_bytes());
    labelled.extend_from_slice(&crc32(text.as_bytes()).to_be_bytes());
    labelled.extend_from_slice(&picture[cut..]);
    Ok(labelled)
}

/// The checksum of PNG chunks, bit by bit: the texts are short.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 {
                (crc >> 1) ^ 0xedb8_8320
            } else {
                crc >> 1
            }
        })
    };
    !bytes.iter().fold(u32::MAX, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_one_of_png() {
        // Every PNG ends with these: no data, type IEND, and its checksum.
        assert_eq!(crc32(b"IEND"), 0xae42_6082);
    }

    #[test]
    fn a_label_makes_another_file_that_still_ends_as_a_picture() {
        let picture = b"...\0\0\0\0IEND\xae\x42\x60\x82";
        let labelled = labelled(picture, 7).expect("an end to put it before");
        assert!(labelled.starts_with(b"...\0\0\0\x08tEXtNumber\x007"));
        assert!(labelled.ends_with(b"\0\0\0\0IEND\xae\x42\x60\x82"));
        assert!(super::labelled(b"no picture at all", 7).is_err());
    }
}
