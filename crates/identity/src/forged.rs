//! Texts that are nearly a credential, for the tests of everything that takes one.

const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";

/// How many forgeries are tried; the whole campaign is 1,000,000 of them.
fn count() -> u32 {
    let wanted = std::env::var("EASEL_FORGERIES").ok();
    wanted.and_then(|text| text.parse().ok()).unwrap_or(100_000)
}

/// The credential with one to three letters removed, added or changed; the same ones every time, and never itself.
pub(crate) fn forgeries(good: &str) -> impl Iterator<Item = String> {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % below as u64).expect("it is below a usize")
    };
    let forge = move |_| {
        let mut forged = good.as_bytes().to_vec();
        for _ in 0..1 + next(3) {
            let place = next(forged.len());
            match next(4) {
                0 => drop(forged.remove(place)),
                1 => forged.insert(place, ALPHABET[next(ALPHABET.len())]),
                _ => forged[place] = ALPHABET[next(ALPHABET.len())],
            }
        }
        String::from_utf8(forged).expect("ASCII")
    };
    (0..count()).map(forge).filter(move |forged| forged != good)
}
