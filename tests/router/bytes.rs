//! Bodies survive to the byte, both ways.

use it::Request;
use it::partners::Partner;

use super::*;

/// How many bodies are sent; the whole campaign is 100,000.
fn bodies() -> u32 {
    let wanted = std::env::var("EASEL_BODIES").ok();
    wanted.and_then(|text| text.parse().ok()).unwrap_or(2_000)
}

/// A walk that is the same every time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

const SPACES: &[&str] = &["", "", " ", "\n", "\t", "\r\n  "];
const SCALARS: &[&str] = &[
    "1",
    "1.0",
    "1.00",
    "-0",
    "-0.0",
    "1e2",
    "1E+2",
    "123456789012345678901234567890",
    "0.1e-30",
    "true",
    "false",
    "null",
    "\"\"",
    "\"\\u00e9\\/\"",
    "\"é\"",
    "\"\\ud83d\\ude00\"",
    "\"\\\"\"",
    "\"a\\tb\"",
];
const NAMES: &[&str] = &[
    "\"a\"",
    "\"b\"",
    "\"\\u0061\"",
    "\"\"",
    "\"é\"",
    "\"prompt2\"",
];

/// Any JSON, written as oddly as JSON may be.
fn value(random: &mut Random, depth: usize, text: &mut String) {
    text.push_str(random.pick(SPACES));
    match random.below(if depth == 0 { 3 } else { 5 }) {
        3 => {
            text.push('[');
            for n in 0..random.below(4) {
                if n > 0 {
                    text.push(',');
                }
                value(random, depth - 1, text);
            }
            text.push(']');
        }
        4 => {
            text.push('{');
            for n in 0..random.below(4) {
                if n > 0 {
                    text.push(',');
                }
                // Keys may repeat.
                text.push_str(random.pick(SPACES));
                text.push_str(random.pick(NAMES));
                text.push_str(random.pick(SPACES));
                text.push(':');
                value(random, depth - 1, text);
            }
            text.push('}');
        }
        _ => text.push_str(random.pick(SCALARS)),
    }
    text.push_str(random.pick(SPACES));
}

#[tokio::test]
async fn random_bodies_are_identical_both_ways() {
    let rig = Rig::start().await;
    rig.partners.echo(Partner::FalSync);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut connection = it::Connection::open(rig.server().address).await.unwrap();
    for n in 0..bodies() {
        let mut body = String::from("{");
        for _ in 0..random.below(4) {
            body.push_str(random.pick(NAMES));
            body.push(':');
            value(&mut random, 3, &mut body);
            body.push(',');
        }
        body.push_str(random.pick(SPACES));
        body.push_str("\"prompt\":\"a\"}");
        body.push_str(random.pick(SPACES));
        let request = Request::new("POST", &path_of(AT_ONCE))
            .header("Content-Type", "application/json")
            .body(body.clone());
        let bytes = of("acme", request).bytes(rig.server().address);
        connection.write(&bytes).await.unwrap();
        let answer = connection.answer(false).await.unwrap();
        assert_eq!(answer.status, 200, "{n}: {body}: {}", answer.text());
        assert_eq!(answer.text(), body, "{n}");
        // The partner remembers every byte, and goes through all of it for every call.
        rig.partners.forget();
    }
}
