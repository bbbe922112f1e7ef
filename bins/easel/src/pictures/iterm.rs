//! The inline pictures of iTerm2, WezTerm and mintty.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// A file for the terminal.
pub(super) fn encode(file: &[u8]) -> String {
    format!(
        "\u{1b}]1337;File=inline=1;size={};preserveAspectRatio=1:{}\u{7}",
        file.len(),
        STANDARD.encode(file)
    )
}
