//! Which capabilities a manifest asks for, while the component is compiled: what it does not ask for must not even be
//! imported, or the host would refuse to load it.

/// Whether the table `[permissions]` of this `plugin.toml` has an entry `name`. Only the plain form is read: the header on
/// a line of its own, one `name = "reason"` a line.
#[must_use]
pub const fn asks(manifest: &[u8], name: &str) -> bool {
    let mut inside = false;
    let mut at = 0;
    while at < manifest.len() {
        if starts(manifest, at, b"[") {
            inside = starts(manifest, at, b"[permissions]");
        } else if inside && starts(manifest, at, name.as_bytes()) {
            let after = at + name.len();
            if starts(manifest, after, b" ") || starts(manifest, after, b"=") {
                return true;
            }
        }
        while at < manifest.len() && manifest[at] != b'\n' {
            at += 1;
        }
        at += 1;
    }
    false
}

const fn starts(text: &[u8], at: usize, with: &[u8]) -> bool {
    let mut index = 0;
    while index < with.len() {
        if at + index >= text.len() || text[at + index] != with[index] {
            return false;
        }
        index += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_table_counts() {
        let manifest = b"id = \"x\"\nhttp = 1\n[permissions]\nmachine = \"m\"\nstate=\"s\"\n\n[[setting]]\nclock = 1\n";
        assert!(asks(manifest, "machine") && asks(manifest, "state"));
        assert!(!asks(manifest, "http") && !asks(manifest, "clock") && !asks(manifest, "mach"));
    }
}
