//! Shaders that are fuzzed: any source is a program or an error of bounded length, and every program draws within bounds, the same
//! each time.

use std::sync::Arc;

use images::Frame;

use super::{Program, Run, Texture};
use crate::NodeContext;

/// Memory that a run may say it takes; what takes more is refused by jobs with this limit.
const MOST_BYTES: u64 = 64 << 20;

/// Compiles a source and runs it for a few pixels.
///
/// # Panics
/// If an error is longer than the source explains, or if what is drawn is not of the size asked for, or differs in a second run.
pub(crate) fn shader(bytes: &[u8]) {
    let source = String::from_utf8_lossy(bytes);
    let program = match Program::new(&source) {
        Ok(program) => program,
        Err(wrong) => {
            let told = wrong.to_string();
            assert!(told.len() <= source.len() + 1024, "{} bytes", told.len());
            return;
        }
    };
    let samples = (0..5 * 4 * 3).map(|at| at as f32 / 60.0).collect();
    let picture = Texture::Picture(Arc::new(Frame::new(4, 5, 3, samples)));
    let textures = vec![picture; program.samplers().len()];
    let run = Run {
        program: &program,
        uniforms: &[],
        textures: &textures,
        size: (3, 2),
        outputs: 4,
        // No input takes long.
        most_steps: 1 << 12,
    };
    if run.bytes() > MOST_BYTES {
        return;
    }
    let drawn = || {
        let frames = run.render(&NodeContext::detached()).ok()?;
        let bits = |frame: &Frame| frame.data().iter().map(|sample| sample.to_bits()).collect();
        Some(frames.iter().map(bits).collect::<Vec<Vec<u32>>>())
    };
    let first = drawn();
    if let Some(outputs) = &first {
        assert!(outputs.iter().all(|bits| bits.len() == 3 * 2 * 4));
        assert_eq!(outputs.len(), 4);
    }
    assert_eq!(first, drawn(), "what is drawn depends on the source alone");
}

#[cfg(test)]
mod tests {
    use super::shader;
    use crate::fuzzed::{feed, seeds};

    #[test]
    fn any_source_is_a_shader_or_an_error() {
        let seeds = seeds("../../tests/fuzz/corpus/shader");
        assert_eq!(seeds.len(), 9, "the set is whole");
        feed(&seeds, 300, shader);
    }
}
