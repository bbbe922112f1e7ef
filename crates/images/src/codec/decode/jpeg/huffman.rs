//! Huffman tables and the reader of entropy-coded bits.
//!
//! Where the data ends early the reader gives zeros and says so; the decoder then leaves the rest of the picture as it is.

/// Codes of up to this many bits are decoded by one look-up.
const LOOKAHEAD: u32 = 9;

/// A decoding table.
#[derive(Clone)]
pub(super) struct HuffmanTable {
    /// For every start of a short code: its length and its symbol; length 0 for longer codes.
    short: Vec<(u8, u8)>,
    /// Per length the first code past the last, shifted to 16 bits; and what to add to a code to find its symbol.
    ends: [u32; 17],
    offsets: [i32; 17],
    symbols: Vec<u8>,
}

impl HuffmanTable {
    /// From the number of codes of each length and the symbols in order; none if the codes do not fit their lengths.
    pub(super) fn new(counts: [u8; 16], symbols: &[u8]) -> Option<Self> {
        let mut table = Self {
            short: vec![(0, 0); 1 << LOOKAHEAD],
            ends: [0; 17],
            offsets: [0; 17],
            symbols: symbols.to_vec(),
        };
        let (mut code, mut index) = (0_u32, 0_usize);
        for (length, count) in (1..=16_u32).zip(counts) {
            let count = u32::from(count);
            if code + count > 1 << length {
                return None;
            }
            table.offsets[length as usize] = index as i32 - code as i32;
            if length <= LOOKAHEAD {
                let spread = 1 << (LOOKAHEAD - length);
                for _ in 0..count {
                    let start = (code * spread) as usize;
                    table.short[start..start + spread as usize]
                        .fill((length as u8, *symbols.get(index)?));
                    code += 1;
                    index += 1;
                }
            } else {
                code += count;
                index += count as usize;
            }
            table.ends[length as usize] = code << (16 - length);
            code <<= 1;
        }
        (index <= symbols.len()).then_some(table)
    }

    /// Whether every symbol is a size that a difference of direct currents may have.
    pub(super) fn fits_direct_current(&self) -> bool {
        self.symbols.iter().all(|&symbol| symbol <= 15)
    }
}

/// Reads bits out of a scan, undoing byte stuffing, up to the next marker.
pub(super) struct BitReader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Bits not yet taken, from the top; zeros below.
    buffer: u64,
    count: u32,
    /// The marker that stopped the data, if it was met; the end of the file counts as one.
    marker: Option<u8>,
    /// Whether more bits were taken than there were.
    pub(super) exhausted: bool,
}

const END_OF_IMAGE: u8 = 0xd9;

impl<'a> BitReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            buffer: 0,
            count: 0,
            marker: None,
            exhausted: false,
        }
    }

    fn refill(&mut self) {
        // Eight bytes without a 0xff among the ones taken need no looking at one by one.
        if let (None, Some(next)) = (
            self.marker,
            self.bytes.get(self.at..).and_then(<[u8]>::first_chunk::<8>),
        ) {
            let next = u64::from_be_bytes(*next);
            let has_ff =
                (next & !next.wrapping_add(0x0101_0101_0101_0101)) & 0x8080_8080_8080_8080 != 0;
            if !has_ff {
                let bytes = (64 - self.count) / 8;
                let taken = if bytes == 8 {
                    next
                } else {
                    next >> (64 - 8 * bytes) << (64 - 8 * bytes)
                };
                self.buffer |= taken >> self.count;
                self.count += 8 * bytes;
                self.at += bytes as usize;
                return;
            }
        }
        while self.count <= 56 && self.marker.is_none() {
            let byte = match self.bytes.get(self.at) {
                Some(0xff) => {
                    let fill = self.bytes[self.at + 1..]
                        .iter()
                        .take_while(|&&byte| byte == 0xff)
                        .count();
                    match self.bytes.get(self.at + 1 + fill) {
                        Some(0) => {
                            self.at += fill + 1;
                            0xff
                        }
                        other => {
                            self.marker = Some(other.copied().unwrap_or(END_OF_IMAGE));
                            return;
                        }
                    }
                }
                Some(&byte) => byte,
                None => {
                    self.marker = Some(END_OF_IMAGE);
                    return;
                }
            };
            self.at += 1;
            self.buffer |= u64::from(byte) << (56 - self.count);
            self.count += 8;
        }
    }

    /// The next `1..=16` bits, not taken; zeros past the end.
    fn peek(&mut self, bits: u32) -> u32 {
        if self.count < bits {
            self.refill();
        }
        (self.buffer >> (64 - bits)) as u32
    }

    fn skip(&mut self, bits: u32) {
        self.buffer <<= bits;
        if bits > self.count {
            self.exhausted = true;
            self.count = 0;
        } else {
            self.count -= bits;
        }
    }

    /// Takes `0..=16` bits.
    pub(super) fn bits(&mut self, bits: u32) -> i32 {
        if bits == 0 {
            return 0;
        }
        let value = self.peek(bits);
        self.skip(bits);
        value as i32
    }

    /// Takes a number of `size` bits whose leading bit says its sign.
    pub(super) fn signed(&mut self, size: u32) -> i32 {
        let value = self.bits(size);
        if size == 0 || value >= 1 << (size - 1) {
            value
        } else {
            value - (1 << size) + 1
        }
    }

    /// Takes a symbol; 0 where no code fits.
    pub(super) fn symbol(&mut self, table: &HuffmanTable) -> u8 {
        let code = self.peek(16);
        let (length, symbol) = table.short[(code >> (16 - LOOKAHEAD)) as usize];
        if length != 0 {
            self.skip(u32::from(length));
            return symbol;
        }
        for length in LOOKAHEAD + 1..=16 {
            if code < table.ends[length as usize] {
                self.skip(length);
                let index = (code >> (16 - length)) as i32 + table.offsets[length as usize];
                return table.symbols.get(index as usize).copied().unwrap_or(0);
            }
        }
        self.skip(17);
        0
    }

    /// Goes on after restart marker `0..=7`, throwing away what is left before it. A missing one is not waited for: if the next
    /// marker is not near the expected one, the data before the next interval counts as exhausted, as in libjpeg.
    pub(super) fn restart(&mut self, expected: u8) {
        self.buffer = 0;
        self.count = 0;
        loop {
            let marker = match self.marker.take() {
                Some(marker) => marker,
                None => self.seek_marker(),
            };
            let distance = marker.wrapping_sub(0xd0).wrapping_sub(expected) & 7;
            match marker {
                0xd0..=0xd7 if matches!(distance, 0 | 3..=5) => {
                    self.pass_marker();
                    self.exhausted = false;
                    return;
                }
                0xd0..=0xd7 if matches!(distance, 1 | 2) => return self.marker = Some(marker),
                0xd0..=0xd7 | 0x01..=0xbf => self.pass_marker(),
                _ => return self.marker = Some(marker),
            }
        }
    }

    /// Moves to the next marker without passing it.
    fn seek_marker(&mut self) -> u8 {
        while let Some(&byte) = self.bytes.get(self.at) {
            if byte == 0xff {
                let fill = self.bytes[self.at + 1..]
                    .iter()
                    .take_while(|&&byte| byte == 0xff)
                    .count();
                match self.bytes.get(self.at + 1 + fill) {
                    Some(0) | None => {}
                    Some(&marker) => return marker,
                }
                self.at += fill;
            }
            self.at += 1;
        }
        END_OF_IMAGE
    }

    fn pass_marker(&mut self) {
        let fill = self
            .bytes
            .get(self.at..)
            .unwrap_or_default()
            .iter()
            .take_while(|&&byte| byte == 0xff)
            .count();
        self.at = (self.at + fill + 1).min(self.bytes.len());
    }

    /// Where the data that was read ends.
    pub(super) fn position(&self) -> usize {
        // What is buffered was read ahead, but never across a marker.
        self.at.min(self.bytes.len())
    }
}
