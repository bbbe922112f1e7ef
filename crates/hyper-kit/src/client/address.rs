//! Which addresses are on the public internet.
//!
//! A list of what is refused would have to know every way of writing an IPv4 address inside an IPv6 one. For IPv6 it is
//! therefore the other way round: only the block that is handed out to networks passes, less its special parts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Network and length of prefix, after the special-purpose registry of IANA, with two of our own.
const NOT_PUBLIC_V4: &[(Ipv4Addr, u32)] = &[
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    // Azure answers machines about themselves from this one, which looks public.
    (Ipv4Addr::new(168, 63, 129, 16), 32),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    // Relays of 6to4, given up in 2015.
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    // Multicast, and from 240 on what is reserved, broadcast included.
    (Ipv4Addr::new(224, 0, 0, 0), 3),
];

/// Global unicast: whatever lies outside is loopback, link-local, unique-local, multicast, mapped, translated or unused.
const GLOBAL_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

const NOT_PUBLIC_V6: &[(Ipv6Addr, u32)] = &[
    // Protocol assignments: Teredo, benchmarking, ORCHID and others that no web server has.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    // 6to4.
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    // The trial network of old, handed back.
    (Ipv6Addr::new(0x3ffe, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// Whether `address` is one that anybody on the internet could ask.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !NOT_PUBLIC_V4.iter().any(|&block| in_v4(v4, block)),
        IpAddr::V6(v6) => {
            in_v6(v6, GLOBAL_V6) && !NOT_PUBLIC_V6.iter().any(|&block| in_v6(v6, block))
        }
    }
}

fn in_v4(address: Ipv4Addr, (network, prefix): (Ipv4Addr, u32)) -> bool {
    (address.to_bits() ^ network.to_bits()) >> (u32::BITS - prefix) == 0
}

fn in_v6(address: Ipv6Addr, (network, prefix): (Ipv6Addr, u32)) -> bool {
    (address.to_bits() ^ network.to_bits()) >> (u128::BITS - prefix) == 0
}

#[cfg(test)]
mod tests;
