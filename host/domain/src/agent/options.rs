//! The small option types of an agent: enums with their wire words, and the objects that hold them.

use serde::{Deserialize, Serialize};

use crate::invalid::{Invalid, Path};
use crate::json::{FREE_FORM, Field, Json, Object, Opaque};

/// Declares an enum of wire words with its parser (E400-06 lists the words in this order).
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($variant:ident = $word:literal),+ $(,)? })+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[allow(missing_docs, reason = "the words of the contract")]
        pub enum $name { $(#[serde(rename = $word)] $variant),+ }

        impl $name {
            /// Every word, in the order messages list them.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// Reads the word.
            ///
            /// # Errors
            /// E400-05 if it is no string, E400-06 if it is another word.
            pub fn parse(json: Json<'_>, path: &Path) -> Result<Self, Invalid> {
                let text = json.to_text(path)?;
                match text.as_str() {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(Invalid::not_one_of(path, &text, Self::WORDS)),
                }
            }
        }
    )+};
}
pub(super) use words;

words! {
    /// Service tier of the model provider.
    ServiceTier { Auto = "auto", Default = "default", Flex = "flex", Priority = "priority", Fast = "fast" }
    /// Reasoning effort.
    Effort {
        None = "none", Minimal = "minimal", Low = "low", Medium = "medium", High = "high", Xhigh = "xhigh", Max = "max",
    }
    /// Reasoning summary.
    Summary { Concise = "concise", Detailed = "detailed", Auto = "auto" }
    /// Length of the answer.
    Verbosity { Low = "low", Medium = "medium", High = "high" }
    /// Kind of output format.
    FormatKind { Text = "text", JsonSchema = "json_schema" }
}

/// Reasoning options; `None` = not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reasoning {
    /// Explicit effort.
    pub effort: Option<Effort>,
    /// Explicit summary.
    pub summary: Option<Summary>,
}

impl Reasoning {
    pub(super) fn parse(json: Json<'_>, path: &Path) -> Result<Self, Invalid> {
        let object = Object::open(json, path, &["effort", "summary"])?;
        let mut reasoning = Self::default();
        for (name, value, path) in object.iter() {
            match name {
                "effort" => {
                    reasoning.effort =
                        Field::read(value, |value| Effort::parse(value, &path))?.value()
                }
                _ => {
                    reasoning.summary =
                        Field::read(value, |value| Summary::parse(value, &path))?.value()
                }
            }
        }
        Ok(reasoning)
    }
}

impl Verbosity {
    /// The word on the wire.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// Output text options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Text {
    /// Plain text or structured output.
    pub format: Format,
    /// Omitted, null and `medium` are one configuration (S-ADM-2).
    pub verbosity: Verbosity,
}

/// Plain text or structured output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Plain text.
    Text,
    /// A JSON document by this schema, kept byte for byte.
    JsonSchema(Opaque),
}

impl Default for Text {
    fn default() -> Self {
        Self {
            format: Format::Text,
            verbosity: Verbosity::Medium,
        }
    }
}

impl Text {
    pub(super) fn parse(json: Json<'_>, path: &Path) -> Result<Self, Invalid> {
        let object = Object::open(json, path, &["format", "verbosity"])?;
        let mut text = Self::default();
        for (name, value, path) in object.iter() {
            match name {
                "format" => {
                    text.format = Field::read(value, |value| Format::parse(value, &path))?
                        .value()
                        .unwrap_or(Format::Text);
                }
                _ => {
                    let verbosity = Field::read(value, |value| Verbosity::parse(value, &path))?;
                    text.verbosity = verbosity.value().unwrap_or(Verbosity::Medium);
                }
            }
        }
        Ok(text)
    }
}

impl Format {
    fn parse(json: Json<'_>, path: &Path) -> Result<Self, Invalid> {
        let object = Object::any(json, path)?;
        let kind = object
            .get("type")
            .map(|kind| FormatKind::parse(kind, &object.path("type")))
            .transpose()?;
        match object.required(kind, "type")? {
            FormatKind::Text => object.only(&["type"]).map(|()| Format::Text),
            FormatKind::JsonSchema => {
                object.only(&["type", "schema"])?;
                let path = object.path("schema");
                let schema = object
                    .get("schema")
                    .map(|schema| schema.to_opaque_object(&path, FREE_FORM))
                    .transpose()?;
                object.required(schema, "schema").map(Format::JsonSchema)
            }
        }
    }
}

/// Subagents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MultiAgent {
    /// May the agent start others?
    pub enabled: bool,
    /// How many at once; `None` ⇔ not enabled. 6 where the caller named none.
    pub max_concurrent_subagents: Option<u32>,
}

/// Subagents at once where the caller enabled them without a number (S-AG-1).
const DEFAULT_SUBAGENTS: u32 = 6;

impl MultiAgent {
    pub(super) fn parse(json: Json<'_>, path: &Path) -> Result<Self, Invalid> {
        let object = Object::open(json, path, &["enabled", "max_concurrent_subagents"])?;
        let (mut enabled, mut most) = (None, None);
        for (name, value, path) in object.iter() {
            match name {
                "enabled" => enabled = Some(value.to_bool(&path)?),
                _ => most = Some(u32::try_from(value.to_integer(&path, 1)?).unwrap_or(u32::MAX)),
            }
        }
        let enabled = object.required(enabled, "enabled")?;
        let max_concurrent_subagents = enabled.then(|| most.unwrap_or(DEFAULT_SUBAGENTS));
        Ok(Self {
            enabled,
            max_concurrent_subagents,
        })
    }
}
