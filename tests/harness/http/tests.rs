//! How answers are read, and requests spelled.

use super::*;
use tokio::net::TcpListener;

/// What a client makes of `bytes` that a server sends in pieces of `piece` bytes.
async fn heard(bytes: &'static [u8], piece: usize) -> io::Result<Vec<(u16, String)>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("the client connects");
        for piece in bytes.chunks(piece) {
            stream.write_all(piece).await.expect("the client reads");
        }
    });
    let mut connection = Connection::open(address).await?;
    let mut answers = Vec::new();
    for _ in 0..2 {
        let answer = connection.answer(false).await?;
        answers.push((answer.status, answer.text()));
    }
    server.await.expect("the server wrote everything");
    Ok(answers)
}

#[tokio::test]
async fn answers_follow_each_other_however_they_are_cut() {
    let bytes = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nab\
                  HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n";
    let expected = [(201, "ab".to_owned()), (200, "abc0123456789".to_owned())];
    for piece in [1, 7, 1000] {
        assert_eq!(heard(bytes, piece).await.expect("two answers"), expected);
    }
}

#[test]
fn a_frame_says_how_long_it_is_in_one_of_three_ways() {
    assert_eq!(frame_lengths(&[0x81]), None);
    assert_eq!(frame_lengths(&[0x81, 5]), Some((2, 5)));
    assert_eq!(frame_lengths(&[0x81, 126, 1]), None);
    assert_eq!(frame_lengths(&[0x81, 126, 1, 2]), Some((4, 258)));
    let long = [0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0];
    assert_eq!(frame_lengths(&long), Some((10, 65_536)));
}

#[tokio::test]
async fn an_answer_that_is_cut_short_is_an_error() {
    let short = heard(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab", 100).await;
    assert!(short.is_err());
}

#[test]
fn requests_are_spelled_out() {
    let text = String::from_utf8(post_json("/a", "Idempotency-Key: k\r\n", "{}"));
    assert_eq!(
        text.expect("text"),
        "POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\
         Idempotency-Key: k\r\n\r\n{}"
    );
}
