//! Variables and setup commands: confidential, never shown again (ENV-480 to ENV-486).

use std::fmt;

use serde::{Deserialize, Serialize};

use super::place;
use crate::invalid::{Invalid, Path};
use crate::json::{Field, Json, Kind, Object};

/// Names in the caller's order, each once.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Variables(Vec<(String, String)>);

/// A command that runs once, after files and packages.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetupCommand {
    /// Its text.
    pub command: String,
    /// Where it runs; none = the workspace.
    pub cwd: Option<String>,
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Variables({} names)", self.0.len())
    }
}

impl fmt::Debug for SetupCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SetupCommand(…)")
    }
}

impl Variables {
    /// Names and values.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Nothing is set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// These over `base`, name by name (ENV-454).
    #[must_use]
    pub fn over(&self, base: &Self) -> Self {
        let own = |name: &str| self.0.iter().any(|(other, _)| other == name);
        let kept = base.0.iter().filter(|(name, _)| !own(name));
        Self(kept.chain(&self.0).cloned().collect())
    }

    /// Reads the member `env`.
    ///
    /// # Errors
    /// E400-05, or 400 with the path of the first name that is malformed or reserved (ENV-482a).
    pub(super) fn parse(json: Json<'_>, path: &Path) -> Result<Self, Invalid> {
        let members = json
            .members()
            .ok_or_else(|| Invalid::mistyped(path, Kind::Object, json.kind()))?;
        let mut pairs = Vec::with_capacity(members.len());
        for (name, value) in members {
            let path = path.member(&name);
            let refused = |what: &str| {
                let message = match path.echo() {
                    Some(text) => format!("'{text}' {what}"),
                    None => format!("A variable's name {what}"),
                };
                Err(Invalid::other(path.echo(), message))
            };
            if !is_name(&name) {
                return refused("must match ^[A-Za-z_][A-Za-z0-9_]*$.");
            }
            if is_reserved(&name) {
                return refused("is reserved.");
            }
            let value = value.to_text(&path)?;
            if value.contains('\0') {
                return Err(Invalid::unstorable(None));
            }
            pairs.push((name, value));
        }
        Ok(Self(pairs))
    }
}

/// ENV-481.
fn is_name(name: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && name.bytes().all(word) && !name.as_bytes()[0].is_ascii_digit()
}

/// ENV-482.
fn is_reserved(name: &str) -> bool {
    matches!(name, "PATH" | "OPENAI_API_KEY")
        || name.starts_with("OAC_")
        || name.starts_with("CODEX_")
}

impl SetupCommand {
    /// Reads the member `setup_commands`.
    ///
    /// # Errors
    /// E400-03 to E400-05, or 400 with the path of an empty command or a folder outside the workspace.
    pub(super) fn parse_all(json: Json<'_>, path: &Path) -> Result<Vec<Self>, Invalid> {
        let elements = json.to_elements(path)?;
        let one = |(index, element)| Self::parse(element, &path.index(index));
        elements.into_iter().enumerate().map(one).collect()
    }

    fn parse(json: Json<'_>, path: &Path) -> Result<Self, Invalid> {
        let object = Object::open(json, path, &["command", "cwd"])?;
        let (mut command, mut cwd) = (None, None);
        for (member, value, path) in object.iter() {
            match member {
                "command" => {
                    let text = value.to_text(&path)?;
                    if text.trim().is_empty() {
                        return Err(Invalid::empty(&path));
                    }
                    command = Some(text);
                }
                _ => {
                    cwd = Field::read(value, |value| {
                        let text = value.to_text(&path)?;
                        place::folder(&text, &path)?;
                        Ok(text)
                    })?
                    .value();
                }
            }
        }
        Ok(Self {
            command: object.required(command, "command")?,
            cwd,
        })
    }
}
