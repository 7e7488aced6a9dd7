//! Metadata of Agents and Sessions: at most 16 pairs of text, returned as stored (`wire.md` 11).

use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use crate::invalid::{Invalid, Path};
use crate::json::{Field, Json, Kind};

/// Most pairs of one object.
pub const MAX_PAIRS: usize = 16;
/// Longest key, in characters.
pub const MAX_KEY: usize = 64;
/// Longest value, in characters.
pub const MAX_VALUE: usize = 512;

/// Pairs in the caller's order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metadata(Vec<(String, String)>);

impl Metadata {
    /// The pairs, in the caller's order.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Reports the first value that is no string, before anything else of a body is looked at (W-META-2).
    ///
    /// # Errors
    /// E400-14.
    pub fn check_values(body: Json<'_>) -> Result<(), Invalid> {
        let pairs = body
            .get("metadata")
            .and_then(Json::members)
            .unwrap_or_default();
        match pairs.iter().find(|(_, value)| value.kind() != Kind::String) {
            Some((key, value)) => Err(Invalid::metadata_value(key, value.kind())),
            None => Ok(()),
        }
    }

    /// Reads the member `metadata` (W-META-1): the number of pairs first, then keys and values with keys in sorted order.
    ///
    /// # Errors
    /// E400-05, E400-11 to E400-14, or E400-16 for text that cannot be stored.
    pub fn parse(json: Json<'_>, path: &Path) -> Result<Self, Invalid> {
        let Some(members) = json.members() else {
            return Err(Invalid::mistyped(path, Kind::Object, json.kind()));
        };
        let mut pairs = Vec::with_capacity(members.len());
        for (key, value) in members {
            let text = value
                .string()
                .ok_or_else(|| Invalid::metadata_value(&key, value.kind()))?;
            pairs.push((key, text));
        }
        if pairs.len() > MAX_PAIRS {
            return Err(Invalid::too_many_properties(pairs.len()));
        }
        let mut sorted: Vec<_> = pairs.iter().collect();
        sorted.sort();
        for (key, value) in sorted {
            check_pair(key, value)?;
        }
        Ok(Self(pairs))
    }

    /// Reads a nullable member `metadata`.
    ///
    /// # Errors
    /// As [`Metadata::parse`].
    pub fn field(json: Json<'_>, path: &Path) -> Result<Field<Self>, Invalid> {
        Field::read(json, |json| Self::parse(json, path))
    }
}

fn check_pair(key: &str, value: &str) -> Result<(), Invalid> {
    let length = key.chars().count();
    if length > MAX_KEY {
        return Err(Invalid::metadata_key_too_long(key, length));
    }
    let param = format!("metadata.{key}");
    let length = value.chars().count();
    if length > MAX_VALUE {
        return Err(Invalid::too_long(&param, MAX_VALUE, length));
    }
    if key.contains('\0') || value.contains('\0') {
        return Err(Invalid::unstorable(Some(param)));
    }
    Ok(())
}

impl FromIterator<(String, String)> for Metadata {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl Serialize for Metadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Metadata;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with string values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metadata, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Metadata(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Metadata, Invalid> {
        Metadata::parse(Json::new(text), &Path::root().member("metadata"))
    }

    fn object(pairs: impl Iterator<Item = (String, String)>) -> String {
        serde_json::to_string(&Metadata::from_iter(pairs)).unwrap()
    }

    #[test]
    fn keeps_the_callers_order() {
        let text = r#"{"b":"1","a":"é"}"#;
        assert_eq!(serde_json::to_string(&parse(text).unwrap()).unwrap(), text);
    }

    #[test]
    fn counts_unicode_characters_at_the_limits() {
        // W-META-1
        let fits = object((0..16).map(|n| (format!("{n:é>64}"), "é".repeat(512))));
        assert_eq!(parse(&fits).unwrap().pairs().count(), 16);
        let count = parse(&object((0..17).map(|n| (n.to_string(), "x".repeat(513))))).unwrap_err();
        assert_eq!(
            count.message,
            "Invalid 'metadata': too many properties. Expected an object with at most 16 properties, but got an object \
             with 17 properties instead."
        );
        let value = parse(&object(
            [("b".into(), "x".repeat(513)), ("c".repeat(65), "".into())].into_iter(),
        ))
        .unwrap_err();
        assert_eq!(value.param.as_deref(), Some("metadata.b"));
        assert_eq!(
            value.message,
            "Invalid 'metadata.b': string too long. Expected a string with maximum length 512, but got a string with \
             length 513 instead."
        );
    }

    #[test]
    fn reports_keys_in_sorted_order_and_repeats_long_ones() {
        let long = "a".repeat(65);
        let error = parse(&object(
            [("b".into(), "x".repeat(600)), (long.clone(), "".into())].into_iter(),
        ))
        .unwrap_err();
        assert_eq!(error.param, Some(format!("metadata.{long}")));
        assert_eq!(
            error.message,
            format!(
                "Invalid property name in 'metadata': '{long}' is too long. Expected a string with maximum length 64, but \
                 got a string with length 65 instead."
            )
        );
    }

    #[test]
    fn a_value_that_is_no_string_comes_first() {
        // W-META-2
        let error = Metadata::check_values(Json::new(r#"{"model":5,"metadata":{"k":"v","n":1}}"#))
            .unwrap_err();
        assert_eq!(
            error.message,
            "Invalid type for 'metadata.n': expected a string, but got an integer instead."
        );
        assert_eq!(error.param.as_deref(), Some("metadata.n"));
        assert!(Metadata::check_values(Json::new(r#"{"metadata":null}"#)).is_ok());
    }

    #[test]
    fn nul_cannot_be_stored() {
        // W-TEXT-1
        let error = parse(r#"{"k":"a\u0000b"}"#).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("metadata.k"));
    }
}
