//! Server-sent events, read on their way: the events of a stream are the same however its bytes are cut.
//!
//! An event that is larger than [`MAX_EVENT_BYTES`] is not read, so that no stream takes more memory than that. It is passed on
//! all the same, which is not done here.

/// The most bytes of an event that is read: the last event of some partners repeats all that was said.
pub(super) const MAX_EVENT_BYTES: usize = 4 << 20;

/// The name of an event that gives none.
const UNNAMED: &str = "message";

/// What some writers put before the first line.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Finds the events in a stream of bytes.
#[derive(Debug)]
pub(super) struct EventParser {
    max_bytes: usize,
    /// The line under way.
    line: Vec<u8>,
    name: Vec<u8>,
    data: Vec<u8>,
    /// Whether the event under way has a line of data.
    has_data: bool,
    is_too_large: bool,
    is_first_line: bool,
    /// A line feed behind a carriage return belongs to the same line end.
    is_behind_return: bool,
}

impl EventParser {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            line: Vec::new(),
            name: Vec::new(),
            data: Vec::new(),
            has_data: false,
            is_too_large: false,
            is_first_line: true,
            is_behind_return: false,
        }
    }

    /// Takes bytes, and hands on the name and the data of each event that ends in them.
    pub(super) fn feed(&mut self, mut bytes: &[u8], mut found: impl FnMut(&str, &[u8])) {
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.is_behind_return) && *first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let Some(end) = end else {
                return self.add(bytes);
            };
            self.add(&bytes[..end]);
            self.is_behind_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            self.end_line(&mut found);
        }
    }

    /// The stream is over: an event without the empty line behind it counts, too.
    pub(super) fn finish(&mut self, mut found: impl FnMut(&str, &[u8])) {
        if !self.line.is_empty() {
            self.end_line(&mut found);
        }
        self.end_event(&mut found);
    }

    fn add(&mut self, bytes: &[u8]) {
        let held = self.line.len() + self.name.len() + self.data.len();
        if held + bytes.len() <= self.max_bytes {
            self.line.extend_from_slice(bytes);
        } else if !bytes.is_empty() {
            self.is_too_large = true;
            // What is left out must not look like the empty line that ends an event.
            if self.line.is_empty() {
                self.line.push(b':');
            }
        }
    }

    fn end_line(&mut self, found: &mut impl FnMut(&str, &[u8])) {
        let mut line = &self.line[..];
        if std::mem::take(&mut self.is_first_line) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        if line.is_empty() {
            self.end_event(found);
        } else {
            let colon = line.iter().position(|byte| *byte == b':');
            let (field, value) = match colon {
                Some(colon) => (&line[..colon], &line[colon + 1..]),
                None => (line, &[][..]),
            };
            let value = value.strip_prefix(b" ").unwrap_or(value);
            match field {
                b"event" => {
                    self.name.clear();
                    self.name.extend_from_slice(value);
                }
                b"data" => {
                    if self.has_data {
                        self.data.push(b'\n');
                    }
                    self.data.extend_from_slice(value);
                    self.has_data = true;
                }
                // Comments, and what concerns browsers.
                _ => {}
            }
        }
        self.line.clear();
    }

    fn end_event(&mut self, found: &mut impl FnMut(&str, &[u8])) {
        if self.has_data && !self.is_too_large {
            let name = std::str::from_utf8(&self.name).unwrap_or_default();
            let name = if name.is_empty() { UNNAMED } else { name };
            found(name, &self.data);
        }
        self.name.clear();
        self.data.clear();
        self.has_data = false;
        self.is_too_large = false;
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    type Event = (String, String);

    /// What is found in a stream that comes in these pieces; and the most bytes that were held.
    fn found(pieces: &[&[u8]], max_bytes: usize) -> (Vec<Event>, usize) {
        let mut parser = EventParser::new(max_bytes);
        let (mut events, mut most) = (Vec::new(), 0);
        let mut note = |name: &str, data: &[u8]| {
            events.push((name.to_owned(), String::from_utf8_lossy(data).into_owned()));
        };
        for piece in pieces {
            parser.feed(piece, &mut note);
            most = most.max(parser.line.len() + parser.name.len() + parser.data.len());
        }
        parser.finish(&mut note);
        (events, most)
    }

    fn whole(text: &str) -> Vec<Event> {
        found(&[text.as_bytes()], 1000).0
    }

    fn event(name: &str, data: &str) -> Event {
        (name.to_owned(), data.to_owned())
    }

    #[test]
    fn events_are_what_the_format_says() {
        let text = "\u{feff}: hello\r\nevent: a\ndata: 1\rdata:2\n\ndata\n\nevent: lost\n\nid: 7\ndata:  x\n\ndata: last";
        assert_eq!(
            whole(text),
            [
                event("a", "1\n2"),
                event("message", ""),
                event("message", " x"),
                event("message", "last"),
            ]
        );
    }

    #[test]
    fn of_two_names_the_last_counts_wherever_it_stands() {
        assert_eq!(whole("event: a\ndata: 1\nevent: b\n\n"), [event("b", "1")]);
    }

    #[test]
    fn an_event_that_is_too_large_is_left_out_alone() {
        let large = "x".repeat(40);
        let text = format!("event: a\ndata: {large}\ndata: {large}\n\nevent: b\ndata: 2\n\n");
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        let (events, most) = found(&bytes, 50);
        assert_eq!(events, [event("b", "2")]);
        assert!(most <= 52, "{most}");
    }

    /// Another reading of the format: line by line over the whole text.
    fn by_lines(text: &str) -> Vec<Event> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let mut events = Vec::new();
        let (mut name, mut data) = (String::new(), Vec::new());
        for line in text.split('\n').chain([""]) {
            if line.is_empty() {
                if !data.is_empty() {
                    let name = if name.is_empty() { "message" } else { &name };
                    events.push((name.to_owned(), data.join("\n")));
                }
                (name, data) = (String::new(), Vec::new());
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
            match field {
                "event" => name = value,
                "data" => data.push(value),
                _ => {}
            }
        }
        events
    }

    proptest! {
        #[test]
        fn events_are_the_same_however_the_bytes_are_cut(
            parts in vec(prop_oneof![
                Just("data: "), Just("data"), Just("event: "), Just("event:b"), Just(":"), Just(" "), Just("\n"),
                Just("\r"), Just("\r\n"), Just("\n\n"), Just("x"), Just("\u{e9}"), Just("\u{feff}"), Just("id: 1"),
            ], 0..60),
            cuts in vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let text = parts.concat();
            let bytes = text.as_bytes();
            let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            places.extend([0, bytes.len()]);
            places.sort_unstable();
            let pieces: Vec<&[u8]> = places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(found(&pieces, 10_000).0, by_lines(&text));
        }

        #[test]
        fn what_is_held_is_bounded_whatever_comes(
            pieces in vec(vec(prop_oneof![Just(b'd'), Just(b'\n'), Just(b'\r'), Just(b':'), any::<u8>()], 0..40), 0..40),
        ) {
            let pieces: Vec<&[u8]> = pieces.iter().map(|piece| &piece[..]).collect();
            let (_, most) = found(&pieces, 64);
            // A line of data gets a line feed before it.
            prop_assert!(most <= 66, "{}", most);
        }
    }
}
