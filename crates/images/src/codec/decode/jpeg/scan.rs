//! One scan: which components and coefficients it brings, and the walk over its blocks.

use super::frame::{BLOCK, Component, Frame};
use super::huffman::{BitReader, HuffmanTable};
use super::progressive::Pass;
use super::reader::{Tables, ZIGZAG};
use super::{idct, malformed};
use crate::codec::CodecError;

/// A scan header.
pub(super) struct Scan {
    /// Index of a component in the frame, and of its tables.
    members: Vec<Member>,
    first: usize,
    last: usize,
    high: u32,
    low: u32,
}

struct Member {
    component: usize,
    direct: usize,
    alternating: usize,
}

/// The tables that one component is decoded with.
struct Coding<'t> {
    direct: Option<&'t HuffmanTable>,
    alternating: Option<&'t HuffmanTable>,
    /// The direct current of the block before.
    predicted: i32,
}

impl Scan {
    pub(super) fn parse(segment: &[u8], frame: &Frame) -> Result<Self, CodecError> {
        let cut_off = || malformed("a scan header is cut off");
        let (&count, rest) = segment.split_first().ok_or_else(cut_off)?;
        let (list, rest) = rest
            .split_at_checked(usize::from(count) * 2)
            .ok_or_else(cut_off)?;
        let [first, last, approximation] = *rest.first_chunk::<3>().ok_or_else(cut_off)?;
        let members = list.chunks_exact(2).map(|entry| {
            let component = frame
                .components
                .iter()
                .position(|component| component.id == entry[0]);
            let component = component.ok_or_else(|| malformed("a scan names no component"))?;
            Ok(Member {
                component,
                direct: usize::from(entry[1] >> 4),
                alternating: usize::from(entry[1] & 15),
            })
        });
        let members: Vec<Member> = members.collect::<Result<_, CodecError>>()?;
        let blocks: usize = members
            .iter()
            .map(|member| &frame.components[member.component])
            .map(|c| c.h * c.v)
            .sum();
        let distinct = members
            .iter()
            .enumerate()
            .all(|(at, a)| members[..at].iter().all(|b| b.component != a.component));
        let (first, last) = (usize::from(first), usize::from(last));
        let (high, low) = (u32::from(approximation >> 4), u32::from(approximation & 15));
        let band_fits = if first == 0 {
            last == 0
        } else {
            first <= last && last < BLOCK && members.len() == 1
        };
        let steps_fit = low <= 13 && (high == 0 || high == low + 1);
        let fits = distinct && !members.is_empty() && (members.len() == 1 || blocks <= 10);
        if !fits || frame.progressive && !(band_fits && steps_fit) {
            return Err(malformed("a scan header makes no sense"));
        }
        Ok(Self {
            members,
            first,
            last,
            high,
            low,
        })
    }

    /// Decodes the entropy-coded data; answers how many bytes it took.
    pub(super) fn decode(
        &self,
        frame: &mut Frame,
        tables: &Tables,
        data: &[u8],
    ) -> Result<usize, CodecError> {
        let mut codings = Vec::new();
        for member in &self.members {
            let component = &mut frame.components[member.component];
            if component.quantization.is_none() {
                let table = tables.quantization.get(component.table).copied().flatten();
                component.quantization =
                    Some(table.ok_or_else(|| malformed("a quantization table is missing"))?);
            }
            let direct = tables.direct.get(member.direct).and_then(Option::as_ref);
            let alternating = tables
                .alternating
                .get(member.alternating)
                .and_then(Option::as_ref);
            let needs_direct = !frame.progressive || self.first == 0 && self.high == 0;
            let needs_alternating = !frame.progressive || self.first > 0;
            if needs_direct && !direct.is_some_and(HuffmanTable::fits_direct_current)
                || needs_alternating && alternating.is_none()
            {
                return Err(malformed("a Huffman table is missing"));
            }
            codings.push(Coding {
                direct,
                alternating,
                predicted: 0,
            });
        }
        let mut bits = BitReader::new(data);
        let mut pass = Pass::new(self.first, self.last, self.high, self.low);
        let single = self.members.len() == 1;
        let (across, down) = match self.members.as_slice() {
            [only] => {
                let component = &frame.components[only.component];
                (component.width.div_ceil(8), component.height.div_ceil(8))
            }
            _ => frame.units(),
        };
        let mut until_restart = tables.restart_interval;
        let mut next_restart = 0;
        for unit in 0..across * down {
            if tables.restart_interval > 0 && until_restart == 0 {
                bits.restart(next_restart);
                next_restart = (next_restart + 1) & 7;
                until_restart = tables.restart_interval;
                codings.iter_mut().for_each(|coding| coding.predicted = 0);
                pass.restart();
            }
            until_restart = until_restart.wrapping_sub(1);
            // What a unit lacks reads as zeros; the units after it stay as they are until a restart.
            match (bits.exhausted, tables.restart_interval) {
                (true, 0) => break,
                (true, _) => continue,
                (false, _) => {}
            }
            let (unit_x, unit_y) = (unit % across, unit / across);
            for (member, coding) in self.members.iter().zip(&mut codings) {
                let component = &mut frame.components[member.component];
                let (h, v) = if single {
                    (1, 1)
                } else {
                    (component.h, component.v)
                };
                for (y, x) in (0..v).flat_map(|y| (0..h).map(move |x| (y, x))) {
                    let (block_x, block_y) = (unit_x * h + x, unit_y * v + y);
                    if frame.progressive {
                        let block =
                            &mut component.coefficients[block_y * component.blocks_wide + block_x];
                        pass.block(
                            block,
                            &mut bits,
                            coding.direct,
                            coding.alternating,
                            &mut coding.predicted,
                        );
                    } else {
                        sequential_block(component, block_x, block_y, coding, &mut bits);
                    }
                }
            }
        }
        Ok(bits.position())
    }
}

/// Decodes and transforms one block of a picture that is not progressive.
fn sequential_block(
    component: &mut Component,
    x: usize,
    y: usize,
    coding: &mut Coding<'_>,
    bits: &mut BitReader<'_>,
) {
    let (Some(direct), Some(alternating), Some(quantization)) =
        (coding.direct, coding.alternating, &component.quantization)
    else {
        return;
    };
    let mut block = [0_i16; BLOCK];
    let size = u32::from(bits.symbol(direct));
    coding.predicted = coding.predicted.wrapping_add(bits.signed(size));
    block[0] = coding.predicted as i16;
    let mut at = 1;
    while at < BLOCK {
        let symbol = bits.symbol(alternating);
        let (run, size) = (usize::from(symbol >> 4), u32::from(symbol & 15));
        if size == 0 {
            if run != 15 {
                break;
            }
            at += 16;
            continue;
        }
        at += run;
        block[usize::from(ZIGZAG[at])] = bits.signed(size) as i16;
        at += 1;
    }
    let stride = component.blocks_wide * 8;
    idct::transform(
        &block,
        quantization,
        at == 1,
        &mut component.plane[y * 8 * stride + x * 8..],
        stride,
    );
}
