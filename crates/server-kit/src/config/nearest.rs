//! Which known word a person meant.

/// The known word that is closest to `word`, unless none is close.
pub(super) fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let measured = known
        .into_iter()
        .map(|known| (distance(word, known), known));
    let (distance, known) = measured.min()?;
    // A third of the letters may be wrong; beyond that it is a guess.
    (distance <= 1 + word.chars().count() / 3).then_some(known)
}

/// How many letters have to be added, removed, replaced or swapped with their neighbour. Dashes count as underscores.
fn distance(left: &str, right: &str) -> usize {
    let letters = |text: &str| -> Vec<char> {
        text.to_ascii_lowercase()
            .replace('-', "_")
            .chars()
            .collect()
    };
    let (left, right) = (letters(left), letters(right));
    let mut before = vec![0; right.len() + 1];
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for i in 1..=left.len() {
        let mut next = vec![i; right.len() + 1];
        for j in 1..=right.len() {
            let replaced = row[j - 1] + usize::from(left[i - 1] != right[j - 1]);
            next[j] = replaced.min(row[j] + 1).min(next[j - 1] + 1);
            let swapped =
                i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1];
            if swapped {
                next[j] = next[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut row, next);
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_word_and_noise_finds_none() {
        let known = ["listen", "data_dir", "token"];
        for (word, meant) in [
            ("listn", Some("listen")),
            ("lisetn", Some("listen")),
            ("data-dir", Some("data_dir")),
            ("DATADIR", Some("data_dir")),
            ("tokens", Some("token")),
            ("colour", None),
        ] {
            assert_eq!(nearest(word, known), meant, "{word}");
        }
        assert_eq!(nearest("listen", []), None);
    }

    #[test]
    fn a_swap_counts_once() {
        assert_eq!(distance("ab", "ba"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
