//! The classes of this engine, one file per family: each a definition and a call of a pure function.
//!
//! Adding a class touches its family's file and the table here, nothing else.

mod analysis;
mod animation;
mod batch;
mod canvas;
mod channel;
mod composite;
mod filter;
mod load;
mod mask;
mod media;
mod noise;
mod primitive;
mod quantize;
mod regex;
mod save;
mod scale;
mod show;
mod solid;
mod strings;
mod text;
mod transform;
mod vector;

use std::sync::Arc;

use crate::Node;

pub use analysis::{Canny, ImageRGBToYUV, ImageYUVToRGB, Morphology};
pub use animation::{SaveAnimatedPNG, SaveAnimatedWEBP};
pub use batch::{ImageBatch, ImageFromBatch, RebatchImages, RepeatImageBatch};
pub use canvas::{ImagePadForOutpaint, ImageStitch, ResizeAndPadImage};
pub use channel::{
    ImageColorToMask, ImageToMask, JoinImageWithAlpha, MaskToImage, SplitImageWithAlpha,
};
pub use composite::{ImageCompositeMasked, PorterDuffImageComposite};
pub use filter::{ImageBlend, ImageBlur, ImageInvert, ImageSharpen};
pub use load::{LoadImage, LoadImageMask, LoadImageOutput};
pub use mask::{CropMask, FeatherMask, GrowMask, InvertMask, MaskComposite, ThresholdMask};
pub use media::{Media, media};
pub use noise::ImageAddNoise;
pub use primitive::{
    PrimitiveBoolean, PrimitiveFloat, PrimitiveInt, PrimitiveString, PrimitiveStringMultiline,
};
pub use quantize::ImageQuantize;
pub use regex::{RegexExtract, RegexMatch, RegexReplace};
pub use save::{MaskPreview, PreviewImage, SaveImage};
pub use scale::{ImageScale, ImageScaleBy, ImageScaleToMaxDimension, ImageScaleToTotalPixels};
pub use show::{GetImageSize, PreviewAny, SaveImageWebsocket};
pub use solid::{EmptyImage, SolidMask};
pub use strings::{
    CaseConverter, StringCompare, StringConcatenate, StringContains, StringLength, StringReplace,
    StringSubstring, StringTrim,
};
pub use transform::{ImageCrop, ImageFlip, ImageRotate};
pub use vector::{SaveSVGNode, Svg};

/// Every class, in the order in which clients see them.
#[must_use]
pub fn all() -> Vec<Arc<dyn Node>> {
    vec![
        Arc::new(LoadImage),
        Arc::new(LoadImageMask),
        Arc::new(LoadImageOutput),
        Arc::new(SaveImage),
        Arc::new(PreviewImage),
        Arc::new(ImageInvert),
        Arc::new(ImageScale),
        Arc::new(ImageScaleBy),
        Arc::new(ImageScaleToTotalPixels),
        Arc::new(ImageScaleToMaxDimension),
        Arc::new(ImageBatch),
        Arc::new(ImagePadForOutpaint),
        Arc::new(EmptyImage),
        Arc::new(ImageCrop),
        Arc::new(ImageBlend),
        Arc::new(ImageBlur),
        Arc::new(ImageQuantize),
        Arc::new(ImageSharpen),
        Arc::new(ImageCompositeMasked),
        Arc::new(MaskToImage),
        Arc::new(ImageToMask),
        Arc::new(ImageColorToMask),
        Arc::new(SolidMask),
        Arc::new(InvertMask),
        Arc::new(CropMask),
        Arc::new(MaskComposite),
        Arc::new(FeatherMask),
        Arc::new(GrowMask),
        Arc::new(ThresholdMask),
        Arc::new(MaskPreview),
        Arc::new(ImageFromBatch),
        Arc::new(RepeatImageBatch),
        Arc::new(RebatchImages),
        Arc::new(ImageRotate),
        Arc::new(ImageFlip),
        Arc::new(ImageStitch),
        Arc::new(ResizeAndPadImage),
        Arc::new(ImageAddNoise),
        Arc::new(SaveAnimatedWEBP),
        Arc::new(SaveAnimatedPNG),
        Arc::new(SaveSVGNode),
        Arc::new(GetImageSize),
        Arc::new(PorterDuffImageComposite),
        Arc::new(SplitImageWithAlpha),
        Arc::new(JoinImageWithAlpha),
        Arc::new(ImageRGBToYUV),
        Arc::new(ImageYUVToRGB),
        Arc::new(Morphology),
        Arc::new(Canny),
        Arc::new(PrimitiveString),
        Arc::new(PrimitiveStringMultiline),
        Arc::new(PrimitiveInt),
        Arc::new(PrimitiveFloat),
        Arc::new(PrimitiveBoolean),
        Arc::new(StringConcatenate),
        Arc::new(StringSubstring),
        Arc::new(StringLength),
        Arc::new(CaseConverter),
        Arc::new(StringTrim),
        Arc::new(StringReplace),
        Arc::new(StringContains),
        Arc::new(StringCompare),
        Arc::new(RegexMatch),
        Arc::new(RegexExtract),
        Arc::new(RegexReplace),
        Arc::new(PreviewAny),
        Arc::new(SaveImageWebsocket),
    ]
}
