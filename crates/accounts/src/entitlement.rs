//! Which models an account may call.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Most characters of a pattern: those of the longest model id.
const MAX_PATTERN: usize = 193;

/// Most patterns of an account.
const MAX_PATTERNS: usize = 256;

/// The models that an account may call. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entitlements {
    /// Every one.
    All,
    /// Those that one of the patterns fits; none where there is none.
    Only(Arc<[ModelPattern]>),
}

/// A pattern of model ids: `{provider}/{model}` in which `*` stands for any characters but the slash, such as `bfl/*` or
/// `openai/gpt-image-*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelPattern {
    provider: Box<str>,
    model: Box<str>,
}

/// The text is no list of patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "entitlements are `all`, `none`, or at most 256 patterns such as bfl/* or openai/gpt-image-*, separated by commas"
)]
pub struct InvalidEntitlements;

impl Entitlements {
    /// Whether the model may be called, which is named by the two segments of its id.
    #[must_use]
    pub fn allow(&self, provider: &str, model: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(patterns) => patterns
                .iter()
                .any(|pattern| fits(&pattern.provider, provider) && fits(&pattern.model, model)),
        }
    }
}

impl FromStr for Entitlements {
    type Err = InvalidEntitlements;

    fn from_str(text: &str) -> Result<Self, InvalidEntitlements> {
        match text {
            "all" => return Ok(Self::All),
            "none" => return Ok(Self::Only(Arc::new([]))),
            _ => {}
        }
        let patterns: Arc<[ModelPattern]> = text
            .split(',')
            .map(|pattern| pattern.trim().parse())
            .collect::<Result<_, _>>()?;
        if patterns.len() > MAX_PATTERNS {
            return Err(InvalidEntitlements);
        }
        Ok(Self::Only(patterns))
    }
}

impl fmt::Display for Entitlements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Only(patterns) if patterns.is_empty() => f.write_str("none"),
            Self::Only(patterns) => {
                let texts: Vec<String> = patterns.iter().map(ToString::to_string).collect();
                f.write_str(&texts.join(","))
            }
        }
    }
}

impl FromStr for ModelPattern {
    type Err = InvalidEntitlements;

    fn from_str(text: &str) -> Result<Self, InvalidEntitlements> {
        let segment = |text: &str| {
            let known = |byte: u8| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-*".contains(&byte)
            };
            !text.is_empty() && text.bytes().all(known)
        };
        let (provider, model) = text.split_once('/').ok_or(InvalidEntitlements)?;
        if !segment(provider) || !segment(model) || text.len() > MAX_PATTERN {
            return Err(InvalidEntitlements);
        }
        Ok(Self {
            provider: provider.into(),
            model: model.into(),
        })
    }
}

impl fmt::Display for ModelPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

/// Whether a text fits a pattern of `*`: the pieces between them follow each other, the first at the start, the last at the
/// end. Each piece is looked for once, so that no pattern makes it slow.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    let inner = text.strip_prefix(first);
    let Some(mut inner) = inner.and_then(|inner| inner.strip_suffix(last)) else {
        return false;
    };
    for piece in middle.split('*') {
        match inner.find(piece) {
            Some(at) => inner = &inner[at + piece.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(entitlements: &str, allowed: &[&str], refused: &[&str]) {
        let read: Entitlements = entitlements.parse().expect("entitlements");
        assert_eq!(read.to_string(), entitlements);
        for (ids, expected) in [(allowed, true), (refused, false)] {
            for id in ids {
                let (provider, model) = id.split_once('/').expect("an id");
                assert_eq!(
                    read.allow(provider, model),
                    expected,
                    "{entitlements}: {id}"
                );
            }
        }
    }

    #[test]
    fn a_pattern_fits_whole_ids() {
        check("all", &["bfl/flux-2"], &[]);
        check("none", &[], &["bfl/flux-2"]);
        check(
            "bfl/flux-2",
            &["bfl/flux-2"],
            &["bfl/flux-2-pro", "bfl2/flux-2"],
        );
        check("bfl/*", &["bfl/flux-2"], &["bfl-eu/flux-2"]);
        check(
            "*/flux-*",
            &["bfl/flux-2", "fal/flux-"],
            &["fal/flux", "fal/a-flux-2"],
        );
        check("fal/*a*b*", &["fal/ab", "fal/xaybz"], &["fal/ba", "fal/a"]);
        check("fal/ab*ba", &["fal/abba"], &["fal/aba"]);
        check("bfl/*,fal/x", &["bfl/y", "fal/x"], &["fal/y"]);
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        let many = ["a/b"; 257].join(",");
        for bad in [
            "", "bfl", "bfl/", "/x", "BFL/x", "a/b/c", "a/b,", "a/ b", &many,
        ] {
            assert_eq!(
                bad.parse::<Entitlements>(),
                Err(InvalidEntitlements),
                "{bad}"
            );
        }
    }
}
