//! The fuzz target without a fuzzer: the same entry, fed with seeds that are changed, always in the same way.

#![expect(clippy::unwrap_used, reason = "a test that cannot get on is to stop")]

#[path = "../../../tests/fuzz/entries/changed.rs"]
#[expect(dead_code, reason = "these seeds are in no file")]
mod changed;
#[path = "../../../tests/fuzz/entries/multipart.rs"]
mod entries;

use changed::feed;
use tokio::runtime::Builder;

#[test]
fn any_form_is_read_the_same_in_pieces() {
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let seeds = [
        "\x03--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nhello\r\n--b--\r\n",
        "\x10--b\r\nContent-Disposition: form-data; name=a; filename=\"x.png\"\r\nContent-Type: image/png\r\n\r\n\0\r\n--b\r\n\
         Content-Disposition: form-data; name=\"b\"; filename*=UTF-8''%C3%A4\r\n\r\n--b-\r\n--b--",
    ];
    let seeds: Vec<_> = seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect();
    feed(&seeds, 1_000, |bytes| entries::form(bytes, &runtime));
}
