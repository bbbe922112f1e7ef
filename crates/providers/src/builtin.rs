//! The catalog that is compiled in. A file of it is a line here; a test compares the lines with the folder.

macro_rules! files {
    ($($path:literal,)*) => {
        &[$(($path, include_str!(concat!("../catalog/", $path)))),*]
    };
}

/// Path below `catalog/`, and text.
pub(crate) const FILES: &[(&str, &str)] = files![
    "bfl/flux-2-pro.schema.json",
    "bfl/flux-2-pro.toml",
    "bfl/flux-kontext-pro.schema.json",
    "bfl/flux-kontext-pro.toml",
    "bfl/flux-pro-1.1-ultra.schema.json",
    "bfl/flux-pro-1.1-ultra.toml",
    "bfl/flux-pro-1.1.schema.json",
    "bfl/flux-pro-1.1.toml",
    "bfl/partner.toml",
    "byteplus/partner.toml",
    "byteplus/seedance-1-0-pro.schema.json",
    "byteplus/seedance-1-0-pro.toml",
    "byteplus/seedream-4-0.schema.json",
    "byteplus/seedream-4-0.toml",
    "dashscope/partner.toml",
    "dashscope/wan2.2-t2i-flash.schema.json",
    "dashscope/wan2.2-t2i-flash.toml",
    "elevenlabs/partner.toml",
    "elevenlabs/sound-generation.schema.json",
    "elevenlabs/sound-generation.toml",
    "fal-sync/flux-dev.schema.json",
    "fal-sync/flux-dev.toml",
    "fal-sync/flux-schnell.schema.json",
    "fal-sync/flux-schnell.toml",
    "fal-sync/partner.toml",
    "fal/flux-dev.schema.json",
    "fal/flux-dev.toml",
    "fal/flux-schnell.schema.json",
    "fal/flux-schnell.toml",
    "fal/partner.toml",
    "google/gemini-2.5-flash-image.schema.json",
    "google/gemini-2.5-flash-image.toml",
    "google/partner.toml",
    "google/veo-3.0-generate-001.schema.json",
    "google/veo-3.0-generate-001.toml",
    "ideogram/ideogram-v3.schema.json",
    "ideogram/ideogram-v3.toml",
    "ideogram/partner.toml",
    "kling/image2video.schema.json",
    "kling/image2video.toml",
    "kling/partner.toml",
    "kling/text2video.schema.json",
    "kling/text2video.toml",
    "luma/partner.toml",
    "luma/ray-2.schema.json",
    "luma/ray-2.toml",
    "minimax/hailuo-02.schema.json",
    "minimax/hailuo-02.toml",
    "minimax/partner.toml",
    "openai/dall-e-3.schema.json",
    "openai/dall-e-3.toml",
    "openai/gpt-image-1.schema.json",
    "openai/gpt-image-1.toml",
    "openai/partner.toml",
    "pixverse/partner.toml",
    "pixverse/text-to-video.schema.json",
    "pixverse/text-to-video.toml",
    "recraft/partner.toml",
    "recraft/recraftv3.schema.json",
    "recraft/recraftv3.toml",
    "replicate/flux-1.1-pro.schema.json",
    "replicate/flux-1.1-pro.toml",
    "replicate/flux-schnell.schema.json",
    "replicate/flux-schnell.toml",
    "replicate/partner.toml",
    "rodin/partner.toml",
    "rodin/rodin-gen2.schema.json",
    "rodin/rodin-gen2.toml",
    "runway/gen4_image.schema.json",
    "runway/gen4_image.toml",
    "runway/gen4_turbo.schema.json",
    "runway/gen4_turbo.toml",
    "runway/partner.toml",
    "stability/partner.toml",
    "stability/stable-image-core.schema.json",
    "stability/stable-image-core.toml",
    "stability/stable-image-ultra.schema.json",
    "stability/stable-image-ultra.toml",
    "stability/upscale-creative.schema.json",
    "stability/upscale-creative.toml",
    "tripo/partner.toml",
    "tripo/text-to-model.schema.json",
    "tripo/text-to-model.toml",
    "xai/grok-imagine-video.schema.json",
    "xai/grok-imagine-video.toml",
    "xai/partner.toml",
];

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::FILES;

    #[test]
    fn every_file_of_the_folder_is_compiled_in() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("catalog");
        let mut found = Vec::new();
        for partner in fs::read_dir(&folder).expect("the folder is there") {
            let partner = partner.expect("it can be read").path();
            for file in fs::read_dir(&partner).expect("it holds folders alone") {
                let file = file.expect("it can be read").path();
                let path = file.strip_prefix(&folder).expect("it lies below");
                found.push(path.to_str().expect("names are plain").to_owned());
            }
        }
        found.sort();
        let listed: Vec<&str> = FILES.iter().map(|(path, _)| *path).collect();
        assert_eq!(listed, found, "the list is in the order of paths");
    }
}
