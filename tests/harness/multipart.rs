//! Bodies of forms.

/// A form with fields and files, in any order.
#[derive(Clone, Debug, Default)]
pub struct Form {
    body: Vec<u8>,
}

/// What separates the parts.
const BOUNDARY: &str = "----form-of-a-test";

impl Form {
    /// An empty form.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a field.
    #[must_use]
    pub fn field(mut self, name: &str, value: &str) -> Self {
        let part = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
        );
        self.body.extend_from_slice(part.as_bytes());
        self
    }

    /// Adds a file.
    #[must_use]
    pub fn file(self, name: &str, file_name: &str, content: &[u8]) -> Self {
        let mut form = self.file_head(name, file_name);
        form.body.extend_from_slice(content);
        form.body.extend_from_slice(b"\r\n");
        form
    }

    /// The form up to the first byte of a file, and what follows its last one: for a file that is sent from elsewhere.
    #[must_use]
    pub fn around_file(self, name: &str, file_name: &str) -> (Vec<u8>, Vec<u8>) {
        let after = format!("\r\n--{BOUNDARY}--\r\n").into_bytes();
        (self.file_head(name, file_name).body, after)
    }

    fn file_head(mut self, name: &str, file_name: &str) -> Self {
        let head = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"{file_name}\"\r\n\
             Content-Type: application/octet-stream\r\n\r\n"
        );
        self.body.extend_from_slice(head.as_bytes());
        self
    }

    /// The body, closed.
    #[must_use]
    pub fn body(mut self) -> Vec<u8> {
        self.body
            .extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
        self.body
    }

    /// The header that goes with it.
    #[must_use]
    pub fn content_type() -> String {
        format!("multipart/form-data; boundary={BOUNDARY}")
    }
}
