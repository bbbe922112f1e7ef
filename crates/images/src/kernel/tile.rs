//! Pictures as tiles that overlap.

/// Where a tile lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Its first column.
    pub x: usize,
    /// Its first row.
    pub y: usize,
    /// Its columns.
    pub width: usize,
    /// Its rows.
    pub height: usize,
}

/// The tiles of a picture, row by row: as large as asked for, unless the picture is smaller; those at the right and the bottom
/// end with it.
#[must_use]
pub fn tiles(
    width: usize,
    height: usize,
    tile_width: usize,
    tile_height: usize,
    overlap: usize,
) -> Vec<Tile> {
    let columns = spans(width, tile_width, overlap);
    let rows = spans(height, tile_height, overlap).into_iter();
    rows.flat_map(|(y, height)| {
        let tile = move |&(x, width): &(usize, usize)| Tile {
            x,
            y,
            width,
            height,
        };
        columns.iter().map(tile).collect::<Vec<_>>()
    })
    .collect()
}

/// Beginnings and lengths along one side.
fn spans(side: usize, tile: usize, overlap: usize) -> Vec<(usize, usize)> {
    // Tiles overlap by three quarters at most.
    let least = tile as f64 * 0.25;
    let stride = (tile as f64 - overlap as f64).max(least).round_ties_even();
    let stride = (stride as usize).max(1);
    let mut spans = Vec::new();
    let mut at = 0;
    while at < side {
        let end = (at + tile).min(side);
        let start = end.saturating_sub(tile);
        spans.push((start, end - start));
        if end == side {
            break;
        }
        at += stride;
    }
    spans
}
