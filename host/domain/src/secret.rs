//! Values that must never be printed, logged, stored in clear or compared in variable time.

use std::fmt;

use zeroize::Zeroize;

/// A secret value. `Debug` hides it, there is no `Display` and no serde; its memory is cleared on drop.
///
/// Bytes, because provider keys and tokens need not be UTF-8 on every path; [`Secret::as_str`] serves the text ones.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Takes the bytes over.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The value, at the point of use.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// The value as text, if it is UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Has no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl PartialEq for Secret {
    /// Takes the same time wherever two values of one length differ.
    fn eq(&self, other: &Self) -> bool {
        let differ = self
            .0
            .iter()
            .zip(&other.0)
            .fold(0, |differ, (a, b)| differ | (a ^ b));
        self.0.len() == other.0.len() && std::hint::black_box(differ) == 0
    }
}

impl Eq for Secret {}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text.into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing_of_the_value() {
        assert_eq!(
            format!("{:?}", Secret::from("sk-canary".to_owned())),
            "Secret(…)"
        );
    }

    #[test]
    fn equality_is_of_the_whole_value() {
        assert_eq!(Secret::new("abc"), Secret::new("abc"));
        assert_ne!(Secret::new("abc"), Secret::new("abd"));
        assert_ne!(Secret::new("abc"), Secret::new("ab"));
    }
}
