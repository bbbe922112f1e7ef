//! The text that a run leaves: its newest lines.

/// Most bytes of text that a run may leave; earlier lines make room for later ones.
const LOG_BYTES: usize = 64 * 1024;

#[derive(Debug, Default)]
pub(super) struct RunLog {
    pub(super) text: String,
    /// Whether earlier lines were dropped.
    pub(super) truncated: bool,
}

impl RunLog {
    pub(super) fn write(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
        if self.text.len() > LOG_BYTES {
            let surplus = self.text.len() - LOG_BYTES / 2;
            let rest = &self.text.as_bytes()[surplus..];
            let line_end = rest.iter().position(|byte| *byte == b'\n');
            let cut = line_end.map_or(self.text.len(), |end| surplus + end + 1);
            self.text.drain(..cut);
            self.truncated = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_keeps_its_newest_lines() {
        let mut log = RunLog::default();
        for line in 0..20_000 {
            log.write(&format!("line {line} é"));
        }
        assert!(log.text.len() <= LOG_BYTES && log.truncated);
        assert!(log.text.ends_with("line 19999 é\n") && log.text.starts_with("line "));
    }
}
