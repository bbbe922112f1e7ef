//! What is forwarded is not touched, and what is not part of it ends here.

use std::io::Write as _;

use it::partners::{Fault, Partner, Step};
use router_core::{Failure, Ran, Refusal, Submitted};

use super::{Bench, folder_of_acme};

const SYNC: &str = "fal-sync/flux-dev";

/// Documents that come out otherwise of any reader.
const ODDITIES: &[&str] = &[
    r#"{"b":1,"a":2}"#,
    r#"{"a":1,"a":2}"#,
    r#"{"a":1.0,"b":1,"c":1e0,"d":-0,"e":-0.0}"#,
    r#"{"a":123456789012345678901234567890}"#,
    r#"{"a":0.1000000000000000055511151231257827}"#,
    r#"{"a":"\u0041\u00e9\/\ud83d\ude00"}"#,
    "{\"a\":\"é\u{1f600}\u{2028}\"}",
    "\n{\t\"a\" :\r\n1 }  ",
    r#"{"":{"":[[],{},null,true]}}"#,
    r#"{"half":"\ud800","huge":1e999}"#,
];

#[tokio::test]
async fn the_body_that_came_is_the_body_that_goes() {
    let bench = Bench::start().await;
    bench.partners.echo(Partner::FalSync);
    for body in ODDITIES {
        let done = bench.run(SYNC, body).await.unwrap();
        assert_eq!(done.answer.body, body.as_bytes());
        assert_eq!(done.answer.content_type, "application/json");
    }
    let submits = bench.partners.requests_of(Partner::FalSync, Step::Submit);
    let sent: Vec<&[u8]> = submits.iter().map(|request| &*request.body).collect();
    let expected: Vec<&[u8]> = ODDITIES.iter().map(|body| body.as_bytes()).collect();
    assert_eq!(sent, expected);
}

#[tokio::test]
async fn a_large_body_arrives_whole_and_is_told_when_it_is_written() {
    let bench = Bench::start().await;
    let body = format!(r#"{{"prompt":"{}"}}"#, "x".repeat(5_000_000));
    bench
        .partners
        .fault(Partner::FalSync, Step::Submit, Fault::Stall);
    let submission = bench.submission(SYNC, &body);
    let contact = submission.contact.clone();
    assert!(!contact.is_written());
    let watch = async {
        let seen = bench.partners.seen(Partner::FalSync, Step::Submit, 1).await;
        // The partner has the whole of it, and has not answered.
        assert_eq!(seen[0].body.len(), body.len());
        while !contact.is_written() {
            tokio::task::yield_now().await;
        }
        bench.partners.release();
    };
    let (submitted, ()) = tokio::join!(bench.provider(SYNC).submit(submission), watch);
    assert!(matches!(submitted, Ok(Submitted::Done(_))), "{submitted:?}");
    assert_eq!(contact.status(), Some(200));
}

#[tokio::test]
async fn the_media_type_of_the_partner_is_kept_and_a_missing_one_is_bytes() {
    let bench = Bench::start().await;
    for media_type in [
        "application/json; charset=UTF-8",
        "image/webp",
        "text/plain",
    ] {
        bench
            .partners
            .answer_with(Partner::FalSync, media_type, "{\"a\": 1.0}");
        let done = bench.run(SYNC, "{}").await.unwrap();
        assert_eq!(done.answer.content_type, media_type);
        assert_eq!(done.answer.body, "{\"a\": 1.0}");
    }
    let fault = Fault::Answer(200, Vec::new(), b"\xff\x00".to_vec());
    bench.partners.fault(Partner::FalSync, Step::Submit, fault);
    let done = bench.run(SYNC, "{}").await.unwrap();
    assert_eq!(done.answer.content_type, "application/octet-stream");
    assert_eq!(done.answer.body, &b"\xff\x00"[..]);
}

#[tokio::test]
async fn headers_of_the_transport_do_not_pass() {
    let bench = Bench::start().await;
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let headers = vec![
        header("content-type", "application/json"),
        header("set-cookie", "session=1; Path=/"),
        header("x-internal", "10.0.0.1"),
    ];
    let fault = Fault::Answer(200, headers, b"{}".to_vec());
    bench.partners.fault(Partner::FalSync, Step::Submit, fault);
    // An answer has a media type and bytes; there is no place for a header in it.
    let first = bench.run(SYNC, "{}").await.unwrap();
    assert_eq!(first.answer.content_type, "application/json");
    bench.run(SYNC, "{}").await.unwrap();
    let submits = bench.partners.requests_of(Partner::FalSync, Step::Submit);
    for request in submits {
        assert_eq!(request.header("cookie"), None);
        assert_eq!(request.header("accept-encoding"), Some("identity"));
        assert_eq!(request.header("user-agent"), Some("easel"));
    }
}

#[tokio::test]
async fn an_encoding_is_taken_off_and_an_unknown_one_is_not_guessed() {
    let bench = Bench::start().await;
    let encoded = |encoding: &str, body: Vec<u8>| {
        let headers = vec![
            ("content-type".to_owned(), "application/json".to_owned()),
            ("content-encoding".to_owned(), encoding.to_owned()),
        ];
        bench.partners.fault(
            Partner::FalSync,
            Step::Submit,
            Fault::Answer(200, headers, body),
        );
    };
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(b"{ \"a\":1.0 }").unwrap();
    encoded("gzip", gzip.finish().unwrap());
    let done = bench.run(SYNC, "{}").await.unwrap();
    assert_eq!(done.answer.body, "{ \"a\":1.0 }");
    encoded("br", b"{}".to_vec());
    let failure = bench.run(SYNC, "{}").await;
    assert!(matches!(
        failure,
        Err(Failure::Failed {
            ran: Ran::Perhaps,
            ..
        })
    ));
}

#[tokio::test]
async fn a_detail_array_passes_with_every_byte() {
    let bench = Bench::start().await;
    let body =
        br#"{ "detail" : [ {"loc":["body","a"],"msg":"m","type":"t","input":1.0,"input":2} ] }"#;
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    let fault = Fault::Answer(422, headers, body.to_vec());
    bench.partners.fault(Partner::FalSync, Step::Submit, fault);
    let failure = bench.run(SYNC, "{}").await;
    let Err(Failure::Refused {
        refusal: Refusal::Detail(answer),
        ..
    }) = failure
    else {
        panic!("{failure:?}");
    };
    assert_eq!(answer.body, &body[..]);
    assert_eq!(answer.content_type, "application/json");
}

/// A deterministic source of odd documents: every step follows from the seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        // The generator of Lehmer, as good as a test needs.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len() as u64) as usize]
    }

    fn document(&mut self, depth: u64) -> String {
        let space = self.pick(&["", "", " ", "\n", "\t ", "\r\n"]).to_owned();
        let value = match self.roll(if depth == 0 { 3 } else { 5 }) {
            0 => self
                .pick(&[
                    "0",
                    "-0",
                    "1.0",
                    "1e5",
                    "1E-5",
                    "123456789012345678901234567890",
                    "0.10",
                    "1e999",
                ])
                .to_owned(),
            1 => self
                .pick(&["null", "true", "false", "[]", "{}", "[ ]"])
                .to_owned(),
            2 => format!(
                "\"{}\"",
                self.pick(&[
                    "",
                    "a",
                    "\\u0061",
                    "\\/",
                    "é",
                    "\\ud83d\\ude00",
                    "\\ud800",
                    "\\n\\\""
                ])
            ),
            3 => {
                let items: Vec<String> = (0..self.roll(4))
                    .map(|_| self.document(depth - 1))
                    .collect();
                format!("[{}]", items.join(","))
            }
            _ => {
                let members: Vec<String> = (0..self.roll(4))
                    .map(|_| {
                        let name = self.pick(&["a", "a", "b", "", "\\u0061", "é"]);
                        format!("\"{name}\":{}", self.document(depth - 1))
                    })
                    .collect();
                format!("{{{}}}", members.join(","))
            }
        };
        format!("{space}{value}{space}")
    }
}

#[tokio::test]
async fn random_documents_come_back_byte_for_byte() {
    let bench = Bench::start().await;
    bench.partners.echo(Partner::FalSync);
    let mut dice = Dice(2026);
    for number in 0..1_000 {
        let body = format!("{{\"n\":{number},\"v\":{}}}", dice.document(4));
        let done = bench.run(SYNC, &body).await.unwrap();
        assert_eq!(done.answer.body, body.as_bytes());
        let seen = bench.partners.requests_of(Partner::FalSync, Step::Submit);
        assert_eq!(seen.last().unwrap().body, body.as_bytes());
        bench.partners.forget();
    }
}

#[tokio::test]
async fn a_submission_goes_by_put_where_the_partner_wants_it_so() {
    let host = Partner::FalSync.host();
    let partner = format!(
        "name = \"A\"\nbase_url = \"https://{host}\"\n[auth]\nkind = \"none\"\n\
         [call.x]\nstyle = \"sync\"\nsubmit = {{ path = \"/x\", method = \"PUT\" }}\n"
    );
    let (_folder, source, _) = folder_of_acme(&partner);
    let bench = Bench::over(&source).await;
    // Who stands for the partner knows no such call, so what counts is what it saw.
    bench.submit("acme/one", ODDITIES[0]).await.unwrap_err();
    let seen = bench.partners.requests();
    let [put] = seen.as_slice() else {
        panic!("{seen:?}")
    };
    assert_eq!((&*put.method, &*put.target), ("PUT", "/x"));
    assert_eq!(put.body, ODDITIES[0].as_bytes());
}
