//! Kinds of values: how each is written, and how `config show` writes it back.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use accounts::RateWindow;
use hyper_kit::{BaseUrl, Host, HostNames, Origin, PeerSet};
use secrecy::{ExposeSecret, SecretString};

/// Something that a key can hold.
pub trait Value: Sized {
    /// What may be written, for the message that refuses something else.
    const ALLOWED: &'static str;

    /// Reads what was written; `None` when it is not allowed.
    fn read(text: &str) -> Option<Self>;

    /// The value as TOML.
    fn show(&self) -> String;
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

/// A number of bytes; `auto` leaves it to the part that needs it, and `0` is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoSize {
    /// `auto`.
    Auto,
    /// This many.
    Bytes(u64),
}

/// A number of bytes, or `none` for no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeBound(pub Option<u64>);

/// Rate windows such as `60/1m`, or `none`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateWindows(pub Arc<[RateWindow]>);

/// A time span of at least `MIN_MS` milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duration<const MIN_MS: u64>(pub std::time::Duration);

/// A whole number from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count(pub u32);

/// A number of threads or the like, 1 to 1,024; `auto` is `PER_CORE` for each processor core that this process may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auto<const PER_CORE: usize>(pub u32);

/// Addresses and networks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peers {
    /// What they contain.
    pub set: PeerSet,
    /// As they were written.
    written: Vec<String>,
}

const SIZE_UNITS: &[(&str, u64)] = &[
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

const DURATION_UNITS: &[(&str, u64)] = &[
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("ms", 1),
    ("m", 60_000),
    ("s", 1_000),
];

/// The longest time span, ten years: it can be added to any time without passing the end of the calendar.
const LONGEST_MS: u64 = 3_650 * 86_400_000;

impl Value for Size {
    const ALLOWED: &'static str = "a whole number with a unit, such as 512KiB, 16MiB or 1GiB";

    fn read(text: &str) -> Option<Self> {
        quantity(text, SIZE_UNITS)
            .filter(|bytes| *bytes > 0)
            .map(Self)
    }

    fn show(&self) -> String {
        quoted(&exact(self.0, &SIZE_UNITS[..4]).unwrap_or_else(|| format!("{}B", self.0)))
    }
}

impl Value for AutoSize {
    const ALLOWED: &'static str =
        "a whole number with a unit, such as 512MiB or 2GiB, or 0B for nothing, or auto";

    fn read(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Self::Auto),
            _ => quantity(text, SIZE_UNITS).map(Self::Bytes),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Auto => quoted("auto"),
            Self::Bytes(0) => quoted("0B"),
            Self::Bytes(bytes) => Size(*bytes).show(),
        }
    }
}

impl Value for SizeBound {
    const ALLOWED: &'static str =
        "a whole number with a unit, such as 512MiB or 2GiB, or none for no bound";

    fn read(text: &str) -> Option<Self> {
        match text {
            "none" => Some(Self(None)),
            _ => Size::read(text).map(|size| Self(Some(size.0))),
        }
    }

    fn show(&self) -> String {
        self.0
            .map_or_else(|| quoted("none"), |bytes| Size(bytes).show())
    }
}

impl Value for RateWindows {
    const ALLOWED: &'static str = "none, or at most 8 such as 60/1m or 5000/24h, separated by commas: requests, a slash, and a span in s, m, h or d";

    fn read(text: &str) -> Option<Self> {
        RateWindow::read_list(text).ok().map(Self)
    }

    fn show(&self) -> String {
        quoted(&RateWindow::write_list(&self.0))
    }
}

impl<const MIN_MS: u64> Value for Duration<MIN_MS> {
    const ALLOWED: &'static str = if MIN_MS == 0 {
        "a whole number with a unit, such as 500ms, 30s, 15m, 24h or 7d, at most 3650d"
    } else {
        "a whole number with a unit and more than 0, such as 500ms, 30s, 15m, 24h or 7d, at most 3650d"
    };

    fn read(text: &str) -> Option<Self> {
        let milliseconds = quantity(text, DURATION_UNITS)?;
        let allowed = (MIN_MS..=LONGEST_MS).contains(&milliseconds);
        allowed.then(|| Self(std::time::Duration::from_millis(milliseconds)))
    }

    fn show(&self) -> String {
        let milliseconds = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if milliseconds == 0 {
            return quoted("0s");
        }
        // Hours before days: 24h says what 1d says, and is what people write.
        let units = [("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
        quoted(&exact(milliseconds, &units).unwrap_or_else(|| format!("{milliseconds}ms")))
    }
}

impl Value for Count {
    const ALLOWED: &'static str = "a whole number from 1 to 4294967295";

    fn read(text: &str) -> Option<Self> {
        digits(text)?
            .parse()
            .ok()
            .filter(|number| *number > 0)
            .map(Self)
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

impl<const PER_CORE: usize> Value for Auto<PER_CORE> {
    const ALLOWED: &'static str =
        "a whole number from 1 to 1024, or auto, which goes by the number of processor cores";

    fn read(text: &str) -> Option<Self> {
        if text == "auto" {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            let count = cores.saturating_mul(PER_CORE);
            return Some(Self(u32::try_from(count).unwrap_or(1024).min(1024)));
        }
        Count::read(text)
            .filter(|count| count.0 <= 1024)
            .map(|count| Self(count.0))
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

impl Value for bool {
    const ALLOWED: &'static str = "true or false";

    fn read(text: &str) -> Option<Self> {
        match text {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for SocketAddr {
    const ALLOWED: &'static str = "an address and a port, such as 127.0.0.1:8189, [::1]:8189, or 0.0.0.0:8189 for every network; port 0 takes a free one";

    fn read(text: &str) -> Option<Self> {
        match text.strip_prefix("localhost:") {
            Some(port) => Some((Ipv4Addr::LOCALHOST, digits(port)?.parse().ok()?).into()),
            None => text.parse().ok(),
        }
    }

    fn show(&self) -> String {
        quoted(&self.to_string())
    }
}

impl Value for PathBuf {
    const ALLOWED: &'static str =
        "a path; a relative one counts from the directory the program was started in";

    fn read(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| std::path::absolute(text).ok())?
    }

    fn show(&self) -> String {
        quoted(&self.display().to_string())
    }
}

impl Value for String {
    const ALLOWED: &'static str = "a text that is not empty";

    fn read(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn show(&self) -> String {
        quoted(self)
    }
}

impl Value for SecretString {
    const ALLOWED: &'static str =
        "at least 16 visible ASCII characters without spaces; make one with: openssl rand -hex 32";

    fn read(text: &str) -> Option<Self> {
        let well = text.len() >= 16 && text.bytes().all(|byte| byte.is_ascii_graphic());
        well.then(|| Self::from(text))
    }

    fn show(&self) -> String {
        // As long as every other secret, whatever it is.
        debug_assert!(
            !self.expose_secret().is_empty(),
            "a secret that was read has characters"
        );
        quoted("********")
    }
}

impl Value for BaseUrl {
    const ALLOWED: &'static str =
        "an address such as https://example.com or https://example.com/path";

    fn read(text: &str) -> Option<Self> {
        Self::parse(text).ok()
    }

    fn show(&self) -> String {
        quoted(&self.to_string())
    }
}

impl Value for Vec<Origin> {
    const ALLOWED: &'static str =
        "origins separated by commas, such as https://example.com,http://localhost:5173";

    fn read(text: &str) -> Option<Self> {
        items(text).map(|item| Origin::parse(item).ok()).collect()
    }

    fn show(&self) -> String {
        array(self.iter().map(ToString::to_string))
    }
}

impl Value for Vec<Host> {
    const ALLOWED: &'static str =
        "hosts separated by commas, each for one port, such as pictures.internal,10.0.0.5:8443";

    fn read(text: &str) -> Option<Self> {
        items(text).map(Host::parse).collect()
    }

    fn show(&self) -> String {
        array(self.iter().map(ToString::to_string))
    }
}

impl Value for HostNames {
    const ALLOWED: &'static str =
        "host names without ports separated by commas, such as gpu-box,easel.example.com";

    fn read(text: &str) -> Option<Self> {
        let hosts = items(text).map(|item| Host::parse(item).filter(|host| host.port().is_none()));
        hosts.collect::<Option<Vec<_>>>().map(Self::new)
    }

    fn show(&self) -> String {
        array(self.iter().map(str::to_owned))
    }
}

impl Value for Peers {
    const ALLOWED: &'static str =
        "addresses and networks separated by commas, such as 127.0.0.1,10.0.0.0/8";

    fn read(text: &str) -> Option<Self> {
        let written = items(text).map(str::to_owned).collect();
        Some(Self {
            set: text.parse().ok()?,
            written,
        })
    }

    fn show(&self) -> String {
        array(self.written.iter().cloned())
    }
}

/// A text as TOML.
pub(super) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Texts as TOML.
pub fn array(items: impl Iterator<Item = String>) -> String {
    toml::Value::Array(items.map(toml::Value::String).collect()).to_string()
}

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
}

/// Digits alone: the parser of numbers would take a sign too.
fn digits(text: &str) -> Option<&str> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then_some(text)
}

fn quantity(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim_start();
    let (_, factor) = units
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    digits(number)?.parse::<u64>().ok()?.checked_mul(*factor)
}

/// The number in the largest unit that leaves no remainder.
fn exact(number: u64, units: &[(&str, u64)]) -> Option<String> {
    let fits = |(_, factor): &&(&str, u64)| number >= *factor && number.is_multiple_of(*factor);
    units
        .iter()
        .find(fits)
        .map(|(name, factor)| format!("{}{name}", number / factor))
}

#[cfg(test)]
mod tests;
