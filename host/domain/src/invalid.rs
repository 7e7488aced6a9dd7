//! What can be wrong with a request, with the exact text and parameter a client sees (`wire.md` 8.2, E400-03 to E400-24).

use std::fmt;

use crate::json::Kind;

/// Where in the request body something is: `tools[0].parameters`. A caller's own names in it may be unfit to repeat.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Path {
    text: String,
    unfit: bool,
}

impl Path {
    /// The body itself.
    pub fn root() -> Self {
        Self::default()
    }

    /// A member below this place.
    #[must_use]
    pub fn member(&self, name: &str) -> Self {
        let mut text = self.text.clone();
        if !text.is_empty() {
            text.push('.');
        }
        text.push_str(name);
        Self {
            text,
            unfit: self.unfit || !is_echoable(name),
        }
    }

    /// An element below this place.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self {
            text: format!("{}[{index}]", self.text),
            unfit: self.unfit,
        }
    }

    /// The text, if it may be repeated to the caller (W-BODY-10).
    pub fn echo(&self) -> Option<&str> {
        (!self.unfit).then_some(self.text.as_str())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// May a caller's value appear in a message? At most 256 bytes of printable text (W-BODY-10).
pub fn is_echoable(value: &str) -> bool {
    value.len() <= 256 && !value.chars().any(char::is_control)
}

/// The stable code of a refusal of input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidCode {
    /// `invalid_request_error`: the body's shape.
    Shape,
    /// `invalid_request`: E400-20.
    Request,
    /// `unsupported_or_invalid_configuration`: E400-23 and E400-24.
    Configuration,
    /// `model_provider_required`: E400-25.
    ModelProvider,
}

impl InvalidCode {
    /// The code on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            InvalidCode::Shape => "invalid_request_error",
            InvalidCode::Request => "invalid_request",
            InvalidCode::Configuration => "unsupported_or_invalid_configuration",
            InvalidCode::ModelProvider => "model_provider_required",
        }
    }
}

/// A refusal of a request's content; status 400.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Invalid {
    /// Stable code.
    pub code: InvalidCode,
    /// The field, if there is one to name.
    pub param: Option<String>,
    /// Exact text.
    pub message: String,
}

impl Invalid {
    fn shape(param: Option<String>, message: String) -> Self {
        Self {
            code: InvalidCode::Shape,
            param,
            message,
        }
    }

    /// E400-03.
    pub fn missing(path: &Path) -> Self {
        Self::shape(
            path.echo().map(str::to_owned),
            format!("Missing required parameter: '{path}'."),
        )
    }

    /// E400-04; without the name if it cannot be repeated (W-BODY-10).
    pub fn unknown(path: &Path) -> Self {
        match path.echo() {
            Some(text) => Self::shape(
                Some(text.to_owned()),
                format!("Unknown parameter: '{text}'."),
            ),
            None => Self::shape(None, "Unknown parameter.".to_owned()),
        }
    }

    /// E400-05.
    pub fn mistyped(path: &Path, expected: impl fmt::Display, got: Kind) -> Self {
        let message =
            format!("Invalid type for '{path}': expected {expected}, but got {got} instead.");
        Self::shape(path.echo().map(str::to_owned), message)
    }

    /// E400-06.
    pub fn not_one_of(path: &Path, value: &str, supported: &[&str]) -> Self {
        let list = quoted_list(supported);
        let message = if is_echoable(value) {
            format!("Invalid value: '{value}'. Supported values are: {list}.")
        } else {
            format!("Invalid value. Supported values are: {list}.")
        };
        Self::shape(path.echo().map(str::to_owned), message)
    }

    /// E400-07.
    pub fn below_minimum(path: &Path, minimum: i64, got: &str) -> Self {
        let got = if is_echoable(got) {
            format!(", but got {got} instead")
        } else {
            String::new()
        };
        let message = format!(
            "Invalid '{path}': integer below minimum value. Expected a value >= {minimum}{got}."
        );
        Self::shape(path.echo().map(str::to_owned), message)
    }

    /// A member that must hold something (MDL-025, CRD-004, CRD-009).
    pub fn empty(path: &Path) -> Self {
        Self::shape(
            path.echo().map(str::to_owned),
            format!("'{path}' must not be empty."),
        )
    }

    /// E400-08: a function declared twice.
    pub fn repeated_function(name: &str) -> Self {
        let name = if is_echoable(name) {
            format!(": {name}")
        } else {
            String::new()
        };
        Self::shape(None, format!("duplicate function tool name{name}"))
    }

    /// E400-08: a tool that may be there once.
    pub fn repeated_tool(kind: &'static str) -> Self {
        Self::shape(None, format!("duplicate {kind} tool"))
    }

    /// E400-09.
    pub fn function_schema(name: &str, root: &str) -> Self {
        let name = if is_echoable(name) {
            format!(" '{name}'")
        } else {
            String::new()
        };
        let got = if is_echoable(root) {
            format!(", got 'type: \"{root}\"'")
        } else {
            String::new()
        };
        let message = format!(
            "Invalid schema for function{name}: schema must be a JSON Schema of 'type: \"object\"'{got}."
        );
        Self::shape(None, message)
    }

    /// E400-10.
    pub fn output_schema(root: &str) -> Self {
        let got = if is_echoable(root) {
            format!("; got \"{root}\"")
        } else {
            String::new()
        };
        Self::shape(
            None,
            format!("agent.text.format.schema must have top-level type \"object\"{got}"),
        )
    }

    /// E400-11.
    pub fn too_many_properties(count: usize) -> Self {
        let message = format!(
            "Invalid 'metadata': too many properties. Expected an object with at most 16 properties, but got an object \
             with {count} properties instead."
        );
        Self::shape(Some("metadata".to_owned()), message)
    }

    /// E400-12. Metadata errors repeat long keys (W-BODY-10).
    pub fn metadata_key_too_long(key: &str, length: usize) -> Self {
        let message = format!(
            "Invalid property name in 'metadata': '{key}' is too long. Expected a string with maximum length 64, but got a \
             string with length {length} instead."
        );
        Self::shape(Some(format!("metadata.{key}")), message)
    }

    /// E400-13, E400-15.
    pub fn too_long(param: &str, maximum: usize, length: usize) -> Self {
        let message = format!(
            "Invalid '{param}': string too long. Expected a string with maximum length {maximum}, but got a string with \
             length {length} instead."
        );
        Self::shape(Some(param.to_owned()), message)
    }

    /// E400-14.
    pub fn metadata_value(key: &str, got: Kind) -> Self {
        let message =
            format!("Invalid type for 'metadata.{key}': expected a string, but got {got} instead.");
        Self::shape(Some(format!("metadata.{key}")), message)
    }

    /// E400-16 (W-TEXT-2), with a parameter only for metadata (W-TEXT-1).
    pub fn unstorable(param: Option<String>) -> Self {
        let message = "Request text contains characters this service cannot store or compare, such as U+0000 or invalid \
                       UTF-8.";
        Self::shape(param, message.to_owned())
    }

    /// E400-17.
    pub fn empty_update() -> Self {
        Self::shape(None, "At least one update field is required".to_owned())
    }

    /// E400-18.
    pub fn input_required() -> Self {
        Self::shape(
            None,
            "conversation-only sessions currently require initial input".to_owned(),
        )
    }

    /// E400-20.
    pub fn request() -> Self {
        let message = "Invalid resource identifier or request limits.".to_owned();
        Self {
            code: InvalidCode::Request,
            param: None,
            message,
        }
    }

    /// E400-21: the official client's helper compares this text (W-SDK-5, WB-1).
    pub fn unknown_call(call_id: &str) -> Self {
        let message = match is_echoable(call_id) {
            true => format!("Unknown pending tool call: {call_id}"),
            false => "Unknown pending tool call".to_owned(),
        };
        Self::shape(None, message)
    }

    /// E400-22.
    pub fn foreign_call() -> Self {
        Self::shape(
            None,
            "The tool call belongs to a different Turn.".to_owned(),
        )
    }

    /// E400-23: outside of what the harness or this service supports.
    pub fn unsupported(param: Option<&str>, message: impl Into<String>) -> Self {
        Self {
            code: InvalidCode::Configuration,
            param: param.map(str::to_owned),
            message: message.into(),
        }
    }

    /// E400-24.
    pub fn whitespace_only() -> Self {
        let message = "This Session's harness does not accept a message whose text is only whitespace. Include \
                       non-whitespace text or an image, or use a harness that supports whitespace-only text.";
        Self::unsupported(None, message)
    }

    /// E400-25.
    pub fn model_provider_required() -> Self {
        Self {
            code: InvalidCode::ModelProvider,
            param: Some("x_agents_core.model_provider".to_owned()),
            message: "This Session needs a model provider. Set 'x_agents_core.model_provider' with 'protocol', 'base_url' \
                      and 'api_key', or ask the operator to configure a default."
                .to_owned(),
        }
    }

    /// E400-26.
    pub fn harness_required() -> Self {
        let message = "No harness is selected and no default harness is available.";
        Self::shape(Some("x_agents_core.harness".to_owned()), message.to_owned())
    }

    /// Another shape error with its own text.
    pub fn other(param: Option<&str>, message: impl Into<String>) -> Self {
        Self::shape(param.map(str::to_owned), message.into())
    }
}

/// `'a'`, `'a' and 'b'`, `'a', 'b', and 'c'`.
fn quoted_list(values: &[&str]) -> String {
    let mut text = String::new();
    for (index, value) in values.iter().enumerate() {
        let separator = match (index, index + 1 == values.len()) {
            (0, _) => "",
            (1, true) => " and ",
            (_, true) => ", and ",
            _ => ", ",
        };
        text.push_str(separator);
        text.push('\'');
        text.push_str(value);
        text.push('\'');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_exact() {
        let path = Path::root().member("tools").index(0).member("type");
        assert_eq!(
            Invalid::missing(&path).message,
            "Missing required parameter: 'tools[0].type'."
        );
        assert_eq!(
            Invalid::not_one_of(&path, "x", &["a", "b", "c"]).message,
            "Invalid value: 'x'. Supported values are: 'a', 'b', and 'c'."
        );
        assert_eq!(
            Invalid::not_one_of(&path, "x", &["asc", "desc"]).message,
            "Invalid value: 'x'. Supported values are: 'asc' and 'desc'."
        );
        assert_eq!(
            Invalid::function_schema("f", "array").message,
            "Invalid schema for function 'f': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"array\"'."
        );
    }

    #[test]
    fn unfit_caller_text_is_left_out() {
        // W-BODY-10
        let long = "x".repeat(257);
        let unknown = Invalid::unknown(&Path::root().member(&long));
        assert_eq!(
            (unknown.message.as_str(), unknown.param),
            ("Unknown parameter.", None)
        );
        let value = Invalid::not_one_of(
            &Path::root().member("service_tier"),
            "a\u{7}",
            &["auto", "fast"],
        );
        assert_eq!(
            value.message,
            "Invalid value. Supported values are: 'auto' and 'fast'."
        );
        assert_eq!(
            Invalid::repeated_function(&long).message,
            "duplicate function tool name"
        );
        assert!(is_echoable(&"x".repeat(256)));
    }
}
