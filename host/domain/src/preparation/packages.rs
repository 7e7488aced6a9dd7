//! Packages of the two managers (ENV-324, ENV-325, ENV-457).

use serde::{Deserialize, Serialize};

use crate::invalid::{Invalid, Path};
use crate::json::{Field, Json, Object};

/// Longest requirement, in bytes.
const MAX_REQUIREMENT: usize = 1024;

/// Requirements in the caller's order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the managers of api-surface 3.2")]
pub struct Packages {
    pub npm: Vec<String>,
    pub python: Vec<String>,
}

/// What a request says about them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[allow(missing_docs, reason = "the managers of api-surface 3.2")]
pub struct PackagesPatch {
    #[serde(skip_serializing_if = "Field::is_omitted")]
    pub npm: Field<Vec<String>>,
    #[serde(skip_serializing_if = "Field::is_omitted")]
    pub python: Field<Vec<String>>,
}

impl PackagesPatch {
    /// Reads the member `packages`.
    ///
    /// # Errors
    /// E400-31 for `system` in every form, before anything else; E400-04, E400-05; 400 for a requirement that is none.
    pub(super) fn parse(json: Json<'_>, path: &Path) -> Result<Self, Invalid> {
        let object = Object::open(json, path, &["npm", "python", "system"])?;
        if object.get("system").is_some() {
            let message = "System packages cannot be installed; use an image that has them.";
            return Err(Invalid::other(Some("packages.system"), message));
        }
        let mut patch = Self::default();
        for (member, value, path) in object.iter() {
            let list = Field::read(value, |value| requirements(value, &path))?;
            match member {
                "npm" => patch.npm = list,
                _ => patch.python = list,
            }
        }
        Ok(patch)
    }

    /// Each manager by itself: left out or null inherits, a list replaces (ENV-457).
    pub fn over(&self, base: &Packages) -> Packages {
        let manager = |field: &Field<Vec<String>>, base: &Vec<String>| match field {
            Field::Value(list) => list.clone(),
            Field::Omitted | Field::Null => base.clone(),
        };
        Packages {
            npm: manager(&self.npm, &base.npm),
            python: manager(&self.python, &base.python),
        }
    }
}

/// A requirement is an argument of an installer: it must never read as an option.
fn requirements(json: Json<'_>, path: &Path) -> Result<Vec<String>, Invalid> {
    let list = json.to_texts(path)?;
    for (index, text) in list.iter().enumerate() {
        let fits = (1..=MAX_REQUIREMENT).contains(&text.len())
            && text.trim() == text
            && !text.starts_with('-')
            && !text.chars().any(char::is_control);
        if !fits {
            let path = path.index(index);
            let message = format!("'{path}' is no package requirement.");
            return Err(Invalid::other(path.echo(), message));
        }
    }
    Ok(list)
}
