//! What is known of the terminal, and the two streams of a program.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek, Write};

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};
use secrecy::SecretString;

use crate::failure::{Failure, Kind};

/// The longest key that is read.
const LONGEST_KEY: u64 = 64 * 1024;

/// Writes to standard output. A reader that has left is no failure: `easel jobs | head` ends well.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// As [`print`], bytes.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    written(out.write_all(bytes).and_then(|()| out.flush()))
}

/// As [`print`], a whole file.
pub(crate) fn print_file(mut file: File) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let copied = file.rewind().and_then(|()| io::copy(&mut file, &mut out));
    written(copied.and_then(|_| out.flush()))
}

fn written(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::new(
            Kind::Failed,
            format!("standard output cannot be written: {error}"),
        )),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Writes a line to standard error. Without one there is nobody to tell.
pub(crate) fn say(text: &str) {
    drop(writeln!(io::stderr().lock(), "{text}"));
}

/// Whether standard output is a terminal.
pub(crate) fn is_out() -> bool {
    io::stdout().is_terminal()
}

/// Whether standard error is a terminal.
pub(crate) fn is_err() -> bool {
    io::stderr().is_terminal()
}

/// Whether text on standard output may have colours: `NO_COLOR` and dumb terminals forbid it.
pub(crate) fn has_colors() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    is_out() && !is_set("NO_COLOR") && !is_dumb
}

/// Asks for a secret on the terminal, without showing it. `None` if there is no terminal to ask on.
pub(crate) fn ask_secret(question: &str) -> Option<io::Result<SecretString>> {
    let stdin = io::stdin();
    if !stdin.is_terminal() || !is_err() {
        return None;
    }
    Some(hidden(&stdin, question))
}

/// Reads a line byte by byte: the terminal shows nothing, and Ctrl-C comes here, so that the terminal is never left silent.
fn hidden(stdin: &io::Stdin, question: &str) -> io::Result<SecretString> {
    let before = tcgetattr(stdin)?;
    let mut silent = before.clone();
    silent
        .local_modes
        .remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
    silent.special_codes[SpecialCodeIndex::VMIN] = 1;
    silent.special_codes[SpecialCodeIndex::VTIME] = 0;
    tcsetattr(stdin, OptionalActions::Flush, &silent)?;
    draw(question);
    let read = typed(&mut stdin.lock());
    tcsetattr(stdin, OptionalActions::Flush, &before)?;
    draw("\n");
    read
}

fn typed(input: &mut impl Read) -> io::Result<SecretString> {
    const INTERRUPT: u8 = 3;
    const END: u8 = 4;
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        if input.read(&mut byte)? == 0 {
            break;
        }
        match byte[0] {
            b'\n' | b'\r' | END => break,
            INTERRUPT => return Err(io::Error::from(io::ErrorKind::Interrupted)),
            // Backspace, and what some terminals send for it.
            8 | 127 => drop(line.pop()),
            typed if line.len() < LONGEST_KEY as usize => line.push(typed),
            _ => {}
        }
    }
    let line = String::from_utf8(line)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is no text"))?;
    Ok(SecretString::from(line.trim().to_owned()))
}

/// Reads a secret from standard input.
pub(crate) fn read_secret() -> io::Result<SecretString> {
    let mut text = String::new();
    io::stdin()
        .lock()
        .take(LONGEST_KEY)
        .read_to_string(&mut text)?;
    Ok(SecretString::from(text.trim().to_owned()))
}

/// Writes to standard error what moves the cursor and draws.
pub(crate) fn draw(text: &str) {
    let mut err = io::stderr().lock();
    drop(err.write_all(text.as_bytes()).and_then(|()| err.flush()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;

    fn key(mut bytes: &[u8]) -> io::Result<String> {
        typed(&mut bytes).map(|key| key.expose_secret().to_owned())
    }

    #[test]
    fn a_typed_key_ends_with_the_line() {
        assert_eq!(key(b"ab\x7fc\rrest").expect("a key"), "ac");
        assert_eq!(key(b" pasted \n").expect("a key"), "pasted");
        assert_eq!(key(b"").expect("nothing"), "");
        let interrupted = key(b"ab\x03").expect_err("interrupted");
        assert_eq!(interrupted.kind(), io::ErrorKind::Interrupted);
    }
}
