//! The classes of this engine, one file per family: each a definition and a call of a pure function.

mod load;
mod save;
mod solid;

use std::sync::Arc;

use crate::Node;

pub use load::{LoadImage, LoadImageMask, LoadImageOutput};
pub use save::{MaskPreview, PreviewImage, SaveImage};
pub use solid::{EmptyImage, SolidMask};

/// Every class, in the order in which clients see them.
#[must_use]
pub fn all() -> Vec<Arc<dyn Node>> {
    vec![
        Arc::new(LoadImage),
        Arc::new(LoadImageMask),
        Arc::new(LoadImageOutput),
        Arc::new(SaveImage),
        Arc::new(PreviewImage),
        Arc::new(EmptyImage),
        Arc::new(SolidMask),
        Arc::new(MaskPreview),
    ]
}
