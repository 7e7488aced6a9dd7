//! A view of JSON text that passed the body gate: reads one level at a time, in document order, and keeps the caller's
//! bytes.
//!
//! Shape rules walk only the members they know; schemas, arguments and other opaque members are never taken apart, so their
//! numbers survive byte for byte (W-BODY-14).

use std::fmt;

use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::invalid::{Invalid, Path};

/// The words for JSON kinds in messages (W-BODY-11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of JSON")]
pub enum Kind {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Null => "null",
            Kind::Boolean => "a boolean",
            Kind::Integer => "an integer",
            Kind::Number => "a number",
            Kind::String => "a string",
            Kind::Array => "an array",
            Kind::Object => "an object",
        })
    }
}

/// Expected kind of a free-form map (S-AG-5).
pub const FREE_FORM: &str = "an object with string keys and unknown value values";

/// One JSON value, unparsed.
#[derive(Clone, Copy)]
pub struct Json<'a> {
    text: &'a str,
}

impl<'a> Json<'a> {
    /// Takes text that is one valid JSON value (the gate has checked it).
    pub fn new(text: &'a str) -> Self {
        Self {
            text: text.trim_matches([' ', '\t', '\r', '\n']),
        }
    }

    /// The caller's own bytes of this value.
    pub fn text(self) -> &'a str {
        self.text
    }

    /// What it is, by its first byte.
    pub fn kind(self) -> Kind {
        match self.text.as_bytes().first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b't' | b'f') => Kind::Boolean,
            Some(b'-' | b'0'..=b'9') if self.text.contains(['.', 'e', 'E']) => Kind::Number,
            Some(b'-' | b'0'..=b'9') => Kind::Integer,
            _ => Kind::Null,
        }
    }

    /// Is it the literal `null`?
    pub fn is_null(self) -> bool {
        self.kind() == Kind::Null
    }

    /// Members of an object in document order; `None` for other kinds.
    pub fn members(self) -> Option<Vec<(String, Json<'a>)>> {
        serde_json::from_str::<Level<'a>>(self.text).ok()?.members
    }

    /// Elements of an array; `None` for other kinds.
    pub fn elements(self) -> Option<Vec<Json<'a>>> {
        serde_json::from_str::<Level<'a>>(self.text).ok()?.elements
    }

    /// One member of an object.
    pub fn get(self, name: &str) -> Option<Json<'a>> {
        self.members()?
            .into_iter()
            .find_map(|(key, value)| (key == name).then_some(value))
    }

    /// The text of a string value.
    pub fn string(self) -> Option<String> {
        serde_json::from_str(self.text).ok()
    }

    /// The value as bytes to keep.
    pub fn opaque(self) -> Opaque {
        Opaque(self.text.to_owned())
    }

    fn mistyped(self, path: &Path, expected: impl fmt::Display) -> Invalid {
        Invalid::mistyped(path, expected, self.kind())
    }

    /// A string, or the type error E400-05.
    ///
    /// # Errors
    /// [`Invalid`] for any other kind, null included.
    pub fn to_text(self, path: &Path) -> Result<String, Invalid> {
        self.string()
            .ok_or_else(|| self.mistyped(path, Kind::String))
    }

    /// A boolean, or the type error E400-05.
    ///
    /// # Errors
    /// [`Invalid`] for any other kind, null included.
    pub fn to_bool(self, path: &Path) -> Result<bool, Invalid> {
        match self.text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(self.mistyped(path, Kind::Boolean)),
        }
    }

    /// A whole number of at least `minimum`, or E400-05 or E400-07. Values beyond `i64` count as its ends.
    ///
    /// # Errors
    /// [`Invalid`] for any other kind or a smaller number.
    pub fn to_integer(self, path: &Path, minimum: i64) -> Result<i64, Invalid> {
        if self.kind() != Kind::Integer {
            return Err(self.mistyped(path, Kind::Integer));
        }
        let negative = self.text.starts_with('-');
        let value = self
            .text
            .parse()
            .unwrap_or(if negative { i64::MIN } else { i64::MAX });
        if value < minimum {
            return Err(Invalid::below_minimum(path, minimum, self.text));
        }
        Ok(value)
    }

    /// The elements of an array, or the type error E400-05.
    ///
    /// # Errors
    /// [`Invalid`] for any other kind, null included.
    pub fn to_elements(self, path: &Path) -> Result<Vec<Json<'a>>, Invalid> {
        self.elements()
            .ok_or_else(|| self.mistyped(path, Kind::Array))
    }

    /// An array of strings, or the type error E400-05 of the array or of the element.
    ///
    /// # Errors
    /// [`Invalid`] naming the array or its first element that is no string.
    pub fn to_texts(self, path: &Path) -> Result<Vec<String>, Invalid> {
        let elements = self.to_elements(path)?;
        elements
            .into_iter()
            .enumerate()
            .map(|(index, element)| element.to_text(&path.index(index)))
            .collect()
    }

    /// The bytes of an object, or the type error E400-05 with `expected`.
    ///
    /// # Errors
    /// [`Invalid`] for any other kind, null included.
    pub fn to_opaque_object(self, path: &Path, expected: &str) -> Result<Opaque, Invalid> {
        match self.kind() {
            Kind::Object => Ok(self.opaque()),
            _ => Err(self.mistyped(path, expected)),
        }
    }
}

/// An object taken apart: its members in document order, with the path of each.
pub struct Object<'a> {
    path: Path,
    members: Vec<(String, Json<'a>)>,
}

impl<'a> Object<'a> {
    /// Opens an object that may hold only `known` members (S-AG-4: unknown ones are reported before any value).
    ///
    /// # Errors
    /// E400-05 if it is no object, E400-04 for the first unknown member.
    pub fn open(json: Json<'a>, path: &Path, known: &[&str]) -> Result<Self, Invalid> {
        let object = Self::any(json, path)?;
        object.only(known)?;
        Ok(object)
    }

    /// Opens an object whose members are checked later (unions, whose `type` comes first).
    ///
    /// # Errors
    /// E400-05 if it is no object.
    pub fn any(json: Json<'a>, path: &Path) -> Result<Self, Invalid> {
        let members = json
            .members()
            .ok_or_else(|| json.mistyped(path, Kind::Object))?;
        Ok(Self {
            path: path.clone(),
            members,
        })
    }

    /// Refuses the first member that is not `known`.
    ///
    /// # Errors
    /// E400-04.
    pub fn only(&self, known: &[&str]) -> Result<(), Invalid> {
        match self
            .members
            .iter()
            .find(|(name, _)| !known.contains(&name.as_str()))
        {
            Some((name, _)) => Err(Invalid::unknown(&self.path.member(name))),
            None => Ok(()),
        }
    }

    /// A member by name.
    pub fn get(&self, name: &str) -> Option<Json<'a>> {
        self.members
            .iter()
            .find_map(|(key, value)| (key == name).then_some(*value))
    }

    /// The path of a member, present or not.
    pub fn path(&self, name: &str) -> Path {
        self.path.member(name)
    }

    /// Members in document order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Json<'a>, Path)> {
        self.members
            .iter()
            .map(|(name, value)| (name.as_str(), *value, self.path.member(name)))
    }

    /// A required member that was parsed into `value`.
    ///
    /// # Errors
    /// E400-03 if it was absent.
    pub fn required<T>(&self, value: Option<T>, name: &str) -> Result<T, Invalid> {
        value.ok_or_else(|| Invalid::missing(&self.path.member(name)))
    }

    /// The word of the member `type`, which tells the variants of a union apart.
    ///
    /// # Errors
    /// E400-03 if it is absent, E400-05, or E400-06 for a word that is not `supported`.
    pub fn kind(&self, supported: &[&str]) -> Result<String, Invalid> {
        let path = self.path("type");
        let kind = self.get("type").map(|kind| kind.to_text(&path));
        let kind = self.required(kind.transpose()?, "type")?;
        match supported.contains(&kind.as_str()) {
            true => Ok(kind),
            false => Err(Invalid::not_one_of(&path, &kind, supported)),
        }
    }

    /// Is there no member at all?
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

/// A member that may be left out, be null, or have a value (W-BODY-12).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Field<T> {
    /// Not in the request.
    #[default]
    Omitted,
    /// Explicitly null.
    Null,
    /// Given.
    Value(T),
}

impl<T> Field<T> {
    /// Reads a nullable member.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn read<'a>(
        json: Json<'a>,
        read: impl FnOnce(Json<'a>) -> Result<T, Invalid>,
    ) -> Result<Self, Invalid> {
        if json.is_null() {
            Ok(Field::Null)
        } else {
            read(json).map(Field::Value)
        }
    }

    /// The value; omitted and null alike are `None`.
    pub fn value(self) -> Option<T> {
        match self {
            Field::Value(value) => Some(value),
            Field::Omitted | Field::Null => None,
        }
    }

    /// Was the member left out?
    pub fn is_omitted(&self) -> bool {
        matches!(self, Field::Omitted)
    }

    /// A borrowed view.
    pub fn as_ref(&self) -> Field<&T> {
        match self {
            Field::Omitted => Field::Omitted,
            Field::Null => Field::Null,
            Field::Value(value) => Field::Value(value),
        }
    }
}

/// Omitted members are skipped by their owner (`skip_serializing_if`), so that the canonical form of a request tells
/// omission from null.
impl<T: Serialize> Serialize for Field<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Field::Omitted | Field::Null => serializer.serialize_none(),
            Field::Value(value) => value.serialize(serializer),
        }
    }
}

/// JSON that is kept and returned byte for byte and never interpreted.
#[derive(Clone, PartialEq, Eq)]
pub struct Opaque(String);

impl Opaque {
    /// The bytes.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A view to look inside.
    pub fn json(&self) -> Json<'_> {
        Json::new(&self.0)
    }

    /// The empty object.
    pub fn empty_object() -> Self {
        Self("{}".to_owned())
    }

    /// Keeps text if it is one valid JSON value.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str::<&RawValue>(text)
            .ok()
            .map(|raw| Self(raw.get().to_owned()))
    }
}

impl fmt::Debug for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Opaque {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Opaque {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer)
            .map(|raw| Self(Box::<str>::from(raw).into_string()))
    }
}

/// One level of a value: either its members or its elements.
#[derive(Default)]
struct Level<'a> {
    members: Option<Vec<(String, Json<'a>)>>,
    elements: Option<Vec<Json<'a>>>,
}

impl<'de> Deserialize<'de> for Level<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LevelVisitor)
    }
}

struct LevelVisitor;

impl<'de> Visitor<'de> for LevelVisitor {
    type Value = Level<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Level<'de>, A::Error> {
        let mut members = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
            members.push((name, Json::new(value.get())));
        }
        Ok(Level {
            members: Some(members),
            elements: None,
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Level<'de>, A::Error> {
        let mut elements = Vec::new();
        while let Some(value) = seq.next_element::<&'de RawValue>()? {
            elements.push(Json::new(value.get()));
        }
        Ok(Level {
            members: None,
            elements: Some(elements),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_one_level_in_document_order_and_keeps_the_bytes() {
        let json = Json::new(r#" {"b": 1e400, "a" : [1.0, 12345678901234567890123], "c":null} "#);
        let names: Vec<_> = json
            .members()
            .unwrap()
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["b", "a", "c"]);
        assert_eq!(json.get("b").unwrap().text(), "1e400");
        assert_eq!(
            json.get("a").unwrap().elements().unwrap()[1].text(),
            "12345678901234567890123"
        );
        assert!(json.get("c").unwrap().is_null());
        assert!(json.elements().is_none());
    }

    #[test]
    fn names_every_kind() {
        // W-BODY-11
        for (text, kind) in [
            ("null", "null"),
            ("true", "a boolean"),
            ("-12", "an integer"),
            ("1.0", "a number"),
            ("1e3", "a number"),
            ("\"\"", "a string"),
            ("[]", "an array"),
            ("{}", "an object"),
        ] {
            assert_eq!(Json::new(text).kind().to_string(), kind);
        }
    }

    #[test]
    fn opaque_text_survives_storage_byte_for_byte() {
        // W-BODY-14
        #[derive(Serialize, Deserialize, PartialEq, Debug)]
        struct Row {
            schema: Opaque,
        }
        let text = r#"{"schema":{"maximum": 1.10, "n":1e2,"big":12345678901234567890123}}"#;
        let row: Row = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&row).unwrap(), text);
    }
}
