//! Which network addresses an outbound connection may reach.
//!
//! A name is resolved first and every address of the answer is judged, so a public name that points inside is refused like
//! the literal would be. Link-local (cloud metadata), unspecified, multicast and broadcast targets are never allowed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// Whether a credential may be sent to this address: over TLS, or without leaving this machine (RP-3.3).
#[must_use]
pub fn keeps_secrets(url: &Url) -> bool {
    let loopback = match url.host() {
        Some(Host::Ipv4(a)) => a.is_loopback(),
        Some(Host::Ipv6(a)) => a.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    matches!(url.scheme(), "https" | "wss") || (matches!(url.scheme(), "http" | "ws") && loopback)
}

/// What may be reached beyond public addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRule {
    /// 127.0.0.0/8 and ::1.
    pub loopback: bool,
    /// RFC 1918, carrier-grade NAT and unique local IPv6 addresses: an operator's own network.
    pub private: bool,
}

impl AddressRule {
    /// Only addresses of the public internet.
    pub const PUBLIC: Self = Self {
        loopback: false,
        private: false,
    };
    /// Public and private networks, not this machine: the rule for model providers, which may run beside Berth.
    pub const NETWORK: Self = Self {
        loopback: false,
        private: true,
    };
    /// Also this machine: for a development model server and for Core on its own host.
    pub const ANYWHERE: Self = Self {
        loopback: true,
        private: true,
    };

    /// Whether this rule lets `address` be dialled.
    #[must_use]
    pub fn allows(self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => self.allows_v4(v4),
            // An IPv4 address in IPv6 clothing is judged as what it is.
            IpAddr::V6(v6) => match embedded_v4(v6) {
                Some(v4) => self.allows_v4(v4),
                None => self.allows_v6(v6),
            },
        }
    }

    fn allows_v4(self, a: Ipv4Addr) -> bool {
        let [first, second, ..] = a.octets();
        if a.is_loopback() {
            return self.loopback;
        }
        if a.is_private() || (first == 100 && (64..128).contains(&second)) {
            return self.private;
        }
        !(first == 0 || a.is_link_local() || first >= 224)
    }

    fn allows_v6(self, a: Ipv6Addr) -> bool {
        if a.is_loopback() {
            return self.loopback;
        }
        if a.is_unique_local() {
            return self.private;
        }
        !(a.is_unspecified() || a.is_unicast_link_local() || a.is_multicast())
    }
}

/// IPv4-mapped (`::ffff:0:0/96`) and NAT64 (`64:ff9b::/96`) forms.
fn embedded_v4(a: Ipv6Addr) -> Option<Ipv4Addr> {
    let s = a.segments();
    let v4 = || Ipv4Addr::from((u32::from(s[6]) << 16) | u32::from(s[7]));
    (a.to_ipv4_mapped().is_some() || s[..6] == [0x64, 0xff9b, 0, 0, 0, 0]).then(v4)
}

/// Judges a host that is written as an address: a resolver is never asked about those. A name is judged when it is resolved.
#[must_use]
pub fn host_refusal(host: &Host<&str>, rule: AddressRule) -> Option<IpAddr> {
    let address = match host {
        Host::Domain(_) => return None,
        Host::Ipv4(a) => IpAddr::V4(*a),
        Host::Ipv6(a) => IpAddr::V6(*a),
    };
    (!rule.allows(address)).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_and_odd_targets_are_never_allowed() {
        for text in [
            "169.254.169.254",
            "0.0.0.0",
            "0.1.2.3",
            "224.0.0.1",
            "255.255.255.255",
            "fe80::1",
            "::",
            "ff02::1",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
        ] {
            assert!(
                !AddressRule::ANYWHERE.allows(text.parse().unwrap()),
                "{text}"
            );
        }
    }

    #[test]
    fn each_class_needs_its_own_permission() {
        let at = |text: &str| -> IpAddr { text.parse().unwrap() };
        for text in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert!(!AddressRule::NETWORK.allows(at(text)), "{text}");
            assert!(AddressRule::ANYWHERE.allows(at(text)), "{text}");
        }
        for text in [
            "10.0.0.1",
            "172.16.3.4",
            "192.168.1.1",
            "100.64.0.1",
            "fd00::1",
            "::ffff:10.0.0.1",
        ] {
            assert!(!AddressRule::PUBLIC.allows(at(text)), "{text}");
            assert!(AddressRule::NETWORK.allows(at(text)), "{text}");
        }
        for text in ["1.1.1.1", "100.63.0.1", "100.128.0.1", "2606:4700::1111"] {
            assert!(AddressRule::PUBLIC.allows(at(text)), "{text}");
        }
    }
}
