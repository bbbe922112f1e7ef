//! A set of network addresses: who is trusted to speak for others, and who is not counted.
//!
//! IPv4 addresses that arrive mapped into IPv6 are compared as IPv4, so one spelling covers both kinds of socket.

use std::net::IpAddr;
use std::str::FromStr;

/// Addresses and networks, such as `127.0.0.1, 10.0.0.0/8, fd00::/8`. The default is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeerSet(Vec<Network>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    prefix_bits: u8,
}

/// An entry that is neither an address nor a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither an address nor a network; write it like 10.0.0.7 or 10.0.0.0/8")]
pub struct PeerSetError(String);

impl PeerSet {
    /// Whether the address is one of the set.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(address))
    }
}

impl FromStr for PeerSet {
    type Err = PeerSetError;

    /// Reads addresses and networks, separated by commas or white space; an empty text is an empty set.
    fn from_str(text: &str) -> Result<Self, PeerSetError> {
        let entries = text.split(|c: char| c == ',' || c.is_whitespace());
        let networks = entries
            .filter(|entry| !entry.is_empty())
            .map(|entry| Network::parse(entry).ok_or_else(|| PeerSetError(entry.to_owned())));
        networks.collect::<Result<_, _>>().map(Self)
    }
}

impl Network {
    fn parse(entry: &str) -> Option<Self> {
        let (address, bits) = match entry.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (entry, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix_bits = match bits {
            // A sign or an empty text is no length, though `parse` takes a plus.
            Some(bits) if !bits.bytes().all(|b| b.is_ascii_digit()) => return None,
            Some(bits) => bits.parse().ok()?,
            None => most,
        };
        (prefix_bits <= most).then_some(Self {
            address,
            prefix_bits,
        })
    }

    fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                let ignored = 32 - u32::from(self.prefix_bits);
                let differing = ours.to_bits() ^ theirs.to_bits();
                differing.checked_shr(ignored).unwrap_or(0) == 0
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                let ignored = 128 - u32::from(self.prefix_bits);
                let differing = ours.to_bits() ^ theirs.to_bits();
                differing.checked_shr(ignored).unwrap_or(0) == 0
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(set: &str, address: &str) -> bool {
        let set: PeerSet = set.parse().expect("a set");
        set.contains(address.parse().expect("an address"))
    }

    #[test]
    fn networks_contain_their_addresses() {
        assert!(contains("10.0.0.0/8, 127.0.0.1", "10.255.0.1"));
        assert!(contains("10.0.0.0/8, 127.0.0.1", "127.0.0.1"));
        assert!(!contains("10.0.0.0/8 127.0.0.1", "127.0.0.2"));
        assert!(contains("fd00::/8", "fdff::1"));
        assert!(!contains("fd00::/8", "fe80::1"));
        assert!(contains("0.0.0.0/0", "203.0.113.9"));
        assert!(contains("::/0", "2001:db8::1"));
        assert!(!contains("::/0", "203.0.113.9"));
        assert!(!contains("", "127.0.0.1"));
    }

    #[test]
    fn a_mapped_address_is_its_ipv4_address() {
        assert!(contains("127.0.0.1", "::ffff:127.0.0.1"));
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in [
            "localhost",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0.0",
        ] {
            assert_eq!(text.parse::<PeerSet>(), Err(PeerSetError(text.to_owned())));
        }
    }
}
