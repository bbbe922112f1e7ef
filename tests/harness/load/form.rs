//! Uploads as forms, whole or with the file left out for who sends it from elsewhere.

use crate::Form;

/// The request of an upload up to the first byte of the file, and what follows its last one.
#[derive(Debug)]
pub struct Upload {
    /// Head of the request, the fields, and the head of the file's part.
    pub before: Vec<u8>,
    /// The end of the form.
    pub after: Vec<u8>,
}

impl Upload {
    /// The upload of a file of `size` bytes under `path`, with further fields and whole header lines.
    #[must_use]
    pub fn new(path: &str, size: usize, fields: &[(&str, &str)], headers: &str) -> Self {
        let own = [
            ("content_type", "application/octet-stream"),
            ("file_path", path),
        ];
        let fields = own.iter().chain(fields);
        let form = fields.fold(Form::new(), |form, (name, value)| form.field(name, value));
        let (form, after) = form.around_file("file", "file");
        let length = form.len() + size + after.len();
        let head = format!(
            "POST /api/v2/assets HTTP/1.1\r\nHost: localhost\r\n\
             Content-Type: {}\r\nContent-Length: {length}\r\n{headers}\r\n",
            Form::content_type()
        );
        Self {
            before: [head.into_bytes(), form].concat(),
            after,
        }
    }

    /// The whole request with the file in its place.
    #[must_use]
    pub fn around(self, file: &[u8]) -> Vec<u8> {
        let mut request = self.before;
        request.extend_from_slice(file);
        request.extend_from_slice(&self.after);
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_counts_everything_behind_the_head() {
        let fields = [("expires_in", "60")];
        let request = Upload::new("a.bin", 3, &fields, "Idempotency-Key: k\r\n").around(b"abc");
        let text = String::from_utf8(request).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        assert!(
            head.contains(&format!("Content-Length: {}", body.len())),
            "{head}"
        );
        assert!(head.ends_with("Idempotency-Key: k"));
        assert!(body.contains("name=\"expires_in\"\r\n\r\n60\r\n"));
        let boundary = Form::content_type();
        let (_, boundary) = boundary.split_once('=').expect("a boundary");
        assert!(body.ends_with(&format!("\r\n\r\nabc\r\n--{boundary}--\r\n")));
    }
}
