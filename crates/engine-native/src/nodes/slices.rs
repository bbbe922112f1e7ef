//! Places in a sequence as Python's slices count them: below 0 from the end, and never beyond it.

/// Where `at` is in a sequence of so many.
pub(super) fn position(at: i128, length: usize) -> usize {
    let from_start = match at < 0 {
        true => at.saturating_add(length as i128),
        false => at,
    };
    usize::try_from(from_start.max(0))
        .unwrap_or(length)
        .min(length)
}

/// Where `[start:start + count]` begins in a sequence of so many, and how many it takes.
pub(super) fn span(start: i128, count: i128, length: usize) -> (usize, usize) {
    let end = position(start.saturating_add(count), length);
    let start = position(start, length);
    (start, end.saturating_sub(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_what_python_slices() {
        for (start, count, expected) in [
            (1, 2, (1, 2)),
            (1, 9, (1, 4)),
            (9, 1, (5, 0)),
            (-3, 2, (2, 2)),
            (-1, 1, (4, 0)),
            (0, -3, (0, 2)),
            (2, -1, (2, 0)),
            (4, -6, (4, 0)),
            (-99, 100, (0, 1)),
            (i128::MAX, i128::MAX, (5, 0)),
            (i128::MIN, i128::MIN, (0, 0)),
        ] {
            assert_eq!(span(start, count, 5), expected, "[{start}:{start}+{count}]");
        }
    }
}
