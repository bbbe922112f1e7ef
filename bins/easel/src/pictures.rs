//! Pictures on the terminal: which protocol it has, and a picture in it.
//!
//! The environment tells the protocol. The terminal is not asked: an answer that comes late would land in the shell.

mod iterm;
mod kitty;
mod sixel;

use std::ffi::OsString;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use client::Preview;
use images::codec::{self, Limits};
use images::kernel::scale::{self, Crop, Method};
use images::{Frame, Image};

use crate::arguments::Images;

/// The variable that chooses how pictures are shown.
const VARIABLE: &str = "EASEL_IMAGES";

/// Rows of the terminal that a picture takes.
const ROWS: usize = 16;

/// Pixels of a picture at most: about what 16 rows of a usual font have, so that nothing scrolls away.
const MOST_HEIGHT: usize = 16 * ROWS;
const MOST_WIDTH: usize = 2 * MOST_HEIGHT;

/// Pictures beyond this are not shown.
const LIMITS: Limits = Limits {
    max_width: 16_384,
    max_height: 16_384,
    max_pixels: 1 << 26,
    max_frames: 64,
    max_bytes: 1 << 30,
};

/// How a terminal takes pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Kitty,
    Iterm,
    Sixel,
}

/// Where a picture goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PictureSlot {
    /// Its own: it stays.
    Own,
    /// That of previews.
    FirstPreview,
    /// That of previews, instead of the one before.
    NextPreview,
}

/// A picture that is small enough for a terminal: 8-bit RGB.
#[derive(Debug)]
pub(crate) struct Small {
    frame: Arc<Frame>,
}

/// The newest preview, drawn again and again in one place.
#[derive(Debug)]
pub(crate) struct Live {
    protocol: Option<Protocol>,
    is_drawn: bool,
}

/// How pictures are shown: as the flag or the variable says, otherwise as the terminal can.
pub(crate) fn protocol(flag: Option<Images>) -> Option<Protocol> {
    let variable = std::env::var_os(VARIABLE);
    let variable = variable.as_ref().and_then(|text| text.to_str());
    let wanted = flag.unwrap_or(match variable {
        Some("kitty") => Images::Kitty,
        Some("iterm") => Images::Iterm,
        Some("sixel") => Images::Sixel,
        Some("none") => Images::None,
        Some(_) | None => Images::Auto,
    });
    match wanted {
        Images::Kitty => Some(Protocol::Kitty),
        Images::Iterm => Some(Protocol::Iterm),
        Images::Sixel => Some(Protocol::Sixel),
        Images::None => None,
        Images::Auto => detect(std::env::var_os),
    }
}

fn detect(variable: impl Fn(&'static str) -> Option<OsString>) -> Option<Protocol> {
    let text = |name| {
        let value = variable(name)?;
        value.to_str().map(str::to_ascii_lowercase)
    };
    let term = text("TERM").unwrap_or_default();
    let program = text("TERM_PROGRAM").unwrap_or_default();
    // A multiplexer passes pictures on only if it is configured to.
    if variable("TMUX").is_some() || term.starts_with("screen") || term.starts_with("tmux") {
        return None;
    }
    if term.contains("kitty") || term.contains("ghostty") || program == "ghostty" {
        return Some(Protocol::Kitty);
    }
    if ["iterm.app", "wezterm", "mintty", "rio"].contains(&program.as_str()) {
        return Some(Protocol::Iterm);
    }
    let has_sixel = ["foot", "mlterm", "yaft", "sixel"]
        .iter()
        .any(|name| term.contains(name));
    has_sixel.then_some(Protocol::Sixel)
}

/// A picture as the terminal takes it, with a line feed behind it; `None` for what is no picture.
pub(crate) fn shown(bytes: &[u8], protocol: Protocol) -> Option<String> {
    let small = Small::read(bytes)?;
    let mut text = encoded(&small, protocol, PictureSlot::Own)?;
    text.push('\n');
    Some(text)
}

fn encoded(small: &Small, protocol: Protocol, place: PictureSlot) -> Option<String> {
    match protocol {
        Protocol::Kitty => kitty::encode(&small.png()?, place),
        Protocol::Iterm => Some(iterm::encode(&small.png()?)),
        Protocol::Sixel => Some(sixel::encode(
            small.frame.width(),
            small.frame.height(),
            &small.frame.to_bytes(),
        )),
    }
}

// === impl Small ===

impl Small {
    fn read(bytes: &[u8]) -> Option<Self> {
        let raster = codec::decode_first(bytes, &LIMITS).ok()?.colored(false);
        let frame = Frame::from_bytes(
            raster.height(),
            raster.width(),
            raster.channels(),
            raster.data(),
        );
        let (height, width, _) = frame.shape();
        let factor = (MOST_HEIGHT as f64 / height as f64)
            .min(MOST_WIDTH as f64 / width as f64)
            .min(1.0);
        let side = |pixels: usize| ((pixels as f64 * factor).round() as usize).max(1);
        let frame = Arc::new(frame);
        let scaled = scale::resize(
            frame,
            side(width),
            side(height),
            Method::Area,
            Crop::Disabled,
        );
        Some(Self {
            frame: scaled.ok()?,
        })
    }

    fn png(&self) -> Option<Vec<u8>> {
        let image = Image::new(vec![Arc::clone(&self.frame)]).ok()?;
        codec::encode_png(image.first(), &[]).ok()
    }
}

// === impl Live ===

impl Live {
    pub(crate) fn new(protocol: Option<Protocol>) -> Self {
        Self {
            protocol,
            is_drawn: false,
        }
    }

    /// What draws a preview in the place of the one before. The rows are made first, so the terminal has scrolled before
    /// anything is drawn, and the cursor ends below them.
    pub(crate) fn draw(&mut self, preview: &Preview) -> Option<String> {
        let protocol = self.protocol?;
        let bytes = STANDARD.decode(&preview.data_base64).ok()?;
        let place = if self.is_drawn {
            PictureSlot::NextPreview
        } else {
            PictureSlot::FirstPreview
        };
        let picture = encoded(&Small::read(&bytes)?, protocol, place)?;
        let room = if self.is_drawn {
            String::new()
        } else {
            "\n".repeat(ROWS)
        };
        self.is_drawn = true;
        Some(format!(
            "{room}\u{1b}[{ROWS}A\u{1b}7{picture}\u{1b}8\u{1b}[{ROWS}B\r"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> Option<Protocol> {
        detect(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    /// A red picture of 3 x 2 pixels.
    fn red() -> Vec<u8> {
        let pixels: Vec<u8> = [255, 0, 0].repeat(6);
        codec::encode_png(&Frame::from_bytes(2, 3, 3, &pixels), &[]).expect("a picture")
    }

    #[test]
    fn the_environment_tells_the_protocol() {
        assert_eq!(found(&[("TERM", "xterm-kitty")]), Some(Protocol::Kitty));
        assert_eq!(found(&[("TERM", "xterm-ghostty")]), Some(Protocol::Kitty));
        let wez = [("TERM", "xterm-256color"), ("TERM_PROGRAM", "WezTerm")];
        assert_eq!(found(&wez), Some(Protocol::Iterm));
        assert_eq!(found(&[("TERM", "foot")]), Some(Protocol::Sixel));
        assert_eq!(found(&[("TERM", "xterm-256color")]), None);
        assert_eq!(found(&[("TERM", "xterm-kitty"), ("TMUX", "1")]), None);
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn a_picture_is_written_in_each_protocol() {
        let red = red();
        let kitty = shown(&red, Protocol::Kitty).expect("a picture");
        assert!(kitty.starts_with("\u{1b}_Ga=T,f=100"), "{kitty:?}");
        let iterm = shown(&red, Protocol::Iterm).expect("a picture");
        assert!(iterm.starts_with("\u{1b}]1337;File=inline=1;"), "{iterm:?}");
        let sixel = shown(&red, Protocol::Sixel).expect("a picture");
        // The one colour, and three columns whose upper two pixels are set.
        assert!(sixel.contains("#180;2;100;0;0"), "{sixel:?}");
        assert!(sixel.contains("#180!3B"), "{sixel:?}");
        assert_eq!(shown(b"no picture", Protocol::Sixel), None);
    }

    #[test]
    fn a_large_picture_is_made_small() {
        let large = Frame::filled(1000, 4000, 3, 0.5);
        let file = codec::encode_png(&large, &[]).expect("a picture");
        let small = Small::read(&file).expect("a picture");
        assert_eq!(small.frame.shape(), (128, 512, 3));
    }

    #[test]
    fn a_preview_takes_the_place_of_the_one_before() {
        let preview = Preview {
            node_id: "1".to_owned(),
            content_type: "image/png".to_owned(),
            data_base64: STANDARD.encode(red()),
        };
        let mut live = Live::new(Some(Protocol::Kitty));
        let first = live.draw(&preview).expect("drawn");
        assert!(first.starts_with(&"\n".repeat(ROWS)), "{first:?}");
        let second = live.draw(&preview).expect("drawn");
        assert!(
            second.starts_with("\u{1b}[16A\u{1b}7\u{1b}_Ga=d"),
            "{second:?}"
        );
        assert_eq!(Live::new(None).draw(&preview), None);
    }
}
