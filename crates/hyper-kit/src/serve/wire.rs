//! Watches the raw heads of HTTP/1 for what hyper repairs without a word.
//!
//! hyper drops a `Content-Length` beside a `Transfer-Encoding`, drops a repeated one, and takes a bare line feed for a line
//! end. Each is allowed, and each is how a request is smuggled past a proxy that reads it otherwise; the handler's headers
//! no longer show it. So the bytes are watched on their way to hyper. The watch decides nothing about framing: where it
//! cannot follow, it stops watching, and hyper alone judges.

use super::Refusal;

/// The longest line that is kept; hyper refuses longer heads by itself.
const LONGEST_LINE: usize = 64 * 1024;

/// Follows one connection from its first byte.
#[derive(Debug)]
pub(super) struct HeadWatch {
    state: State,
    line: Vec<u8>,
    head: Head,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Lines(Section),
    /// Bytes of a body, and what follows them.
    Skip(u64, Section),
    /// What comes cannot be followed, and will not be served.
    Blind,
}

#[derive(Debug, Clone, Copy)]
enum Section {
    Head,
    ChunkSize,
    Trailers,
}

/// What the head so far has said about its body.
#[derive(Debug, Default)]
struct Head {
    begun: bool,
    bare_line_feed: bool,
    length_lines: usize,
    /// The last length; `None` when it cannot be read.
    length: Option<u64>,
    encoded: bool,
    chunked: bool,
}

impl HeadWatch {
    pub(super) fn new() -> Self {
        Self {
            state: State::Lines(Section::Head),
            line: Vec::new(),
            head: Head::default(),
        }
    }

    /// Looks at the next bytes of the connection; says what is doubtful about a head that ends in them.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) -> Option<Refusal> {
        let mut doubt = None;
        while !bytes.is_empty() {
            match self.state {
                State::Blind => break,
                State::Skip(left, then) => {
                    let skipped = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    bytes = &bytes[skipped..];
                    self.state = skip(left - skipped as u64, then);
                }
                State::Lines(section) => {
                    let Some(end) = memchr::memchr(b'\n', bytes) else {
                        self.keep(bytes);
                        break;
                    };
                    let (ended, rest) = (&bytes[..end], &bytes[end + 1..]);
                    bytes = rest;
                    // Most lines arrive whole and are looked at where they are.
                    if self.line.is_empty() && ended.len() <= LONGEST_LINE {
                        doubt = doubt.or(self.end_line(section, ended));
                        continue;
                    }
                    self.keep(ended);
                    let line = std::mem::take(&mut self.line);
                    doubt = doubt.or(self.end_line(section, &line));
                }
            }
        }
        doubt
    }

    fn keep(&mut self, part: &[u8]) {
        if self.line.len() + part.len() > LONGEST_LINE {
            self.line = Vec::new();
            self.state = State::Blind;
        } else {
            self.line.extend_from_slice(part);
        }
    }

    fn end_line(&mut self, section: Section, raw: &[u8]) -> Option<Refusal> {
        let line = raw.strip_suffix(b"\r").unwrap_or(raw);
        match section {
            // Only a head too long to be kept ends while blind.
            _ if matches!(self.state, State::Blind) => {}
            Section::Head => {
                self.head.bare_line_feed |= line.len() == raw.len();
                if !line.is_empty() {
                    self.head.take(line);
                } else if self.head.begun {
                    let head = std::mem::take(&mut self.head);
                    self.state = head.body();
                    return head.doubt();
                }
            }
            Section::ChunkSize => {
                self.state = match chunk_size(line) {
                    Some(0) => State::Lines(Section::Trailers),
                    // The line end behind the chunk belongs to it.
                    Some(size) => skip(size.saturating_add(2), Section::ChunkSize),
                    None => State::Blind,
                }
            }
            Section::Trailers if line.is_empty() => self.state = State::Lines(Section::Head),
            Section::Trailers => {}
        }
        None
    }
}

impl Head {
    fn take(&mut self, line: &[u8]) {
        if !std::mem::replace(&mut self.begun, true) {
            return;
        }
        let colon = memchr::memchr(b':', line);
        let (name, value) = line.split_at(colon.unwrap_or(line.len()));
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if name.eq_ignore_ascii_case(b"content-length") {
            self.length_lines += 1;
            let text = std::str::from_utf8(value).ok();
            self.length = text.and_then(|text| text.parse().ok());
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.encoded = true;
            let last = value.rsplit(|&byte| byte == b',').next();
            self.chunked =
                last.is_some_and(|last| last.trim_ascii().eq_ignore_ascii_case(b"chunked"));
        }
    }

    fn doubt(&self) -> Option<Refusal> {
        if self.bare_line_feed {
            Some(Refusal::BareLineFeed)
        } else if self.encoded && self.length_lines > 0 {
            Some(Refusal::LengthAndEncoding)
        } else if self.length_lines > 1 {
            Some(Refusal::RepeatedLength)
        } else {
            None
        }
    }

    fn body(&self) -> State {
        match (self.encoded, self.chunked, self.length_lines, self.length) {
            (true, true, ..) => State::Lines(Section::ChunkSize),
            (true, false, ..) => State::Blind,
            (false, _, 0, _) => State::Lines(Section::Head),
            (false, _, _, Some(length)) => skip(length, Section::Head),
            (false, _, _, None) => State::Blind,
        }
    }
}

fn skip(bytes: u64, then: Section) -> State {
    if bytes == 0 {
        State::Lines(then)
    } else {
        State::Skip(bytes, then)
    }
}

fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|&byte| byte == b';').next()?.trim_ascii();
    let hexadecimal = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok().filter(|_| hexadecimal)?;
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests;
