//! Public JSON of resources and events, from domain values (api-surface). Every nullable member is present as null: clients
//! compare with it. Nothing here decides anything.

pub(crate) mod agent;
pub(crate) mod artifact;
pub(crate) mod environment;
pub(crate) mod event;
pub(crate) mod file;
pub(crate) mod item;
pub(crate) mod session;
pub(crate) mod skill;
pub(crate) mod template;
pub(crate) mod turn;
pub(crate) mod vault;

use domain::json::Opaque;
use serde::{Serialize, Serializer};

/// A page of a list (`wire.md` 9).
#[derive(Serialize)]
pub(crate) struct List<T> {
    object: &'static str,
    data: Vec<T>,
    has_more: bool,
    first_id: Option<String>,
    last_id: Option<String>,
}

impl<T> List<T> {
    /// A page of elements, each with its id.
    pub(crate) fn new(elements: Vec<(String, T)>, has_more: bool) -> Self {
        let first_id = elements.first().map(|(id, _)| id.clone());
        let last_id = elements.last().map(|(id, _)| id.clone());
        let data = elements.into_iter().map(|(_, element)| element).collect();
        Self {
            object: "list",
            data,
            has_more,
            first_id,
            last_id,
        }
    }
}

/// The answer to a deletion.
#[derive(Serialize)]
pub(crate) struct Deleted {
    id: String,
    object: &'static str,
    deleted: bool,
}

impl Deleted {
    /// `object` is the public name, such as `agent.deleted`.
    pub(crate) fn new(id: impl ToString, object: &'static str) -> Self {
        Self {
            id: id.to_string(),
            object,
            deleted: true,
        }
    }
}

/// Text that is JSON: written as the value it is, or as a string if it is no JSON after all.
pub(crate) struct Loose<'a>(pub &'a str);

impl Serialize for Loose<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match Opaque::parse(self.0) {
            Some(value) => value.serialize(serializer),
            None => serializer.serialize_str(self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_page_has_null_ids() {
        // W-LIST-1
        let page = serde_json::to_string(&List::<u8>::new(Vec::new(), false)).unwrap();
        assert_eq!(
            page,
            r#"{"object":"list","data":[],"has_more":false,"first_id":null,"last_id":null}"#
        );
        let page = serde_json::to_string(&List::new(vec![("a".into(), 1), ("b".into(), 2)], true))
            .unwrap();
        assert_eq!(
            page,
            r#"{"object":"list","data":[1,2],"has_more":true,"first_id":"a","last_id":"b"}"#
        );
    }

    #[test]
    fn json_text_is_shown_as_its_value() {
        let shown = |text| serde_json::to_string(&Loose(text)).unwrap();
        assert_eq!(shown(r#"{"n":1.10}"#), r#"{"n":1.10}"#);
        assert_eq!(shown("not json"), r#""not json""#);
    }
}
