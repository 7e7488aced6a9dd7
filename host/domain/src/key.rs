//! The two kinds of key that Berth itself issues, and how to tell them from a model provider's.

use crate::Secret;

/// Project API keys begin with this. An installation's README tells people to put such a key into `OPENAI_API_KEY`, so a client that is
/// asked for a *model* key can refuse it by sight.
pub const API_KEY_PREFIX: &str = "berth_sk_";

/// Core keys begin with this (OPS-004).
pub const CORE_KEY_PREFIX: &str = "oac_admin_";

/// Characters of a Project API key that are stored and shown to tell keys apart: the prefix and eight more.
pub const SHOWN_PREFIX: usize = API_KEY_PREFIX.len() + 8;

/// A new Project API key out of 32 random bytes.
pub fn api_key(random: [u8; 32]) -> Secret {
    spell(API_KEY_PREFIX, random)
}

/// A new Core key out of 32 random bytes: the prefix and 64 lower-case hexadecimal digits (OPS-004).
pub fn core_key(random: [u8; 32]) -> Secret {
    spell(CORE_KEY_PREFIX, random)
}

/// Whether the text is a key of Berth's own, which no model provider may ever see.
pub fn is_ours(text: &str) -> bool {
    let text = text.trim();
    text.starts_with(API_KEY_PREFIX) || text.starts_with(CORE_KEY_PREFIX)
}

fn spell(prefix: &str, random: [u8; 32]) -> Secret {
    let mut text = String::with_capacity(prefix.len() + 64);
    text.push_str(prefix);
    for byte in random {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(digit.into(), 16).unwrap_or('0'));
        }
    }
    Secret::from(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    // OPS-004
    #[test]
    fn keys_carry_their_prefix_and_64_digits() {
        let mut random = [0; 32];
        random[0] = 0xab;
        let key = core_key(random);
        let text = key.as_str().unwrap();
        assert_eq!(text.len(), CORE_KEY_PREFIX.len() + 64);
        assert!(text.starts_with("oac_admin_ab00"));
        assert!(is_ours(text));
        assert!(is_ours(api_key([255; 32]).as_str().unwrap()));
    }

    #[test]
    fn a_provider_key_is_not_ours() {
        for text in ["sk-proj-123", "", "berth", "xoac_admin_"] {
            assert!(!is_ours(text));
        }
    }
}
