//! What a user says: ordered messages of ordered parts, returned unchanged (`sessions.md` 10).

use crate::invalid::{Invalid, Path};
use crate::item::{InputPart, UserMessage};
use crate::json::{Json, Kind, Object};

/// Most bytes of one request's input as stored (S-EV-2, S-MSG-10).
pub const MAX_STORED_INPUT: usize = 512 * 1024;

/// Most bytes of the messages that one Run begins with, as stored: one frame carries all of them (RP-4). More than a batch may
/// have, because messages join a Turn that waits.
pub const MAX_START_INPUT: u64 = 3 * 1024 * 1024;
/// What each message takes on its way beyond its stored text: its id.
const AROUND_A_MESSAGE: u64 = 64;

/// What messages take of [`MAX_START_INPUT`].
pub fn start_bytes(messages: &[UserMessage]) -> u64 {
    messages.iter().fold(0, |sum: u64, message| {
        let stored = serde_json::to_string(message).map_or(u64::MAX, |text| text.len() as u64);
        sum.saturating_add(stored).saturating_add(AROUND_A_MESSAGE)
    })
}

impl UserMessage {
    /// A message of one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            content: vec![InputPart::InputText { text: text.into() }],
        }
    }

    /// Is it text only, and all of it whitespace (S-MSG-6)?
    pub fn is_whitespace_only(&self) -> bool {
        self.content.iter().all(|part| match part {
            InputPart::InputText { text } => {
                text.chars().all(|c| c.is_whitespace() || c == '\u{feff}')
            }
            InputPart::InputImage { .. } => false,
        })
    }

    /// Has it a picture?
    pub fn has_image(&self) -> bool {
        self.content
            .iter()
            .any(|part| matches!(part, InputPart::InputImage { .. }))
    }

    /// Valid ⇔ it has an image or at least one nonempty text part (S-MSG-2).
    fn says_something(&self) -> bool {
        self.content.iter().any(|part| match part {
            InputPart::InputText { text } => !text.is_empty(),
            InputPart::InputImage { .. } => true,
        })
    }
}

/// Reads the `input` of a Session creation: a string (one message of one text) or an array of messages.
///
/// # Errors
/// E400-20 for every malformed or empty form (S-MSG-3), E400-23 for parts that this service does not take.
pub fn parse_initial(json: Json<'_>, path: &Path) -> Result<Vec<UserMessage>, Invalid> {
    match json.kind() {
        Kind::String => {
            let text = json
                .string()
                .filter(|text| !text.is_empty())
                .ok_or_else(Invalid::request)?;
            within_limit(vec![UserMessage::text(text)])
        }
        _ => parse_messages(json, path),
    }
}

/// Reads a nonempty array of user messages (S-MSG-1).
///
/// # Errors
/// As [`parse_initial`].
pub fn parse_messages(json: Json<'_>, path: &Path) -> Result<Vec<UserMessage>, Invalid> {
    let elements = json
        .elements()
        .filter(|elements| !elements.is_empty())
        .ok_or_else(Invalid::request)?;
    let messages = elements
        .into_iter()
        .enumerate()
        .map(|(index, element)| parse_message(element, &path.index(index)));
    within_limit(messages.collect::<Result<_, _>>()?)
}

fn parse_message(json: Json<'_>, path: &Path) -> Result<UserMessage, Invalid> {
    let malformed = |_| Invalid::request();
    let object = Object::open(json, path, &["role", "type", "content"]).map_err(malformed)?;
    if text_member(&object, "role").as_deref() != Some("user") {
        return Err(Invalid::request());
    }
    if object.get("type").is_some() && text_member(&object, "type").as_deref() != Some("message") {
        return Err(Invalid::request());
    }
    let parts = object
        .get("content")
        .and_then(Json::elements)
        .filter(|parts| !parts.is_empty());
    let path = object.path("content");
    let parts = parts.ok_or_else(Invalid::request)?.into_iter().enumerate();
    let content = parts
        .map(|(index, part)| parse_part(part, &path.index(index)))
        .collect::<Result<_, _>>()?;
    let message = UserMessage { content };
    if message.says_something() {
        Ok(message)
    } else {
        Err(Invalid::request())
    }
}

fn parse_part(json: Json<'_>, path: &Path) -> Result<InputPart, Invalid> {
    let object = Object::any(json, path).map_err(|_| Invalid::request())?;
    let known = |names: &[&str]| object.only(names).map_err(|_| Invalid::request());
    match text_member(&object, "type").as_deref() {
        Some("input_text") => {
            known(&["type", "text"])?;
            let text = text_member(&object, "text").ok_or_else(Invalid::request)?;
            Ok(InputPart::InputText { text })
        }
        Some("input_image") => {
            known(&["type", "image_url"])?;
            text_member(&object, "image_url").ok_or_else(Invalid::request)?;
            let message = "Images in messages are not supported by this service.";
            Err(Invalid::unsupported(path.echo(), message))
        }
        _ => Err(Invalid::request()),
    }
}

fn text_member(object: &Object<'_>, name: &str) -> Option<String> {
    object.get(name).and_then(Json::string)
}

/// The canonical text of a batch is what is stored and compared.
fn within_limit(messages: Vec<UserMessage>) -> Result<Vec<UserMessage>, Invalid> {
    let size = serde_json::to_string(&messages).map_or(usize::MAX, |text| text.len());
    if size > MAX_STORED_INPUT {
        Err(Invalid::request())
    } else {
        Ok(messages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn initial(text: &str) -> Result<Vec<UserMessage>, Invalid> {
        parse_initial(Json::new(text), &Path::root().member("input"))
    }

    #[test]
    fn a_string_is_one_message_of_one_text() {
        // ENV-160, S-MSG-1
        assert_eq!(initial(r#"" hi\n""#).unwrap(), [UserMessage::text(" hi\n")]);
    }

    #[test]
    fn boundaries_order_and_bytes_are_kept() {
        // S-MSG-2, S-MSG-4
        let text = r#"[{"role":"user","type":"message","content":[{"type":"input_text","text":""},{"type":"input_text","text":" a "}]}]"#;
        let parts = &initial(text).unwrap()[0].content;
        assert_eq!(
            *parts,
            [
                InputPart::InputText { text: "".into() },
                InputPart::InputText { text: " a ".into() }
            ]
        );
    }

    #[test]
    fn malformed_and_empty_input_is_one_refusal() {
        // S-MSG-1, S-MSG-3
        for text in [
            r#""""#,
            "[]",
            "{}",
            "5",
            r#"[{"role":"user","content":[]}]"#,
            r#"[{"role":"user","content":"text"}]"#,
            r#"[{"role":"user","content":[{"type":"input_text","text":""}]}]"#,
            r#"[{"role":"user","type":null,"content":[{"type":"input_text","text":"a"}]}]"#,
            r#"[{"role":"user","type":"","content":[{"type":"input_text","text":"a"}]}]"#,
            r#"[{"Role":"user","content":[{"type":"input_text","text":"a"}]}]"#,
            r#"[{"role":"assistant","content":[{"type":"input_text","text":"a"}]}]"#,
            r#"[{"role":"user","content":[{"type":"input_text","text":"a","detail":1}]}]"#,
            r#"[{"role":"user","content":[{"type":"output_text","text":"a"}]}]"#,
            r#"["text"]"#,
        ] {
            assert_eq!(initial(text).unwrap_err(), Invalid::request(), "{text}");
        }
        let events = parse_messages(Json::new(r#""text""#), &Path::root());
        assert_eq!(
            events.unwrap_err(),
            Invalid::request(),
            "only Session create takes a string"
        );
    }

    #[test]
    fn stored_input_is_bounded() {
        // S-MSG-10
        let text = format!("\"{}\"", "x".repeat(MAX_STORED_INPUT));
        assert_eq!(initial(&text).unwrap_err(), Invalid::request());
        assert!(initial(&format!("\"{}\"", "x".repeat(MAX_STORED_INPUT - 100))).is_ok());
    }

    #[test]
    fn images_are_named_by_their_path() {
        let text = r#"[{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"data:"}]}]"#;
        assert_eq!(
            initial(text).unwrap_err().param.as_deref(),
            Some("input[0].content[1]")
        );
    }

    #[test]
    fn whitespace_is_unicode_white_space_and_the_byte_order_mark() {
        // S-MSG-6
        let all = "\u{9}\u{a}\u{b}\u{c}\u{d} \u{85}\u{a0}\u{1680}\u{2000}\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}\u{feff}";
        assert!(UserMessage::text(all).is_whitespace_only());
        assert!(!UserMessage::text("\u{200b}").is_whitespace_only());
    }
}
