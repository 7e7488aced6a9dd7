//! Reading the JSON of a foreign program: a missing or mistyped member is `None`, never a panic and never a guess.

use serde_json::Value;

/// The string at a member.
#[must_use]
pub fn string<'a>(value: &'a Value, member: &str) -> Option<&'a str> {
    value.get(member)?.as_str()
}

/// The string at a path of members.
#[must_use]
pub fn string_at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a str> {
    path.iter()
        .try_fold(value, |value, member| value.get(member))?
        .as_str()
}

/// The unsigned counter at a member, if it fits.
#[must_use]
pub fn counter(value: &Value, member: &str) -> Option<u32> {
    value.get(member)?.as_u64()?.try_into().ok()
}

/// The signed number at a member, if it fits.
#[must_use]
pub fn signed(value: &Value, member: &str) -> Option<i32> {
    value.get(member)?.as_i64()?.try_into().ok()
}

/// The elements of the list at a member; empty if there is none.
#[must_use]
pub fn list<'a>(value: &'a Value, member: &str) -> &'a [Value] {
    value
        .get(member)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// At most `limit` bytes of `text`, cut at a character boundary.
#[must_use]
pub fn bounded(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mistyped_member_is_absent() {
        let value = json!({"a": {"b": "c"}, "n": 5_000_000_000_u64, "s": -1, "l": [1]});
        assert_eq!(string_at(&value, &["a", "b"]), Some("c"));
        assert_eq!(string(&value, "a"), None);
        assert_eq!(counter(&value, "n"), None);
        assert_eq!(signed(&value, "s"), Some(-1));
        assert_eq!(list(&value, "a"), &[] as &[Value]);
        assert_eq!(list(&value, "l").len(), 1);
    }

    #[test]
    fn a_cut_keeps_characters_whole() {
        assert_eq!(bounded("aé", 2), "a");
        assert_eq!(bounded("aé", 9), "aé");
    }
}
