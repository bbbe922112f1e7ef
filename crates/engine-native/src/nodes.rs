//! The classes of this engine, one file per family: each a definition and a call of a pure function.
//!
//! Adding a class touches its family's file and the table here, nothing else.

mod adjust;
mod analysis;
mod animation;
mod audio;
mod audio_join;
mod batch;
mod box_pictures;
mod boxes;
mod camera;
mod canvas;
mod channel;
mod class;
mod color_space;
mod color_transfer;
mod compare;
mod composite;
mod curve;
mod dataset;
mod filter;
mod group;
mod json_strings;
mod keyframes;
mod latent;
mod layers;
mod list_item;
mod load;
mod logic;
mod mask;
mod math;
mod media;
mod noise;
mod number;
mod painter;
mod prepare;
mod primitive;
mod quantize;
mod regex;
mod resize;
mod save;
mod save_advanced;
mod save_audio;
mod save_text;
mod scale;
mod shader;
mod show;
mod slices;
mod solid;
mod string_format;
mod strings;
mod subject;
mod text;
mod tiles;
mod tracks;
mod transform;
mod vector;
mod video;

use std::sync::Arc;

use crate::Node;

pub use adjust::{AdjustBrightness, AdjustContrast, NormalizeImages};
pub use analysis::{Canny, ImageRGBToYUV, ImageYUVToRGB, Morphology};
pub use animation::{SaveAnimatedPNG, SaveAnimatedWEBP};
pub use audio::{
    AudioAdjustVolume, AudioEqualizer3Band, EmptyAudio, LoadAudio, RecordAudio, SplitAudioChannels,
    TrimAudioDuration,
};
pub use audio_join::{AudioConcat, AudioMerge, JoinAudioChannels};
pub use batch::{ImageBatch, ImageFromBatch, RebatchImages, RepeatImageBatch};
pub use boxes::{BuildJsonPromptIdeogram, CreateBoundingBoxes};
pub use canvas::{ImagePadForOutpaint, ImageStitch, ResizeAndPadImage};
pub use channel::{
    ImageColorToMask, ImageToMask, JoinImageWithAlpha, MaskToImage, SplitImageWithAlpha,
};
pub use color_transfer::ColorTransfer;
pub use compare::ImageCompare;
pub use composite::{ImageCompositeMasked, PorterDuffImageComposite};
pub use curve::{CurveEditor, ImageHistogram};
pub use filter::{ImageBlend, ImageBlur, ImageInvert, ImageSharpen};
pub use group::{BatchImagesNode, BatchMasksNode};
pub use json_strings::{ConvertArrayToString, ConvertDictionaryToString, JsonExtractString};
pub use latent::{LoadLatent, SaveLatent};
pub use load::{LoadImage, LoadImageMask, LoadImageOutput, WebcamCapture};
pub use logic::{
    ComfyAndNode, ComfyNotNode, ComfyOrNode, ComfySwitchNode, CreateList, CustomCombo,
};
pub use mask::{CropMask, FeatherMask, GrowMask, InvertMask, MaskComposite, ThresholdMask};
pub use math::ComfyMathExpression;
pub use media::Media;
pub use noise::ImageAddNoise;
pub use number::{
    ColorToRGBInt, ComfyNumberConvert, PrimitiveBoundingBox, ResolutionSelector, SeedNode,
};
pub use painter::Painter;
pub use primitive::{
    PrimitiveBoolean, PrimitiveFloat, PrimitiveInt, PrimitiveString, PrimitiveStringMultiline,
};
pub use quantize::ImageQuantize;
pub use regex::{RegexExtract, RegexMatch, RegexReplace};
pub use resize::{FluxKontextImageScale, ResizeImageMaskNode};
pub use save::{MaskPreview, PreviewImage, SaveImage};
pub use save_advanced::SaveImageAdvanced;
pub use save_audio::{PreviewAudio, SaveAudio, SaveAudioAdvanced, SaveAudioMP3, SaveAudioOpus};
pub use save_text::SaveText;
pub use scale::{ImageScale, ImageScaleBy, ImageScaleToMaxDimension, ImageScaleToTotalPixels};
pub use show::{GetImageSize, PreviewAny, SaveImageWebsocket};
pub use solid::{EmptyImage, SolidMask};
pub use string_format::StringFormat;
pub use strings::{
    CaseConverter, StringCompare, StringConcatenate, StringContains, StringLength, StringReplace,
    StringSubstring, StringTrim,
};
pub use subject::ImageCropToMask;
pub use tiles::{ImageCropV2, ImageMergeTileList, SplitImageToTileList};
pub use tracks::Tracks;
pub use transform::{ImageCrop, ImageFlip, ImageRotate};
pub use vector::{SaveSVGNode, Svg};
pub use video::{CreateVideo, GetVideoComponents, LoadVideo, SaveVideo, SaveWEBM, VideoSlice};

/// Every class, in the order in which clients see them.
#[must_use]
pub fn all() -> Vec<Arc<dyn Node>> {
    let mut all: Vec<Arc<dyn Node>> = vec![
        Arc::new(LoadImage),
        Arc::new(LoadImageMask),
        Arc::new(LoadImageOutput),
        Arc::new(WebcamCapture),
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
        Arc::new(ComfySwitchNode),
        Arc::new(CustomCombo),
        Arc::new(ComfyNotNode),
        Arc::new(ComfyAndNode),
        Arc::new(ComfyOrNode),
        Arc::new(CreateList),
        Arc::new(ComfyMathExpression),
        Arc::new(ComfyNumberConvert),
        Arc::new(ResolutionSelector),
        Arc::new(SeedNode),
        Arc::new(PrimitiveBoundingBox),
        Arc::new(ColorToRGBInt),
        Arc::new(Painter),
        Arc::new(CurveEditor),
        Arc::new(ImageHistogram),
        Arc::new(ColorTransfer),
        Arc::new(ResizeImageMaskNode),
        Arc::new(FluxKontextImageScale),
        Arc::new(BatchImagesNode),
        Arc::new(BatchMasksNode),
        Arc::new(ImageCompare),
        Arc::new(SaveText),
        Arc::new(SaveImageAdvanced),
        Arc::new(ImageCropV2),
        Arc::new(SplitImageToTileList),
        Arc::new(ImageMergeTileList),
        Arc::new(ImageCropToMask),
        Arc::new(JsonExtractString),
        Arc::new(ConvertDictionaryToString),
        Arc::new(ConvertArrayToString),
        Arc::new(StringFormat),
        Arc::new(CreateBoundingBoxes),
        Arc::new(BuildJsonPromptIdeogram),
        Arc::new(AdjustBrightness),
        Arc::new(AdjustContrast),
        Arc::new(NormalizeImages),
        Arc::new(LoadAudio),
        Arc::new(RecordAudio),
        Arc::new(EmptyAudio),
        Arc::new(TrimAudioDuration),
        Arc::new(SplitAudioChannels),
        Arc::new(JoinAudioChannels),
        Arc::new(AudioConcat),
        Arc::new(AudioMerge),
        Arc::new(AudioAdjustVolume),
        Arc::new(AudioEqualizer3Band),
        Arc::new(SaveAudio),
        Arc::new(SaveAudioMP3),
        Arc::new(SaveAudioOpus),
        Arc::new(SaveAudioAdvanced),
        Arc::new(PreviewAudio),
        Arc::new(LoadVideo),
        Arc::new(CreateVideo),
        Arc::new(GetVideoComponents),
        Arc::new(VideoSlice),
        Arc::new(SaveVideo),
        Arc::new(SaveWEBM),
    ];
    all.extend(class::classes(&[
        box_pictures::CLASSES,
        camera::CLASSES,
        color_space::CLASSES,
        keyframes::CLASSES,
        layers::CLASSES,
        list_item::CLASSES,
        prepare::CLASSES,
        shader::CLASSES,
        tracks::CLASSES,
    ]));
    all.extend(class::classes(&video::CLASSES));
    all.extend(dataset::classes());
    all.extend(latent::classes());
    all
}
