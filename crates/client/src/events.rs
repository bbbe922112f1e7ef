//! Server-sent events: bytes in, events out, within a bound.

use bytes::Bytes;

use crate::error::ClientError;

/// The longest event: a preview has some 100 KiB.
const LONGEST_EVENT: usize = 16 << 20;

/// One event with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its name; `message` where the stream gives none.
    pub name: String,
    /// Its data; several data lines are joined by line feeds.
    pub data: String,
}

/// Takes a stream apart as it arrives.
#[derive(Debug, Default)]
pub struct EventReader {
    /// What has arrived since the last end of a line.
    line: Vec<u8>,
    name: String,
    data: String,
    has_data: bool,
    /// Whether the last byte was a carriage return, whose line feed may still come.
    after_return: bool,
}

impl EventReader {
    /// Takes the next bytes and returns the events that they complete.
    ///
    /// # Errors
    /// If an event is too long.
    pub fn feed(&mut self, bytes: &Bytes) -> Result<Vec<Event>, ClientError> {
        let mut events = Vec::new();
        for &byte in bytes {
            let is_second_half = byte == b'\n' && self.after_return;
            self.after_return = byte == b'\r';
            match byte {
                b'\n' if is_second_half => {}
                b'\n' | b'\r' => events.extend(self.end_of_line()),
                _ => self.line.push(byte),
            }
            if self.line.len() + self.data.len() > LONGEST_EVENT {
                return Err(ClientError::Unexpected(
                    "the stream of the job has an event that is too long; ask without a stream"
                        .to_owned(),
                ));
            }
        }
        Ok(events)
    }

    fn end_of_line(&mut self) -> Option<Event> {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        if line.is_empty() {
            let name = std::mem::take(&mut self.name);
            let data = std::mem::take(&mut self.data);
            let is_event = std::mem::take(&mut self.has_data);
            return is_event.then(|| Event {
                name: if name.is_empty() {
                    "message".to_owned()
                } else {
                    name
                },
                data,
            });
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                self.data.push_str(value);
                self.has_data = true;
            }
            // Comments, and fields that the contract does not have.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(pieces: &[&'static str]) -> Vec<(String, String)> {
        let mut reader = EventReader::default();
        let mut all = Vec::new();
        for piece in pieces {
            let bytes = Bytes::from_static(piece.as_bytes());
            all.extend(reader.feed(&bytes).expect("short"));
        }
        all.into_iter()
            .map(|event| (event.name, event.data))
            .collect()
    }

    fn pair(name: &str, data: &str) -> (String, String) {
        (name.to_owned(), data.to_owned())
    }

    #[test]
    fn an_event_may_arrive_in_pieces() {
        let stream = [
            "event: sta",
            "tus\ndata: {\"a\"",
            ":1}\n",
            "\n: heartbeat\n\n",
        ];
        assert_eq!(events(&stream), [pair("status", "{\"a\":1}")]);
    }

    #[test]
    fn every_end_of_line_and_several_data_lines_are_read() {
        let stream = ["event:a\r", "\ndata: 1\r\ndata:2\r\r\ndata\n\n"];
        assert_eq!(events(&stream), [pair("a", "1\n2"), pair("message", "")]);
    }

    #[test]
    fn an_event_without_its_end_is_none() {
        assert_eq!(events(&["event: a\ndata: 1\n"]), []);
        assert_eq!(events(&["event: a\n\n"]), []);
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut reader = EventReader::default();
        let piece = Bytes::from(vec![b'x'; 1 << 20]);
        let fed: Vec<bool> = (0..20).map(|_| reader.feed(&piece).is_ok()).collect();
        assert!(fed[0] && !fed[19]);
    }
}
