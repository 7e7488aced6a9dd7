//! The gate in front of every text frame: one pass that refuses what typed decoding alone would let through (RP-4.2).

use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::limits::DEPTH;

/// Why a text is no frame at all. Shows nothing of its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Not JSON, or not one value.
    #[error("not one JSON value")]
    Syntax,
    /// A key twice in one object.
    #[error("a duplicate key")]
    DuplicateKey,
    /// Nothing in the catalogue is ever null; absent members are left out.
    #[error("a null")]
    Null,
    /// Deeper than any frame.
    #[error("nested too deeply")]
    Depth,
}

/// Checks syntax, duplicate keys, nulls and depth of a whole text.
pub fn check(text: &str) -> Result<(), Malformed> {
    let reason = Cell::new(Malformed::Syntax);
    let mut deserializer = serde_json::Deserializer::from_str(text);
    Value {
        depth: 0,
        reason: &reason,
    }
    .deserialize(&mut deserializer)
    .map_err(|_| reason.get())?;
    deserializer.end().map_err(|_| Malformed::Syntax)
}

#[derive(Clone, Copy)]
struct Value<'a> {
    depth: usize,
    reason: &'a Cell<Malformed>,
}

impl<'a> Value<'a> {
    fn refuse<E: Error>(self, reason: Malformed) -> E {
        self.reason.set(reason);
        E::custom("refused")
    }

    fn deeper<E: Error>(self) -> Result<Value<'a>, E> {
        if self.depth == DEPTH {
            return Err(self.refuse(Malformed::Depth));
        }
        Ok(Value {
            depth: self.depth + 1,
            ..self
        })
    }
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value without null")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Err(self.refuse(Malformed::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let inner = self.deeper()?;
        while list.next_element_seed(inner)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        let inner = self.deeper()?;
        let mut seen = HashSet::new();
        while let Some(Key(key)) = object.next_key()? {
            if !seen.insert(key) {
                return Err(self.refuse(Malformed::DuplicateKey));
            }
            object.next_value_seed(inner)?;
        }
        Ok(())
    }
}

/// A key, borrowed where it has no escapes.
#[derive(PartialEq, Eq, Hash)]
struct Key<'de>(std::borrow::Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }
            fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(key.into()))
            }
            fn visit_str<E>(self, key: &str) -> Result<Key<'de>, E> {
                Ok(Key(key.to_owned().into()))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_is_found_at_any_depth() {
        // RP-4.2
        for (text, expected) in [
            (r#"{"a":{"b":[1,2,{"c":"x"}]},"d":true,"e":1.5}"#, Ok(())),
            (r#"{"a":1,"a":2}"#, Err(Malformed::DuplicateKey)),
            (
                r#"{"a":[{"b":1,"\u0062":2}]}"#,
                Err(Malformed::DuplicateKey),
            ),
            (r#"{"a":[{"b":null}]}"#, Err(Malformed::Null)),
            (r#"{"a":1"#, Err(Malformed::Syntax)),
            (r#"{"a":1} {}"#, Err(Malformed::Syntax)),
            ("", Err(Malformed::Syntax)),
        ] {
            assert_eq!(check(text), expected, "{text}");
        }
        let deep = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
        assert_eq!(check(&deep(DEPTH)), Ok(()));
        assert_eq!(check(&deep(DEPTH + 1)), Err(Malformed::Depth));
    }
}
