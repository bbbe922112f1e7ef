//! Where a server listens: an address of the network, a Unix socket, or the socket that systemd passes on.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::Value;
use super::value::quoted;

/// The longest path of a socket: every Unix takes 100 bytes with what is put behind it while it is made.
const MOST_PATH_BYTES: usize = 96;

/// Where a server is told to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// On an address; port 0 takes a free one.
    Tcp(SocketAddr),
    /// On a Unix socket at this path.
    Unix(PathBuf),
    /// On the one socket that systemd passes on.
    Systemd,
}

/// The permissions of a Unix socket, such as `660`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketMode(pub u32);

impl Listen {
    /// The address of the network, where it is one.
    #[must_use]
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) | Self::Systemd => None,
        }
    }
}

impl Value for Listen {
    const ALLOWED: &'static str = "an address and a port, such as 127.0.0.1:8189, [::1]:8189, or 0.0.0.0:8189 for every network (port 0 takes a free one); unix: and an absolute path of at most 96 bytes, such as unix:/run/easel/easel.sock; or systemd for the socket that it passes on";

    fn read(text: &str) -> Option<Self> {
        if text == "systemd" {
            return Some(Self::Systemd);
        }
        let Some(path) = text.strip_prefix("unix:") else {
            return SocketAddr::read(text).map(Self::Tcp);
        };
        let well = path.len() <= MOST_PATH_BYTES && !path.ends_with('/') && !path.contains('\0');
        let path = Path::new(path);
        (well && path.is_absolute()).then(|| Self::Unix(path.to_owned()))
    }

    fn show(&self) -> String {
        match self {
            Self::Tcp(address) => address.show(),
            Self::Unix(path) => quoted(&format!("unix:{}", path.display())),
            Self::Systemd => quoted("systemd"),
        }
    }
}

impl Value for SocketMode {
    const ALLOWED: &'static str =
        "three octal digits, such as 660 for the user and the group, or 600 for the user alone";

    fn read(text: &str) -> Option<Self> {
        let octal = text.len() == 3 && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
        let mode = octal.then(|| u32::from_str_radix(text, 8).ok())?;
        mode.map(Self)
    }

    fn show(&self) -> String {
        quoted(&format!("{:03o}", self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_to_listen_is_an_address_a_path_or_systemd() {
        let unix = |path: &str| Some(Listen::Unix(path.into()));
        assert_eq!(Listen::read("systemd"), Some(Listen::Systemd));
        assert_eq!(Listen::read("unix:/run/e.sock"), unix("/run/e.sock"));
        let tcp = Listen::read("localhost:0").and_then(|listen| listen.tcp());
        assert_eq!(tcp, "127.0.0.1:0".parse().ok());
        let long = format!("unix:/{}", "x".repeat(MOST_PATH_BYTES));
        for bad in ["", "unix:", "unix:e.sock", "unix:/run/", "Systemd", &long] {
            assert_eq!(Listen::read(bad), None, "{bad}");
        }
        for text in ["systemd", "unix:/run/e.sock", "127.0.0.1:1"] {
            let shown = Listen::read(text).map(|listen| listen.show());
            assert_eq!(shown, Some(format!("\"{text}\"")));
        }
    }

    #[test]
    fn a_mode_is_octal() {
        assert_eq!(SocketMode::read("660"), Some(SocketMode(0o660)));
        assert_eq!(SocketMode(0o600).show(), "\"600\"");
        for bad in ["", "66", "0660", "680", "+66", "rwx"] {
            assert_eq!(SocketMode::read(bad), None, "{bad}");
        }
    }
}
