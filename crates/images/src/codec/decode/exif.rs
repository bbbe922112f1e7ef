//! Finds how a picture is to be turned: the orientation tag of EXIF, or that of XMP where EXIF has none.

/// EXIF orientation, 1..=8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Orientation(u8);

impl Orientation {
    /// As stored.
    pub(super) const UPRIGHT: Self = Self(1);

    /// From its number; anything but 1..=8 turns nothing.
    pub(super) fn new(number: u32) -> Self {
        match u8::try_from(number) {
            Ok(number @ 1..=8) => Self(number),
            _ => Self::UPRIGHT,
        }
    }

    /// How a shown pixel finds its stored one: whether x and y swap, after mirroring the shown x and the shown y.
    pub(super) fn steps(self) -> (bool, bool, bool) {
        match self.0 {
            2 => (false, true, false),
            3 => (false, true, true),
            4 => (false, false, true),
            5 => (true, false, false),
            6 => (true, true, false),
            7 => (true, true, true),
            8 => (true, false, true),
            _ => (false, false, false),
        }
    }

    /// From the EXIF block and the XMP packet of a file, the first of them that says anything.
    pub(super) fn find(exif: Option<&[u8]>, xmp: Option<&[u8]>) -> Self {
        exif.and_then(from_exif)
            .or_else(|| xmp.and_then(from_xmp))
            .unwrap_or(Self::UPRIGHT)
    }
}

/// The orientation tag of the first directory of a TIFF structure, with or without the `Exif\0\0` before it.
fn from_exif(block: &[u8]) -> Option<Orientation> {
    const ORIENTATION: u16 = 0x0112;
    let tiff = block.strip_prefix(b"Exif\0\0").unwrap_or(block);
    let big_endian = match tiff.get(..4)? {
        b"MM\0*" => true,
        b"II*\0" => false,
        _ => return None,
    };
    let short = |at: usize| {
        let bytes = tiff.get(at..)?.first_chunk::<2>()?;
        Some(if big_endian {
            u16::from_be_bytes(*bytes)
        } else {
            u16::from_le_bytes(*bytes)
        })
    };
    let long = |at: usize| {
        let bytes = tiff.get(at..)?.first_chunk::<4>()?;
        Some(if big_endian {
            u32::from_be_bytes(*bytes)
        } else {
            u32::from_le_bytes(*bytes)
        })
    };
    let directory = long(4)? as usize;
    for entry in 0..usize::from(short(directory)?) {
        let at = directory + 2 + entry * 12;
        if short(at)? == ORIENTATION {
            return match short(at + 2)? {
                1 => Some(Orientation::new(u32::from(*tiff.get(at + 8)?))),
                3 => Some(Orientation::new(u32::from(short(at + 8)?))),
                4 => Some(Orientation::new(long(at + 8)?)),
                _ => None,
            };
        }
    }
    None
}

/// `tiff:Orientation="6"` or `<tiff:Orientation>6<`.
fn from_xmp(packet: &[u8]) -> Option<Orientation> {
    const NAME: &[u8] = b"tiff:Orientation";
    packet
        .windows(NAME.len())
        .enumerate()
        .filter(|(_, window)| *window == NAME)
        .find_map(|(at, _)| {
            let value = &packet[at + NAME.len()..];
            let digit = value
                .strip_prefix(b"=\"")
                .or_else(|| value.strip_prefix(b">"))?
                .first()?;
            digit
                .is_ascii_digit()
                .then(|| Orientation::new(u32::from(digit - b'0')))
        })
}
