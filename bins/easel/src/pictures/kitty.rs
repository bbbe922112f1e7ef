//! The graphics protocol of kitty: PNG in base64, in chunks.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::PictureSlot;

/// Characters of a chunk at most, by the protocol.
const CHUNK: usize = 4096;

/// The id of the one picture that is drawn again and again.
const PREVIEW: u32 = 7_103;

/// A PNG file for the terminal.
pub(super) fn encode(png: &[u8], place: PictureSlot) -> Option<String> {
    let data = STANDARD.encode(png);
    let mut text = String::new();
    if place == PictureSlot::NextPreview {
        text.push_str(&format!("\u{1b}_Ga=d,d=I,i={PREVIEW},q=2\u{1b}\\"));
    }
    let mut chunks = data.as_bytes().chunks(CHUNK).peekable();
    // Quiet, so that the terminal sends nothing back into the shell.
    let mut control = match place {
        PictureSlot::Own => "a=T,f=100,q=2,".to_owned(),
        PictureSlot::FirstPreview | PictureSlot::NextPreview => {
            format!("a=T,f=100,q=2,i={PREVIEW},")
        }
    };
    while let Some(chunk) = chunks.next() {
        let more = u8::from(chunks.peek().is_some());
        let chunk = std::str::from_utf8(chunk).ok()?;
        text.push_str(&format!("\u{1b}_G{control}m={more};{chunk}\u{1b}\\"));
        control.clear();
    }
    Some(text)
}
