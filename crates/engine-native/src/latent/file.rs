//! Latents as files: safetensors, as ComfyUI writes and reads them.

use std::collections::HashMap;

use safetensors::{Dtype, SafeTensors, View};

use super::tensor::room;
use super::{Latent, Tensor};
use crate::{NodeContext, NodeError};

/// The samples.
const SAMPLES: &str = "latent_tensor";

/// An empty array that says that the samples are in the scale that models expect.
const SCALED: &str = "latent_format_version_0";

/// The scale of files without that mark.
const OLD_SCALE: f64 = 1.0 / 0.18215;

/// Bytes of a header that is read: much more than the largest graph in it takes.
const HEADER: u64 = 16 << 20;

/// Bytes that a header takes while it is read, for each of its own.
const HEADER_READ: u64 = 16;

/// The file of a latent's samples, with texts beside them.
///
/// # Errors
/// If there is no room for it.
pub(crate) fn written(
    latent: &Latent,
    texts: &[(String, String)],
    context: &NodeContext,
) -> Result<Vec<u8>, NodeError> {
    let told: usize = texts.iter().map(|(key, text)| key.len() + text.len()).sum();
    // The bytes of the samples and the file of them; every text twice, escaped.
    let bytes = latent.samples.size_bytes().saturating_mul(2);
    context.reserve(bytes.saturating_add(told as u64 * 4))?;
    let data = latent.samples.data().iter();
    let samples = Samples {
        shape: latent.samples.shape().to_vec(),
        bytes: data.flat_map(|sample| sample.to_le_bytes()).collect(),
    };
    let mark = Samples {
        shape: vec![0],
        bytes: Vec::new(),
    };
    let texts: HashMap<String, String> = texts.iter().cloned().collect();
    safetensors::serialize([(SAMPLES, samples), (SCALED, mark)], Some(texts)).map_err(|error| {
        NodeError::value(format!(
            "the latent cannot be written ({error}); put less into the graph that is saved with it"
        ))
    })
}

/// The latent of a file.
///
/// # Errors
/// If it is no such file, or there is no room.
pub(crate) fn read(bytes: &[u8], context: &NodeContext) -> Result<Latent, NodeError> {
    let header = bytes
        .first_chunk()
        .map_or(0, |head| u64::from_le_bytes(*head));
    if header > HEADER {
        return Err(no_latent("its header is longer than 16 MiB"));
    }
    context.reserve(header * HEADER_READ)?;
    let file = SafeTensors::deserialize(bytes).map_err(|error| no_latent(&error.to_string()))?;
    let view = file.tensor(SAMPLES);
    let view = view.map_err(|_| no_latent("it holds no array latent_tensor"))?;
    let scale = match file.tensor(SCALED) {
        Ok(_) => 1.0,
        Err(_) => OLD_SCALE as f32,
    };
    if view.shape().len() < 3 {
        return Err(no_latent(
            "its array has fewer than the three sides batch, channels and length",
        ));
    }
    let mut data = room(view.shape(), context)?;
    let bytes = view.data();
    let dtype = view.dtype();
    if dtype == Dtype::F32 {
        data.extend(numbers(bytes, f32::from_le_bytes));
    } else if dtype == Dtype::F64 {
        data.extend(numbers(bytes, |bytes| f64::from_le_bytes(bytes) as f32));
    } else if dtype == Dtype::F16 {
        data.extend(numbers(bytes, |bytes| half(u16::from_le_bytes(bytes))));
    } else if dtype == Dtype::BF16 {
        // The upper half of a 32-bit float.
        let single = |bytes| f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16);
        data.extend(numbers(bytes, single));
    } else {
        let message = format!("its samples are {dtype:?}; save it as 16-, 32- or 64-bit floats");
        return Err(no_latent(&message));
    }
    if data.len() != view.shape().iter().product::<usize>() {
        return Err(no_latent("its samples do not fill its shape"));
    }
    data.iter_mut().for_each(|sample| *sample *= scale);
    Ok(Latent::new(Tensor::new(view.shape().to_vec(), data)))
}

fn numbers<const N: usize>(
    bytes: &[u8],
    read: impl Fn([u8; N]) -> f32,
) -> impl Iterator<Item = f32> {
    let (numbers, _) = bytes.as_chunks::<N>();
    numbers.iter().map(move |number| read(*number))
}

/// A 16-bit float: a sign, five bits of exponent, ten of fraction.
fn half(bits: u16) -> f32 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let exponent = i32::from(bits >> 10 & 0x1f);
    let fraction = f32::from(bits & 0x3ff) / 1024.0;
    sign * match exponent {
        0 => fraction * 2.0_f32.powi(-14),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1.0 + fraction) * 2.0_f32.powi(exponent - 15),
    }
}

fn no_latent(why: &str) -> NodeError {
    let why: String = why.chars().take(200).collect();
    NodeError::value(format!(
        "the file is no latent that can be read: {why}; use a file that SaveLatent wrote"
    ))
}

/// An array on its way into a file.
struct Samples {
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl View for Samples {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> std::borrow::Cow<'_, [u8]> {
        self.bytes.as_slice().into()
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latent() -> Latent {
        let samples = (0..24).map(|sample| sample as f32 / 8.0 - 1.0).collect();
        Latent::new(Tensor::new(vec![1, 4, 2, 3], samples))
    }

    #[test]
    fn what_is_written_is_read_again() {
        let context = NodeContext::detached();
        let texts = [("prompt".to_owned(), "{\"1\": \"\u{e9}\"}".to_owned())];
        let file = written(&latent(), &texts, &context).expect("there is room");
        assert_eq!(read(&file, &context), Ok(latent()));
        let (_, header) = SafeTensors::read_metadata(&file).expect("it has a header");
        let told = header
            .metadata()
            .as_ref()
            .and_then(|texts| texts.get("prompt"));
        assert_eq!(told, Some(&texts[0].1));
    }

    #[test]
    fn files_of_an_older_scale_and_of_other_floats_are_read() {
        let context = NodeContext::detached();
        let file = |dtype, bytes: Vec<u8>| {
            let view = safetensors::tensor::TensorView::new(dtype, vec![1, 1, 2], &bytes);
            safetensors::serialize([(SAMPLES, view.expect("it fits"))], None).expect("it fits")
        };
        let samples = |dtype, bytes| {
            let latent = read(&file(dtype, bytes), &context).expect("it is one");
            latent.samples.data().to_vec()
        };
        let scaled = [1.0_f32, -2.5].map(|sample| sample * OLD_SCALE as f32);
        let singles = [1.0_f32, -2.5].into_iter().flat_map(f32::to_le_bytes);
        assert_eq!(samples(Dtype::F32, singles.collect()), scaled);
        let doubles = [1.0_f64, -2.5].into_iter().flat_map(f64::to_le_bytes);
        assert_eq!(samples(Dtype::F64, doubles.collect()), scaled);
        let halves = [0x3c00_u16, 0xc100].into_iter().flat_map(u16::to_le_bytes);
        assert_eq!(samples(Dtype::F16, halves.collect()), scaled);
        let brain = [0x3f80_u16, 0xc020].into_iter().flat_map(u16::to_le_bytes);
        assert_eq!(samples(Dtype::BF16, brain.collect()), scaled);
        assert!(read(&file(Dtype::I64, vec![0; 16]), &context).is_err());
    }

    #[test]
    fn other_files_are_refused_with_what_to_use() {
        let context = NodeContext::detached();
        let mut long = (HEADER + 1).to_le_bytes().to_vec();
        long.extend([b' '; 64]);
        let flat = safetensors::tensor::TensorView::new(Dtype::F32, vec![1], &[0; 4]);
        let flat = safetensors::serialize([(SAMPLES, flat.expect("it fits"))], None);
        let named = safetensors::tensor::TensorView::new(Dtype::F32, vec![1, 1, 1], &[0; 4]);
        let named = safetensors::serialize([("weights", named.expect("it fits"))], None);
        for file in [
            Vec::new(),
            b"\x89PNG\r\n\x1a\n".to_vec(),
            long,
            flat.expect("it fits"),
            named.expect("it fits"),
        ] {
            let error = read(&file, &context).expect_err("it is no latent");
            assert!(error.to_string().contains("SaveLatent"), "{error}");
        }
    }

    #[test]
    fn broken_files_are_refused_and_break_nothing() {
        let context = NodeContext::detached();
        let file = written(&latent(), &[], &context).expect("there is room");
        for length in 0..file.len() {
            assert!(read(&file[..length], &context).is_err(), "{length} bytes");
        }
        // A changed byte gives other samples or a refusal, never more samples than there are bytes.
        for at in 0..file.len() {
            for change in [0x01, 0x10, 0x80, 0xff] {
                let mut changed = file.clone();
                changed[at] ^= change;
                if let Ok(latent) = read(&changed, &context) {
                    assert!(latent.size_bytes() <= file.len() as u64);
                }
            }
        }
    }
}
