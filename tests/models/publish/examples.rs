//! The examples that are there to be published: what they make of a picture, pixel by pixel.

use it::root;

use super::super::png::pixels;
use super::*;

/// The only output, which is inline, as bytes.
fn output(answer: &Answer) -> Vec<u8> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let body = answer.json();
    let url = body["outputs"][0]["url"].as_str().unwrap();
    let data = url.strip_prefix("data:image/png;base64,").unwrap();
    STANDARD.decode(data).unwrap()
}

#[tokio::test]
async fn the_published_examples_make_the_pictures_that_they_are_for() {
    let rig = Rig::start(&[]).await;
    for name in ["upscale", "cutout"] {
        let file = root().join(format!("examples/{name}.json"));
        ok(rig
            .command(&["publish", file.to_str().unwrap(), "--name", name])
            .await);
    }
    assert_eq!(rig.listed().await, ["easel/cutout", "easel/upscale"]);

    let whole = small();
    let picture = json!({"image": data_url(&whole), "inline": true});
    // Twice as large by default, smoothly; by another method each pixel becomes four.
    assert_eq!(size(&rig.call("easel/upscale", &picture).await), (4, 4));
    let mut body = picture.clone();
    body["upscale_method"] = json!("nearest-exact");
    body["scale_by"] = json!(3.0);
    let larger = inline(&rig.call("easel/upscale", &body).await);
    assert_eq!((larger.width, larger.height), (6, 6));
    for (x, y) in (0..6).flat_map(|y| (0..6).map(move |x| (x, y))) {
        assert_eq!(larger.at(x, y), whole.at(x / 3, y / 3), "at {x}, {y}");
    }
    let photo = std::fs::read(root().join("examples/photo.png")).unwrap();
    let photo = format!("data:image/png;base64,{}", STANDARD.encode(photo));
    let photo = json!({"image": photo, "inline": true});
    assert_eq!(size(&rig.call("easel/upscale", &photo).await), (384, 288));

    // What has the colour is transparent, and nothing else.
    let mut body = picture;
    body["color"] = json!(0x00_ff_00);
    let cut = output(&rig.call("easel/cutout", &body).await);
    let (width, height, pixels) = pixels::<4>(&cut);
    assert_eq!((width, height), (2, 2));
    for (at, [red, green, blue, alpha]) in pixels.into_iter().enumerate() {
        let [x, y] = [at % 2, at / 2];
        assert_eq!([red, green, blue], whole.at(x, y), "at {x}, {y}");
        assert_eq!(alpha, if (x, y) == (1, 0) { 0 } else { 255 }, "at {x}, {y}");
    }
}
