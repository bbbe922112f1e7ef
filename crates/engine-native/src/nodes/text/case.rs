//! `str.capitalize` and `str.title`, with the letters whose titlecase is neither their upper nor their lower case.

/// The first character in title case, the rest in lower case.
pub(crate) fn capitalized(string: &str) -> String {
    let mut lowered = lowered(string);
    let first = lowered.next().map(|(first, _)| title(first));
    first
        .into_iter()
        .chain(lowered.map(|(_, lower)| lower))
        .collect()
}

/// Every run of cased characters with its first one in title case, the rest in lower case.
pub(crate) fn title_cased(string: &str) -> String {
    let mut in_word = false;
    let mut titled = String::with_capacity(string.len());
    for (character, lower) in lowered(string) {
        titled.push_str(&if in_word { lower } else { title(character) });
        in_word = is_cased(character);
    }
    titled
}

/// Every character with its lower case; a sigma's depends on where it stands.
fn lowered(string: &str) -> impl Iterator<Item = (char, String)> {
    let whole = string.to_lowercase();
    let mut at = 0;
    let characters: Vec<char> = string.chars().collect();
    characters.into_iter().map(move |character| {
        let length: usize = character.to_lowercase().map(char::len_utf8).sum();
        let lower = whole[at..at + length].to_owned();
        at += length;
        (character, lower)
    })
}

fn is_cased(character: char) -> bool {
    character.is_lowercase() || character.is_uppercase() || is_title_case(character)
}

/// The few characters that are a capital and a small letter in one.
fn is_title_case(character: char) -> bool {
    let is_digraph = matches!(character, '\u{1c5}' | '\u{1c8}' | '\u{1cb}' | '\u{1f2}');
    let is_greek = ('\u{1f88}'..='\u{1ffc}').contains(&character)
        && greek_title(character) == character.to_string();
    is_digraph || is_greek && character.to_lowercase().ne([character])
}

/// One character in title case (Unicode's simple and special mappings).
fn title(character: char) -> String {
    match character {
        // Digraphs with a form of their own.
        '\u{1c4}'..='\u{1c6}' => "\u{1c5}".to_owned(),
        '\u{1c7}'..='\u{1c9}' => "\u{1c8}".to_owned(),
        '\u{1ca}'..='\u{1cc}' => "\u{1cb}".to_owned(),
        '\u{1f1}'..='\u{1f3}' => "\u{1f2}".to_owned(),
        // Georgian has capitals, but no title case.
        '\u{10d0}'..='\u{10ff}' => character.to_string(),
        '\u{149}' => "\u{2bc}N".to_owned(),
        '\u{1f80}'..='\u{1fff}' => greek_title(character),
        _ => {
            let mut upper = character.to_uppercase();
            // Ligatures and the sharp s become two letters, of which only the first is a capital.
            let first = upper.next().into_iter();
            first.chain(upper.flat_map(char::to_lowercase)).collect()
        }
    }
}

/// Greek letters with an iota below keep it below, or have a form of their own with it.
fn greek_title(character: char) -> String {
    match character {
        '\u{1f88}'..='\u{1f8f}'
        | '\u{1f98}'..='\u{1f9f}'
        | '\u{1fa8}'..='\u{1faf}'
        | '\u{1fbc}'
        | '\u{1fcc}'
        | '\u{1ffc}' => {
            return character.to_string();
        }
        '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => {
            return char::from_u32(u32::from(character) + 8)
                .into_iter()
                .collect();
        }
        '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => {
            return char::from_u32(u32::from(character) + 9)
                .into_iter()
                .collect();
        }
        _ => {}
    }
    let upper: Vec<char> = character.to_uppercase().collect();
    match upper.split_last() {
        Some(('\u{399}', rest)) if !rest.is_empty() => {
            rest.iter().copied().chain(['\u{345}']).collect()
        }
        _ => upper.into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capitalizing_lowers_the_rest() {
        let cases = [
            ("hello WORLD", "Hello world"),
            ("ßA", "Ssa"),
            ("ǆX", "ǅx"),
            ("", ""),
            ("1A", "1a"),
            ("ΟΔΟΣ", "Οδος"),
        ];
        for (string, expected) in cases {
            assert_eq!(capitalized(string), expected, "{string:?}");
        }
    }

    #[test]
    fn titles_begin_anew_after_anything_without_case() {
        let cases = [
            ("they're bill's friends", "They'Re Bill'S Friends"),
            ("x2y 3RD", "X2Y 3Rd"),
            ("ﬁne", "Fine"),
            ("ŉa", "ʼNa"),
            ("ᾳx", "ᾼx"),
            ("ΟΔΟΣ ΣΑΣ", "Οδος Σας"),
            ("ǅAB", "ǅab"),
            ("ქართული", "ქართული"),
        ];
        for (string, expected) in cases {
            assert_eq!(title_cased(string), expected, "{string:?}");
        }
    }
}
