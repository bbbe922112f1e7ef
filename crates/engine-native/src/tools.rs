//! [`ImageTools`] on the codecs of this crate: on threads of its own, so that a look at a file does not wait for jobs.
//!
//! Memory is taken in two steps that never wait for each other in a circle: first for the files, then for their pixels, whose
//! number their headers tell.

mod picture;

use std::io;
use std::sync::Arc;

use asset_store::{Blob, BlobError, BlobStore, read_all};
use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use workflow_core::{
    ImageTools, ImageToolsError, MadePicture, PictureChannel, PictureInfo, PreviewOptions,
};

use images::codec::{self, CodecError, Limits};

/// How much the tools may use.
#[derive(Clone, Copy, Debug)]
pub struct ToolsConfig {
    /// Threads that pictures are worked on.
    pub threads: usize,
    /// Bytes for all files and pictures in work together; a picture that needs more is refused.
    pub memory_bytes: u64,
}

/// Reads and rewrites pictures outside jobs. Cheap to clone; clones share threads and memory. Needs a tokio runtime around it.
#[derive(Clone)]
pub struct NativeTools {
    blobs: Arc<dyn BlobStore>,
    pool: Arc<rayon::ThreadPool>,
    files: MemoryBudget,
    pixels: MemoryBudget,
}

/// Memory that calls wait for.
#[derive(Clone)]
struct MemoryBudget {
    free: Arc<Semaphore>,
    bytes: u64,
}

/// A permit of a [`MemoryBudget`] stands for this much, because a semaphore counts no further than 2^32.
const GRAIN_BYTES: u64 = 4096;

/// What a pixel takes at most while it is decoded, whatever the format.
const PIXEL_BYTES: u64 = 48;

/// What a pixel takes at least: decoded, rearranged, and encoded again.
const LEAST_PIXEL_BYTES: u64 = 16;

/// What a picture takes besides its pixels.
const PICTURE_BYTES: u64 = 1 << 20;

impl NativeTools {
    /// Tools over these blobs.
    ///
    /// # Errors
    /// If the threads cannot be started.
    pub fn new(blobs: Arc<dyn BlobStore>, config: ToolsConfig) -> io::Result<Self> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(config.threads.max(1))
            .thread_name(|index| format!("tools-{index}"))
            .panic_handler(|_| tracing::error!("a picture tool panicked"))
            .build()
            .map_err(io::Error::other)?;
        Ok(Self {
            blobs,
            pool: Arc::new(pool),
            files: MemoryBudget::new(config.memory_bytes / 4),
            pixels: MemoryBudget::new(config.memory_bytes - config.memory_bytes / 4),
        })
    }

    /// Reads the files, then runs `work` over them once there is memory for their pixels. What `work` may take beyond the
    /// files is in its limits.
    async fn run<T: Send + 'static>(
        &self,
        blobs: &[Blob],
        work: impl FnOnce(&[Bytes], &Limits) -> Result<T, ImageToolsError> + Send + 'static,
    ) -> Result<T, ImageToolsError> {
        let size_bytes = blobs
            .iter()
            .fold(0, |sum: u64, blob| sum.saturating_add(blob.size_bytes));
        let for_files = self.files.take(size_bytes).await?;
        let mut files = Vec::with_capacity(blobs.len());
        for blob in blobs {
            files.push(self.read(blob).await?);
        }
        let most = self.pixels.bytes / files.len() as u64;
        let mut max_bytes = 0_u64;
        for file in &files {
            let probe = codec::probe(file, &Limits::default()).map_err(refused)?;
            let pixels = probe.width as u64 * probe.height as u64;
            if pixels * LEAST_PIXEL_BYTES > most {
                return Err(too_large(pixels * LEAST_PIXEL_BYTES, most));
            }
            max_bytes = max_bytes.max((pixels * PIXEL_BYTES + PICTURE_BYTES).min(most));
        }
        let for_pixels = self.pixels.take(max_bytes * files.len() as u64).await?;
        let limits = Limits {
            max_bytes,
            ..Limits::default()
        };
        self.spawn(move || {
            let made = work(&files, &limits);
            drop((files, for_files, for_pixels));
            made
        })
        .await
    }

    async fn read(&self, blob: &Blob) -> Result<Bytes, ImageToolsError> {
        let bytes = read_all(&*self.blobs, blob).await;
        bytes.map_err(|error| match error {
            BlobError::Absent => ImageToolsError::Absent,
            BlobError::Damaged(_) => ImageToolsError::Damaged,
            BlobError::Full(source) | BlobError::Io(source) => ImageToolsError::Failed(source),
        })
    }

    async fn spawn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ImageToolsError> + Send + 'static,
    ) -> Result<T, ImageToolsError> {
        let (made, ready) = oneshot::channel();
        self.pool.spawn(move || {
            // If nobody waits any more, nobody misses it.
            let _ = made.send(work());
        });
        ready
            .await
            .unwrap_or_else(|_| Err(ImageToolsError::Failed("a picture tool panicked".into())))
    }
}

#[async_trait]
impl ImageTools for NativeTools {
    async fn probe(&self, picture: Blob) -> Result<PictureInfo, ImageToolsError> {
        let _for_file = self.files.take(picture.size_bytes).await?;
        let file = self.read(&picture).await?;
        // A header is read in no time, so it needs no thread.
        let probe = codec::probe(&file, &Limits::default()).map_err(refused)?;
        Ok(PictureInfo {
            media_type: probe.format.media_type(),
            // The limits of a side are far below what fits.
            width: u32::try_from(probe.width).unwrap_or(u32::MAX),
            height: u32::try_from(probe.height).unwrap_or(u32::MAX),
        })
    }

    async fn thumbnail(&self, picture: Blob, side: u32) -> Result<MadePicture, ImageToolsError> {
        self.run(&[picture], move |files, limits| {
            picture::thumbnail(&files[0], side, limits)
        })
        .await
    }

    async fn preview(
        &self,
        picture: Blob,
        options: PreviewOptions,
    ) -> Result<MadePicture, ImageToolsError> {
        self.run(&[picture], move |files, limits| {
            picture::preview(&files[0], options, limits)
        })
        .await
    }

    async fn channel(
        &self,
        picture: Blob,
        channel: PictureChannel,
    ) -> Result<MadePicture, ImageToolsError> {
        self.run(&[picture], move |files, limits| {
            picture::channel(&files[0], channel, limits)
        })
        .await
    }

    async fn mask(&self, picture: Blob, mask: Blob) -> Result<MadePicture, ImageToolsError> {
        self.run(&[picture, mask], |files, limits| {
            picture::mask(&files[0], &files[1], limits)
        })
        .await
    }
}

impl std::fmt::Debug for NativeTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NativeTools")
            .field("threads", &self.pool.current_num_threads())
            .finish_non_exhaustive()
    }
}

impl MemoryBudget {
    fn new(bytes: u64) -> Self {
        let grains = (bytes / GRAIN_BYTES).min(u64::from(u32::MAX)) as usize;
        Self {
            free: Arc::new(Semaphore::new(grains.min(Semaphore::MAX_PERMITS))),
            bytes: grains as u64 * GRAIN_BYTES,
        }
    }

    async fn take(&self, bytes: u64) -> Result<OwnedSemaphorePermit, ImageToolsError> {
        if bytes > self.bytes {
            return Err(too_large(bytes, self.bytes));
        }
        let grains = bytes.div_ceil(GRAIN_BYTES) as u32;
        let free = Arc::clone(&self.free);
        let taken = free.acquire_many_owned(grains).await;
        taken.map_err(|closed| ImageToolsError::Failed(closed.into()))
    }
}

fn too_large(needed_bytes: u64, most_bytes: u64) -> ImageToolsError {
    ImageToolsError::TooLarge(format!(
        "this needs {needed_bytes} bytes of memory, and only {most_bytes} may be used; use a smaller picture"
    ))
}

/// What the caller of a tool is told of a codec's error.
#[expect(clippy::needless_pass_by_value, reason = "`map_err` gives it away")]
fn refused(error: CodecError) -> ImageToolsError {
    let text = error.to_string();
    match error {
        CodecError::TooLarge { .. } => ImageToolsError::TooLarge(text),
        CodecError::Unrecognized | CodecError::Malformed { .. } | CodecError::Unsupported(_) => {
            ImageToolsError::NotAPicture(text)
        }
    }
}

#[cfg(test)]
mod tests;
