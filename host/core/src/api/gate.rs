//! The gate in front of every JSON body (`wire.md` 6): content type, size, UTF-8, syntax, repeated keys, kind of the root.
//! One pass over the text; shape rules come later and read it through [`domain::json`].

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use domain::invalid::is_echoable;
use domain::json::{Json, Kind};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

mod content_type;

/// A body that makes no progress for so long is given up.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a body does not pass. The text is exact (W-BODY-1 to W-BODY-6).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GateError {
    /// W-BODY-1.
    #[error("expected request with Content-Type: application/json")]
    ContentType,
    /// W-BODY-2; status 413.
    #[error("the body is too large")]
    TooLarge {
        /// The route's limit in bytes.
        limit: usize,
    },
    /// W-BODY-3.
    #[error(
        "Invalid body: encountered a unicode decode error when parsing this JSON value. Please check the value to ensure it \
         is valid unicode."
    )]
    Unicode,
    /// W-BODY-4.
    #[error(
        "Invalid body: failed to parse JSON value. Please check the value to ensure it is valid JSON. (Common errors include \
         trailing commas, missing closing brackets, missing quotation marks, etc.)"
    )]
    Syntax,
    /// W-BODY-5, with what to say about the key.
    #[error("Invalid body: duplicate JSON key{0}. Duplicate JSON keys are not supported.")]
    Duplicate(String),
    /// W-BODY-6.
    #[error("Invalid type: expected an object, but got {0} instead.")]
    Root(Kind),
}

/// A body that passed: the text of one JSON object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JsonBody {
    text: String,
    has_nul: bool,
}

impl Default for JsonBody {
    fn default() -> Self {
        Self {
            text: "{}".to_owned(),
            has_nul: false,
        }
    }
}

impl JsonBody {
    /// The text of the object.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The object.
    pub(crate) fn json(&self) -> Json<'_> {
        Json::new(&self.text)
    }

    /// Does a string of it contain U+0000 (W-TEXT-2)?
    pub(crate) fn has_nul(&self) -> bool {
        self.has_nul
    }
}

/// Reads and checks a body of at most `limit` bytes.
pub(crate) async fn read(
    headers: &HeaderMap,
    body: Body,
    limit: usize,
) -> Result<JsonBody, GateError> {
    if !content_type::is_json(headers) {
        return Err(GateError::ContentType);
    }
    check(collect(headers, body, limit).await?)
}

/// Collects a body of at most `limit` bytes.
pub(super) async fn collect(
    headers: &HeaderMap,
    mut body: Body,
    limit: usize,
) -> Result<Vec<u8>, GateError> {
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > limit as u64) {
        return Err(GateError::TooLarge { limit });
    }
    let mut bytes = Vec::with_capacity(body.size_hint().lower().min(limit as u64) as usize);
    loop {
        // A body that stops or breaks off is no JSON value.
        let frame = tokio::time::timeout(BODY_TIMEOUT, body.frame())
            .await
            .map_err(|_| GateError::Syntax)?;
        let Some(frame) = frame else { return Ok(bytes) };
        if let Ok(data) = frame.map_err(|_| GateError::Syntax)?.into_data() {
            if bytes.len() + data.len() > limit {
                return Err(GateError::TooLarge { limit });
            }
            bytes.extend_from_slice(&data);
        }
    }
}

/// Checks the bytes of a body (W-BODY-3 to W-BODY-7).
pub(crate) fn check(bytes: Vec<u8>) -> Result<JsonBody, GateError> {
    if bytes.is_empty() {
        return Ok(JsonBody::default());
    }
    let text = String::from_utf8(bytes).map_err(|_| GateError::Unicode)?;
    let mut findings = Findings::default();
    let short = short_numbers(&text);
    let mut deserializer = serde_json::Deserializer::from_slice(&short);
    Walk(&mut findings)
        .deserialize(&mut deserializer)
        .map_err(|_| GateError::Syntax)?;
    deserializer.end().map_err(|_| GateError::Syntax)?;
    if let Some(duplicate) = findings.duplicate {
        return Err(duplicate);
    }
    match Json::new(&text).kind() {
        Kind::Object => Ok(JsonBody {
            text,
            has_nul: findings.has_nul,
        }),
        Kind::Null => Ok(JsonBody::default()),
        kind => Err(GateError::Root(kind)),
    }
}

/// The same text with every run of digits outside strings cut to two: exactly as valid as JSON, and without a number that
/// the parser's floats cannot hold. The numbers themselves are never interpreted here (W-BODY-14).
fn short_numbers(text: &str) -> Vec<u8> {
    let mut short = Vec::with_capacity(text.len());
    let (mut in_string, mut escaped, mut digits) = (false, false, 0);
    for byte in text.bytes() {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
        } else {
            in_string = byte == b'"';
            digits = if byte.is_ascii_digit() { digits + 1 } else { 0 };
            if digits > 2 {
                continue;
            }
        }
        short.push(byte);
    }
    short
}

/// What the one pass over the text finds besides syntax errors.
#[derive(Default)]
struct Findings {
    /// Keys from the root to here; array indices are left out (W-BODY-8).
    path: Vec<String>,
    /// The first repeat in document order.
    duplicate: Option<GateError>,
    has_nul: bool,
}

impl Findings {
    fn text(&mut self, text: &str) {
        self.has_nul |= text.contains('\0');
    }

    fn repeated(&mut self, key: &str) {
        if self.duplicate.is_none() {
            let mut path = self.path.join(".");
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(key);
            let known = is_echoable(key) && is_echoable(&path);
            let what = if known {
                format!(" '{key}' at '{path}'")
            } else {
                String::new()
            };
            self.duplicate = Some(GateError::Duplicate(what));
        }
    }
}

struct Walk<'a>(&'a mut Findings);

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
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

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.0.text(text);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(Walk(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let findings = self.0;
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            findings.text(&key);
            if seen.contains(&key) {
                findings.repeated(&key);
            }
            findings.path.push(key);
            map.next_value_seed(Walk(findings))?;
            let key = findings
                .path
                .pop()
                .ok_or_else(|| A::Error::custom("unbalanced path"))?;
            seen.insert(key);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(text: impl AsRef<[u8]>) -> String {
        check(text.as_ref().to_vec())
            .expect_err("refused")
            .to_string()
    }

    #[test]
    fn malformed_bodies_have_one_text() {
        // W-BODY-3, W-BODY-4
        let syntax = "Invalid body: failed to parse JSON value. Please check the value to ensure it is valid JSON. (Common \
                      errors include trailing commas, missing closing brackets, missing quotation marks, etc.)";
        for text in [
            " ",
            "{",
            "{}{}",
            "{} x",
            "{\"a\":1,}",
            "\u{feff}{}",
            "nul",
            "{'a':1}",
            r#"{"a":"\ud800"}"#,
            r#"{"\udc00":1}"#,
        ] {
            assert_eq!(refused(text), syntax, "{text}");
        }
        assert_eq!(
            refused(b"{\"a\":\"\xff\"}"),
            "Invalid body: encountered a unicode decode error when parsing this JSON value. Please check the value to ensure \
             it is valid unicode."
        );
    }

    #[test]
    fn repeated_keys_name_the_first_in_document_order() {
        // W-BODY-5, W-BODY-8
        let repeated = |key: &str, path: &str| {
            format!(
                "Invalid body: duplicate JSON key '{key}' at '{path}'. Duplicate JSON keys are not supported."
            )
        };
        assert_eq!(
            refused(r#"{"metadata":{"k":1,"k":2},"metadata":3}"#),
            repeated("k", "metadata.k")
        );
        assert_eq!(
            refused(r#"{"tools":[{"type":1},{"type":1,"type":2}]}"#),
            repeated("type", "tools.type")
        );
        assert_eq!(refused(r#"{"a":1,"\u0061":2}"#), repeated("a", "a"));
        assert_eq!(refused(r#"[{"a":1,"a":2}]"#), repeated("a", "a"));
        check(br#"{"a":{"x":1},"b":{"x":1},"A":1}"#.to_vec()).unwrap();
        // Syntax comes first.
        assert!(refused(r#"{"a":1,"a":2"#).contains("failed to parse"));
    }

    #[test]
    fn roots() {
        // W-BODY-6, W-BODY-7
        for (text, kind) in [
            ("[]", "an array"),
            ("1", "an integer"),
            ("1.5", "a number"),
            ("\"x\"", "a string"),
            ("true", "a boolean"),
        ] {
            assert_eq!(
                refused(text),
                format!("Invalid type: expected an object, but got {kind} instead.")
            );
        }
        assert_eq!(check(Vec::new()), Ok(JsonBody::default()));
        assert_eq!(check(b"null".to_vec()), Ok(JsonBody::default()));
        assert!(check(br#"{"a":["x\u0000"]}"#.to_vec()).unwrap().has_nul());
    }

    #[test]
    fn numbers_of_any_size_pass_and_malformed_ones_do_not() {
        // W-BODY-14
        let long = "9".repeat(400);
        for number in [
            "1e400", "-1E+400", "1e-400", "0.0000", &long, "-0", "12e003", "1.5e4000",
        ] {
            let text = format!(r#"{{"a":[{number}],"0123":"\\\"01"}}"#);
            let body = check(text.clone().into_bytes()).expect(&text);
            assert_eq!(body.text(), text);
        }
        for number in [
            "01", "-01", "1.", ".5", "1e", "1e+", "+1", "0x10", "1 2", "--1", "00", "1e4.0", "NaN",
        ] {
            let text = format!(r#"{{"a":[{number}]}}"#);
            assert!(refused(&text).contains("failed to parse"), "{text}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(refused(deep).contains("failed to parse"));
    }

    proptest! {
        #[test]
        fn every_object_that_is_written_passes_unless_a_key_repeats(value in json(), again in any::<bool>()) {
            let text = serde_json::to_string(&value).unwrap();
            let body = check(text.clone().into_bytes()).unwrap();
            prop_assert_eq!(body.json().text(), text.as_str());
            if again && let Some(key) = value.as_object().and_then(|map| map.keys().next()) {
                let key = serde_json::to_string(key).unwrap();
                let text = format!("{},{key}:null}}", &text[..text.len() - 1]);
                prop_assert!(matches!(check(text.into_bytes()), Err(GateError::Duplicate(_))));
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = check(bytes);
        }
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            "[a-z\u{0}é\"\\\\]{0,4}".prop_map(Into::into),
        ];
        let value = leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                proptest::collection::hash_map("[a-c]{0,2}", inner, 0..4)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        });
        proptest::collection::hash_map("[a-c]{0,2}", value, 0..4)
            .prop_map(|map| serde_json::Value::Object(map.into_iter().collect()))
    }
}
