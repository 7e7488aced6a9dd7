//! Environment Templates of a Project (`environments.md` 10): preparation under a name, resolved anew for each Session.

use serde::Serialize;

use crate::blob::BlobRef;
use crate::invalid::{Invalid, Path};
use crate::json::{Field, Json, Object};
use crate::preparation::{Confidential, Content, Preparation, PreparationPatch};
use crate::{TemplateId, Timestamp};

/// Longest name, in characters (ENV-436).
pub const MAX_NAME: usize = 256;

/// A Template without its confidential part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Its id.
    pub id: TemplateId,
    /// Creation.
    pub created_at: Timestamp,
    /// Last accepted update.
    pub updated_at: Timestamp,
    /// Label, kept verbatim.
    pub name: Option<String>,
    /// What it prepares.
    pub preparation: Preparation,
}

/// What a request says about a Template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TemplatePatch<C = Content> {
    /// Label; null clears.
    #[serde(skip_serializing_if = "Field::is_omitted")]
    pub name: Field<String>,
    /// What it prepares.
    #[serde(flatten)]
    pub preparation: PreparationPatch<C>,
}

impl TemplatePatch {
    /// Reads the body of a creation or an update: one shape (api-surface 10.1).
    ///
    /// # Errors
    /// E400-03 to E400-07, E400-30, E400-31, E400-44 with the path of the member.
    pub fn parse(body: Json<'_>) -> Result<Self, Invalid> {
        let object = Object::open(body, &Path::root(), KNOWN)?;
        let mut patch = Self {
            name: Field::Omitted,
            preparation: PreparationPatch::default(),
        };
        for (member, value, path) in object.iter() {
            if !patch.preparation.read(member, value, &path)? {
                patch.name = Field::read(value, |value| name(value, &path))?;
            }
        }
        Ok(patch)
    }
}

const KNOWN: &[&str] = &[
    "name",
    "capability_directories",
    "env",
    "files",
    "network",
    "packages",
    "plugins",
    "setup_commands",
    "skills",
];

fn name(json: Json<'_>, path: &Path) -> Result<String, Invalid> {
    let name = json.to_text(path)?;
    match name.chars().count() {
        1..=MAX_NAME => Ok(name),
        0 => Err(Invalid::empty(path)),
        length => Err(Invalid::too_long("name", MAX_NAME, length)),
    }
}

impl Template {
    /// Applies an update (ENV-441, ENV-442).
    pub fn update(
        &mut self,
        confidential: &mut Confidential,
        patch: TemplatePatch<BlobRef>,
        now: Timestamp,
    ) {
        match patch.name {
            Field::Omitted => {}
            Field::Null => self.name = None,
            Field::Value(name) => self.name = Some(name),
        }
        self.preparation.update(confidential, patch.preparation);
        self.updated_at = now;
    }
}

#[cfg(test)]
mod tests;
