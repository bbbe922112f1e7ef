//! An oracle against a server that misbehaves in every way.

use super::*;

fn oracle() -> Oracle {
    Oracle::new(None, Box::new(std::io::sink()))
}

fn job(key: &str, status: &str, outputs: &[(&str, &str)]) -> Value {
    let outputs: Vec<Value> = outputs
        .iter()
        .map(|(id, hash)| json!({"id": id, "hash": hash}))
        .collect();
    json!({"id": "job", "status": status, "outputs": outputs, "metadata": {"key": key}})
}

/// The server is asked now and shows a job.
fn look(oracle: &mut Oracle, key: &str, job: &Value) -> Result<(), Violation> {
    let asked = oracle.moment();
    oracle.job_seen(key, job, asked)
}

fn kind(judged: Result<(), Violation>) -> Option<Kind> {
    judged.err().map(|violation| violation.kind)
}

fn upload(deletion: Deletion, expires: Option<Instant>) -> Upload {
    let content = Content { seed: 1, size: 10 };
    Upload {
        asks_short: expires.is_some(),
        content,
        hash: hash_of(&content.bytes()),
        expires,
        asset: Some("asset".to_owned()),
        deletion,
    }
}

#[test]
fn a_key_has_one_job_and_a_job_one_key() {
    let mut oracle = oracle();
    oracle.submitting("a", "{}");
    oracle.submitting("b", "{}");
    for (key, job, expected) in [
        ("a", "1", None),
        ("a", "1", None),
        ("a", "2", Some(Kind::Duplicated)),
        ("b", "1", Some(Kind::Lost)),
    ] {
        let asked = oracle.moment();
        assert_eq!(kind(oracle.submitted(key, job, asked)), expected);
    }
    assert_eq!(oracle.acknowledged(), (1, 0, 0));
}

#[test]
fn a_job_bears_its_key() {
    let mut oracle = oracle();
    assert_eq!(kind(look(&mut oracle, "a", &job("a", "queued", &[]))), None);
    assert_eq!(
        kind(look(&mut oracle, "a", &job("b", "queued", &[]))),
        Some(Kind::Lost)
    );
}

#[test]
fn a_job_that_is_over_stays_as_it_was() {
    let mut oracle = oracle();
    let done = job("a", "succeeded", &[("x", "h"), ("y", "i")]);
    for seen in [&job("a", "running", &[]), &done, &done] {
        assert_eq!(kind(look(&mut oracle, "a", seen)), None);
    }
    for changed in [
        job("a", "running", &[("x", "h"), ("y", "i")]),
        job("a", "failed", &[("x", "h"), ("y", "i")]),
        job("a", "succeeded", &[("x", "h")]),
        job("a", "succeeded", &[("x", "h"), ("y", "other")]),
    ] {
        assert_eq!(
            kind(look(&mut oracle, "a", &changed)),
            Some(Kind::Shrunk),
            "{changed}"
        );
    }
}

#[test]
fn an_answer_that_was_asked_for_before_the_end_is_no_change() {
    let mut oracle = oracle();
    let asked = oracle.moment();
    assert_eq!(
        kind(look(&mut oracle, "a", &job("a", "canceled", &[]))),
        None
    );
    let early = job("a", "queued", &[]);
    assert_eq!(kind(oracle.job_seen("a", &early, asked)), None);
    assert_eq!(kind(look(&mut oracle, "a", &early)), Some(Kind::Shrunk));
}

#[test]
fn an_upload_keeps_its_asset_and_its_hash() {
    let mut oracle = oracle();
    oracle.uploading("a", upload(Deletion::NotSent, None));
    let hash = oracle.uploads["a"].hash.clone();
    let answered = |id: &str, hash: &str| json!({"id": id, "hash": hash});
    assert_eq!(kind(oracle.uploaded("a", &answered("asset", &hash))), None);
    assert_eq!(
        kind(oracle.uploaded("a", &answered("asset", "blake3:0"))),
        Some(Kind::Partial)
    );
    assert_eq!(
        kind(oracle.uploaded("a", &answered("another", &hash))),
        Some(Kind::Duplicated)
    );
}

#[test]
fn bytes_are_whole_there_and_gone_when_deleted() {
    let content = Content { seed: 1, size: 10 }.bytes();
    let soon = Some(Instant::now());
    let late = Some(Instant::now() + Duration::from_secs(60));
    let (not_sent, sent, acknowledged) =
        (Deletion::NotSent, Deletion::Sent, Deletion::Acknowledged);
    let cut = &content[..9];
    for (deletion, expires, status, body, expected) in [
        (not_sent, None, 200, &content[..], None),
        (not_sent, None, 200, cut, Some(Kind::Partial)),
        (not_sent, None, 404, &[], Some(Kind::Lost)),
        (not_sent, late, 404, &[], Some(Kind::Lost)),
        (not_sent, soon, 404, &[], None),
        (not_sent, soon, 500, &[], Some(Kind::Lost)),
        (sent, None, 404, &[], None),
        (sent, None, 200, &content[..], None),
        (sent, None, 200, cut, Some(Kind::Partial)),
        (acknowledged, None, 404, &[], None),
        (acknowledged, None, 200, &content[..], Some(Kind::Revived)),
    ] {
        let mut oracle = oracle();
        oracle.uploading("a", upload(deletion, expires));
        let judged = oracle.content_seen("a", status, body);
        assert_eq!(kind(judged), expected, "{deletion:?} {expires:?} {status}");
    }
}

#[test]
fn everything_sent_waits_for_a_check() {
    let mut oracle = oracle();
    oracle.submitting("a", "{}");
    oracle.uploading("b", upload(Deletion::NotSent, None));
    oracle.unchecked.clear();
    oracle.deletion("b", Deletion::Acknowledged);
    assert_eq!(oracle.unchecked.iter().collect::<Vec<_>>(), ["b"]);
    assert_eq!(oracle.acknowledged(), (0, 1, 1));
}

#[test]
fn a_key_has_another_job_only_where_the_first_may_be_gone() {
    for (life, violations) in [
        (None, 1),
        (Some(Duration::from_secs(60)), 1),
        (Some(Duration::ZERO), 0),
    ] {
        let mut oracle = Oracle::new(life, Box::new(std::io::sink()));
        oracle.submitting("k", "{}");
        let asked = oracle.moment();
        oracle
            .submitted("k", "one", asked)
            .expect("the first job of a key");
        assert_eq!(oracle.job_may_be_gone("k"), violations == 0);
        assert_eq!(
            usize::from(oracle.submitted("k", "two", asked).is_err()),
            violations
        );
    }
}

#[test]
fn the_next_job_of_a_key_lives_from_when_it_was_asked_for() {
    let life = Duration::from_secs(60);
    let mut oracle = Oracle::new(Some(life), Box::new(std::io::sink()));
    oracle.submitting("k", "{}");
    let long_ago = |moment: Moment, ages: u32| Moment {
        at: moment
            .at
            .checked_sub(life * ages)
            .expect("a clock that runs"),
        ..moment
    };
    let asked = oracle.moment();
    let first = oracle.submissions.get_mut("k").expect("it was sent");
    first.sent = long_ago(asked, 2).at;
    oracle.submitted("k", "one", asked).expect("its first job");
    assert!(oracle.job_may_be_gone("k"));
    // The answer to the next one took as long as that job was to live.
    oracle
        .submitted("k", "two", long_ago(asked, 1))
        .expect("its next job");
    assert!(oracle.job_may_be_gone("k"));
    oracle.submitted("k", "three", asked).expect("and one more");
    assert!(!oracle.job_may_be_gone("k"));
}

#[test]
fn the_next_job_of_a_key_may_be_from_an_attempt_without_an_answer() {
    let life = Duration::from_secs(60);
    let mut oracle = Oracle::new(Some(life), Box::new(std::io::sink()));
    oracle.submitting("k", "{}");
    let asked = oracle.moment();
    let long_ago = asked.at.checked_sub(life).expect("a clock that runs");
    oracle.submitted("k", "one", asked).expect("its first job");
    let first = oracle.submissions.get_mut("k").expect("it was sent");
    first.sent = long_ago;
    // A kill took the answer to this attempt; the next one is answered with the job that it made.
    first.sent_again = Some(long_ago);
    oracle.submitting_again("k");
    oracle.submitted("k", "two", asked).expect("its next job");
    assert!(oracle.job_may_be_gone("k"));
    // An answer ends the attempts before it.
    oracle.submitting_again("k");
    oracle.submitted("k", "three", asked).expect("and one more");
    assert!(!oracle.job_may_be_gone("k"));
}
