//! Finds markers and their segments.

/// Walks a file from marker to marker.
#[derive(Clone)]
pub(super) struct Markers<'a> {
    bytes: &'a [u8],
    /// Where reading goes on.
    pub(super) at: usize,
}

impl<'a> Markers<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Passes over anything until a marker, which it takes; none where the file ends.
    pub(super) fn next_marker(&mut self) -> Option<u8> {
        loop {
            let after = self.bytes.get(self.at..)?;
            self.at += after.iter().position(|&byte| byte == 0xff)?;
            let fill = self.bytes[self.at..]
                .iter()
                .position(|&byte| byte != 0xff)?;
            self.at += fill + 1;
            match self.bytes[self.at - 1] {
                0 => {}
                marker => return Some(marker),
            }
        }
    }

    /// The contents of the segment that follows; none if the file ends within it.
    pub(super) fn segment(&mut self) -> Option<&'a [u8]> {
        let length = self.bytes.get(self.at..)?.first_chunk::<2>()?;
        let length = usize::from(u16::from_be_bytes(*length));
        let segment = self.bytes.get(self.at + 2..self.at + length.max(2))?;
        self.at += length.max(2);
        Some(segment)
    }

    /// Everything from here on.
    pub(super) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at.min(self.bytes.len())..]
    }
}

/// Whether a segment follows a marker.
pub(super) fn has_segment(marker: u8) -> bool {
    !matches!(marker, 0x01 | 0xd0..=0xd9)
}
