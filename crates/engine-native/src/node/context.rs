//! What a node may ask of its run while it works.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use secrecy::SecretString;
use serde_json::{Map, Value as Json};
use workflow_core::{JobId, NodeId};

use super::{NodeError, OutputFile};
use crate::python_json::python_json;
use images::Frame;
use images::codec::{self, Limits};

/// The run of a job, as one call of a node sees it.
pub struct NodeContext {
    node: NodeId,
    run: Arc<RunValues>,
    host: Box<dyn Host>,
    /// Inputs that are linked to outputs of lists.
    from_lists: Vec<String>,
}

/// What is the same for all nodes of a run.
pub(crate) struct RunValues {
    pub(crate) job: JobId,
    pub(crate) account: String,
    pub(crate) secret: Option<SecretString>,
    /// The submitted graph, with what [`super::Node::is_changed`] told.
    pub(crate) prompt: Arc<Map<String, Json>>,
    pub(crate) extra_pnginfo: Map<String, Json>,
    /// The texts of the two, spelled as Python does, once a picture needs them.
    pub(crate) metadata: OnceLock<Arc<[(String, String)]>>,
}

/// Where a call's reports go.
pub(crate) trait Host: Send + Sync {
    fn check(&self) -> Result<(), NodeError>;
    fn step(&self, step: u32, steps: u32);
    fn wants_preview(&self) -> bool;
    fn preview(&self, jpeg: Bytes);
    fn text(&self, line: &str);
    fn emit(&self, file: OutputFile) -> Result<(), NodeError>;
    fn frame(&self, png: Bytes) -> Result<(), NodeError>;
    fn reserve(&self, bytes: u64) -> Result<(), NodeError>;
    fn free_bytes(&self) -> u64;
}

impl NodeContext {
    pub(crate) fn new(node: NodeId, run: Arc<RunValues>, host: Box<dyn Host>) -> Self {
        let from_lists = Vec::new();
        Self {
            node,
            run,
            host,
            from_lists,
        }
    }

    pub(crate) fn with_lists(self, from_lists: Vec<String>) -> Self {
        Self { from_lists, ..self }
    }

    /// A context outside any run, for calling a node by itself: nothing stops it, and what it reports and emits is dropped.
    #[must_use]
    pub fn detached() -> Self {
        let run = RunValues {
            job: NIL_JOB.parse().expect("the nil id is an id"),
            account: String::new(),
            secret: None,
            prompt: Arc::default(),
            extra_pnginfo: Map::new(),
            metadata: OnceLock::new(),
        };
        Self::new("node".into(), Arc::new(run), Box::new(Detached))
    }

    /// Says whether to go on; to be asked now and then by whatever takes long.
    ///
    /// # Errors
    /// [`NodeError::Canceled`] when the run is to stop; the call is to return it.
    pub fn check(&self) -> Result<(), NodeError> {
        self.host.check()
    }

    /// Reports that `step` of `steps` are done. For steps that people can follow; use [`NodeContext::check`] in inner loops.
    ///
    /// # Errors
    /// As [`NodeContext::check`].
    pub fn progress(&self, step: u32, steps: u32) -> Result<(), NodeError> {
        self.check()?;
        self.host.step(step, steps);
        Ok(())
    }

    /// Shows how a picture comes along, as a small JPEG; at most about four times a second for the whole job, the rest is
    /// passed over without being encoded.
    pub fn preview(&self, frame: &Frame) {
        if !self.host.wants_preview() {
            return;
        }
        match codec::preview_jpeg(frame) {
            Ok(jpeg) => self.host.preview(jpeg.into()),
            // A look at something is not worth failing for.
            Err(error) => tracing::debug!(%error, "a preview could not be encoded"),
        }
    }

    /// Writes a line to the job's log, shown at the node.
    pub fn text(&self, line: &str) {
        self.host.text(line);
    }

    /// Hands over a file to be committed: in the order handed over, before the node is finished. Waits while two are under
    /// way already, so that a long batch is never in memory as a whole.
    ///
    /// # Errors
    /// [`NodeError::Canceled`] when the run is to stop, and a failure if the class is no output node.
    pub fn emit(&self, file: OutputFile) -> Result<(), NodeError> {
        self.check()?;
        self.host.emit(file)
    }

    /// Hands over a finished picture (PNG) that is shown and not kept; waits while the other side is busy.
    ///
    /// # Errors
    /// As [`NodeContext::emit`].
    pub fn frame(&self, png: Bytes) -> Result<(), NodeError> {
        self.check()?;
        self.host.frame(png)
    }

    /// Makes sure that `bytes` more may be used until the call returns; to be asked before anything large is allocated.
    ///
    /// # Errors
    /// [`NodeError::OutOfMemory`] when the job's budget does not allow it.
    pub fn reserve(&self, bytes: u64) -> Result<(), NodeError> {
        self.host.reserve(bytes)
    }

    /// Bytes that [`NodeContext::reserve`] would still allow.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.host.free_bytes()
    }

    /// The limits for decoding a picture: the usual sides and pixels, and as many bytes as the job may still use. What its header promises is reserved here,
    /// before anything is decoded; a file that promises too little is held to the rest.
    ///
    /// # Errors
    /// If the bytes are no picture, or there is no room for it.
    pub fn limits_of(&self, picture: &[u8]) -> Result<Limits, NodeError> {
        let usual = Limits {
            max_bytes: PICTURE_BYTES,
            ..Limits::default()
        };
        let header = codec::probe(picture, &usual)?;
        let pixels = (header.width as u64).saturating_mul(header.height as u64);
        // Colour and mask of every frame as floats.
        let promised = pixels
            .saturating_mul(header.frames.unwrap_or(1) as u64)
            .saturating_mul(16);
        let promised = promised.min(usual.max_bytes);
        self.reserve(promised)?;
        let max_bytes = usual
            .max_bytes
            .min(promised.saturating_add(self.free_bytes()));
        Ok(Limits { max_bytes, ..usual })
    }

    /// The node's id, as the submission spells it (hidden `UNIQUE_ID`).
    #[must_use]
    pub fn node(&self) -> &NodeId {
        &self.node
    }

    /// Whether an input is linked to an output whose class says that it gives lists. Only classes that take lists can ask: for any
    /// other it is `false`. The values alone do not tell, since a list of one and a single value look alike.
    #[must_use]
    pub fn is_from_list(&self, input: &str) -> bool {
        self.from_lists.iter().any(|name| name == input)
    }

    /// The job.
    #[must_use]
    pub fn job(&self) -> JobId {
        self.run.job
    }

    /// Whose job it is.
    #[must_use]
    pub fn account(&self) -> &str {
        &self.run.account
    }

    /// The key for partners that came with the submission, where one did (hidden `API_KEY_COMFY_ORG`). It must get into
    /// nothing that the node gives or tells.
    #[must_use]
    pub fn secret(&self) -> Option<&SecretString> {
        self.run.secret.as_ref()
    }

    /// The submitted graph (hidden `PROMPT`).
    #[must_use]
    pub fn prompt(&self) -> &Map<String, Json> {
        &self.run.prompt
    }

    /// What the submission wants in pictures besides the graph (hidden `EXTRA_PNGINFO`).
    #[must_use]
    pub fn extra_pnginfo(&self) -> &Map<String, Json> {
        &self.run.extra_pnginfo
    }

    /// What pictures carry: `prompt` and every key of `extra_pnginfo`, as JSON that Python would write. Never a secret: none
    /// reaches an engine in either.
    #[must_use]
    pub fn metadata(&self) -> Arc<[(String, String)]> {
        let spell = || {
            let prompt = (
                "prompt".to_owned(),
                python_json(&Json::Object(Map::clone(&self.run.prompt))),
            );
            let extra = self.run.extra_pnginfo.iter();
            let extra = extra.map(|(key, value)| (key.clone(), python_json(value)));
            std::iter::once(prompt).chain(extra).collect()
        };
        Arc::clone(self.run.metadata.get_or_init(spell))
    }
}

/// What decoding one picture may take at most, if the job's budget allows it: the pixels of [`Limits`], each as colour and
/// mask in floats.
const PICTURE_BYTES: u64 = 16 << 28;

const NIL_JOB: &str = "00000000-0000-0000-0000-000000000000";

struct Detached;

impl Host for Detached {
    fn check(&self) -> Result<(), NodeError> {
        Ok(())
    }

    fn step(&self, _step: u32, _steps: u32) {}

    fn wants_preview(&self) -> bool {
        false
    }

    fn preview(&self, _jpeg: Bytes) {}

    fn text(&self, _line: &str) {}

    fn emit(&self, _file: OutputFile) -> Result<(), NodeError> {
        Ok(())
    }

    fn frame(&self, _png: Bytes) -> Result<(), NodeError> {
        Ok(())
    }

    fn reserve(&self, _bytes: u64) -> Result<(), NodeError> {
        Ok(())
    }

    fn free_bytes(&self) -> u64 {
        u64::MAX
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A job with so many bytes left.
    struct Budget(Mutex<u64>);

    impl Host for Budget {
        fn check(&self) -> Result<(), NodeError> {
            Ok(())
        }

        fn step(&self, _step: u32, _steps: u32) {}

        fn wants_preview(&self) -> bool {
            false
        }

        fn preview(&self, _jpeg: Bytes) {}

        fn text(&self, _line: &str) {}

        fn emit(&self, _file: OutputFile) -> Result<(), NodeError> {
            Ok(())
        }

        fn frame(&self, _png: Bytes) -> Result<(), NodeError> {
            Ok(())
        }

        fn reserve(&self, bytes: u64) -> Result<(), NodeError> {
            let mut free = self.0.lock().expect("nobody panics with it");
            let free_bytes = *free;
            *free = free_bytes
                .checked_sub(bytes)
                .ok_or(NodeError::OutOfMemory {
                    needed_bytes: bytes,
                    free_bytes,
                    budget_bytes: 2 << 30,
                })?;
            Ok(())
        }

        fn free_bytes(&self) -> u64 {
            *self.0.lock().expect("nobody panics with it")
        }
    }

    impl NodeContext {
        /// A context outside any run, with so many bytes left.
        pub(crate) fn of_budget(bytes: u64) -> Self {
            let host = Box::new(Budget(Mutex::new(bytes)));
            Self::new("node".into(), Self::detached().run, host)
        }
    }

    fn limits_of_jpeg(width: u16, height: u16, budget: u64) -> Result<Limits, NodeError> {
        let context = NodeContext::of_budget(budget);
        let mut jpeg = vec![0xff, 0xd8, 0xff, 0xc0, 0, 17, 8];
        jpeg.extend(height.to_be_bytes());
        jpeg.extend(width.to_be_bytes());
        jpeg.extend([3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0]);
        context.limits_of(&jpeg)
    }

    #[test]
    fn a_picture_may_take_what_its_job_has() {
        // 108 megapixels, as telephones make them: colours in floats and the bytes that they are made of.
        let (width, height) = (12_000, 9_000);
        let limits = limits_of_jpeg(width, height, 2 << 30).expect("two GiB are enough");
        assert!(limits.max_bytes >= 15 * 12_000 * 9_000, "{limits:?}");
        let refused = limits_of_jpeg(width, height, 1 << 30).expect_err("one GiB is not");
        let NodeError::OutOfMemory { needed_bytes, .. } = refused else {
            panic!("{refused}")
        };
        assert_eq!(needed_bytes, 16 * 12_000 * 9_000);
    }
}
