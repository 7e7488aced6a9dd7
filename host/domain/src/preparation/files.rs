//! Initial files (ENV-490 to ENV-501).

use serde::{Deserialize, Serialize};

use super::MAX_ITEMS;
use super::content::Content;
use super::parse::limited;
use super::place;
use crate::invalid::{Invalid, Path};
use crate::json::{Json, Object};

/// Longest inline file, in bytes (ENV-492).
const MAX_INLINE: usize = 5 * 1024 * 1024;
/// Longest inline content of one configuration, in bytes (ENV-493).
const MAX_TOGETHER: usize = 10 * 1024 * 1024;

/// A file that is laid into the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum InitialFile<C> {
    /// An uploaded File, named as the caller did: it may name nothing (W-ID-4).
    FileId {
        /// The File.
        file_id: String,
        /// Where it goes.
        path: String,
    },
    /// Bytes of the request.
    Inline {
        /// Where they go.
        path: String,
        /// The bytes.
        content: C,
    },
}

impl<C> InitialFile<C> {
    /// Where it goes.
    pub fn path(&self) -> &str {
        match self {
            Self::FileId { path, .. } | Self::Inline { path, .. } => path,
        }
    }

    /// Its bytes, if the request carried them.
    pub fn inline(&self) -> Option<&C> {
        match self {
            Self::FileId { .. } => None,
            Self::Inline { content, .. } => Some(content),
        }
    }

    /// The same with other content.
    pub fn with<D>(self, next: &mut impl FnMut(C) -> D) -> InitialFile<D> {
        match self {
            Self::FileId { file_id, path } => InitialFile::FileId { file_id, path },
            Self::Inline { path, content } => InitialFile::Inline {
                path,
                content: next(content),
            },
        }
    }
}

/// Reads the member `files`.
pub(super) fn parse(json: Json<'_>, path: &Path) -> Result<Vec<InitialFile<Content>>, Invalid> {
    let elements = limited(json, path, MAX_ITEMS)?;
    let mut files: Vec<InitialFile<Content>> = Vec::with_capacity(elements.len());
    for (index, element) in elements.into_iter().enumerate() {
        let path = path.index(index);
        let file = one(element, &path)?;
        if files
            .iter()
            .any(|other| place::overlaps(other.path(), file.path()))
        {
            let path = path.member("path");
            let message = format!("{path} must be distinct from the other targets");
            return Err(Invalid::other(path.echo(), message));
        }
        files.push(file);
    }
    let together = files.iter().filter_map(InitialFile::inline);
    let together: usize = together.map(|content| content.bytes().len()).sum();
    if together > MAX_TOGETHER {
        let message = format!("{path} exceeds the 10 MiB decoded limit of all inline files");
        return Err(Invalid::other(path.echo(), message));
    }
    Ok(files)
}

fn one(json: Json<'_>, path: &Path) -> Result<InitialFile<Content>, Invalid> {
    let object = Object::any(json, path)?;
    let is_inline = object.kind(&["file_id", "inline"])? == "inline";
    let source = if is_inline { "data" } else { "file_id" };
    object.only(&["type", source, "path"])?;
    let (mut target, mut file_id, mut content) = (None, None, None);
    for (member, value, path) in object.iter() {
        match member {
            "path" => {
                let text = value.to_text(&path)?;
                place::file(&text, &path)?;
                target = Some(text);
            }
            "file_id" => file_id = Some(value.to_text(&path)?),
            "data" => content = Some(Content::parse(value, &path, MAX_INLINE)?),
            _ => {}
        }
    }
    if is_inline {
        let content = object.required(content, "data")?;
        let path = object.required(target, "path")?;
        Ok(InitialFile::Inline { path, content })
    } else {
        let file_id = object.required(file_id, "file_id")?;
        let path = object.required(target, "path")?;
        Ok(InitialFile::FileId { file_id, path })
    }
}
