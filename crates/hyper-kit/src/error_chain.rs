//! An error with its causes, as a log shows it.

/// An error and all that caused it, on one line: not every format of the log follows causes.
#[must_use]
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let texts: Vec<String> = causes.map(ToString::to_string).collect();
    texts.join(": ")
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the file cannot be read")]
    struct Unreadable(#[source] io::Error);

    #[test]
    fn every_cause_follows_its_error() {
        let error = Unreadable(io::Error::other("no room"));
        assert_eq!(error_chain(&error), "the file cannot be read: no room");
        assert_eq!(error_chain(&error.0), "no room");
    }
}
