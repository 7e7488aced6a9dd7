//! Reads preparation out of a request body, and its Skills and Plugins (ENV-510 to ENV-534).

use serde::{Deserialize, Serialize};

use super::content::Content;
use super::network::Network;
use super::packages::PackagesPatch;
use super::variables::{SetupCommand, Variables};
use super::{MAX_ITEMS, PreparationPatch, files, place};
use crate::archive::{Archive, Limits, unpack};
use crate::invalid::{Invalid, Path};
use crate::json::{Field, Json, Object};
use crate::skill::{self, Selector};

/// The members of preparation, in a Template, in inline configuration and in the extension.
pub const MEMBERS: &[&str] = &[
    "capability_directories",
    "env",
    "files",
    "network",
    "packages",
    "plugins",
    "setup_commands",
    "skills",
];
/// Compressed and expanded bytes of all inline Skills, and of all Plugins (ENV-532, ENV-533).
const TOGETHER: (u64, u64) = (10 * 1024 * 1024, 50 * 1024 * 1024);
/// What names a Plugin inside its one folder (ENV-524).
const PLUGIN_MANIFEST: &str = ".codex-plugin/plugin.json";

/// A Skill to install.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum SkillSource<C> {
    /// A Skill of the Project, named as the caller did: it may name nothing (W-ID-4).
    SkillReference {
        /// The Skill.
        skill_id: String,
        /// `latest` or a number; none = the default version. Resolved anew for each Session (ENV-514, ENV-515).
        version: Option<String>,
    },
    /// A bundle of the request.
    Inline {
        /// As in its manifest (ENV-519).
        name: String,
        /// As in its manifest.
        description: String,
        /// A ZIP that was checked.
        content: C,
    },
}

/// A Plugin to install: always a bundle of a request (ENV-524).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginSource<C> {
    /// As in its manifest.
    pub name: String,
    /// As in its manifest.
    pub description: String,
    /// A ZIP that was checked.
    pub content: C,
}

impl<C> SkillSource<C> {
    /// Its bundle, if the request carried it.
    pub fn inline(&self) -> Option<&C> {
        match self {
            Self::SkillReference { .. } => None,
            Self::Inline { content, .. } => Some(content),
        }
    }

    fn with<D>(self, next: &mut impl FnMut(C) -> D) -> SkillSource<D> {
        match self {
            Self::SkillReference { skill_id, version } => {
                SkillSource::SkillReference { skill_id, version }
            }
            Self::Inline {
                name,
                description,
                content,
            } => SkillSource::Inline {
                name,
                description,
                content: next(content),
            },
        }
    }
}

impl PreparationPatch<Content> {
    /// Takes a member in, if it is one of preparation.
    ///
    /// # Errors
    /// E400-03 to E400-07, E400-30, E400-31, E400-44 with the path of the member.
    pub fn read(&mut self, member: &str, value: Json<'_>, path: &Path) -> Result<bool, Invalid> {
        match member {
            "capability_directories" => {
                self.capability_directories = Field::read(value, |value| directories(value, path))?;
            }
            "env" => self.env = Field::read(value, |value| Variables::parse(value, path))?,
            "files" => self.files = Field::read(value, |value| files::parse(value, path))?,
            "network" => self.network = Field::read(value, |value| Network::parse(value, path))?,
            "packages" => {
                self.packages = Field::read(value, |value| PackagesPatch::parse(value, path))?;
            }
            "plugins" => self.plugins = Field::read(value, |value| plugins(value, path))?,
            "setup_commands" => {
                self.setup_commands =
                    Field::read(value, |value| SetupCommand::parse_all(value, path))?;
            }
            "skills" => self.skills = Field::read(value, |value| skills(value, path))?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The bytes that it carries, in the order in which [`PreparationPatch::with`] replaces them.
    pub fn contents(&self) -> Vec<&Content> {
        let (files, plugins, skills) = (
            given(&self.files),
            given(&self.plugins),
            given(&self.skills),
        );
        let files = files.iter().filter_map(files::InitialFile::inline);
        let plugins = plugins.iter().map(|plugin| &plugin.content);
        let skills = skills.iter().filter_map(SkillSource::inline);
        files.chain(plugins).chain(skills).collect()
    }
}

fn given<T>(field: &Field<Vec<T>>) -> &[T] {
    match field {
        Field::Value(list) => list,
        Field::Omitted | Field::Null => &[],
    }
}

impl<C> PreparationPatch<C> {
    /// The same with other content: each is replaced by what `next` gives, in order.
    pub fn with<D>(self, mut next: impl FnMut(C) -> D) -> PreparationPatch<D> {
        let next = &mut next;
        PreparationPatch {
            capability_directories: self.capability_directories,
            env: self.env,
            files: map(self.files, |file| file.with(next)),
            network: self.network,
            packages: self.packages,
            plugins: map(self.plugins, |plugin| PluginSource {
                name: plugin.name,
                description: plugin.description,
                content: next(plugin.content),
            }),
            setup_commands: self.setup_commands,
            skills: map(self.skills, |skill| skill.with(next)),
        }
    }
}

fn map<T, U>(field: Field<Vec<T>>, each: impl FnMut(T) -> U) -> Field<Vec<U>> {
    match field {
        Field::Omitted => Field::Omitted,
        Field::Null => Field::Null,
        Field::Value(list) => Field::Value(list.into_iter().map(each).collect()),
    }
}

/// An array of at most so many elements.
pub(super) fn limited<'a>(
    json: Json<'a>,
    path: &Path,
    most: usize,
) -> Result<Vec<Json<'a>>, Invalid> {
    let elements = json.to_elements(path)?;
    match elements.len() <= most {
        true => Ok(elements),
        false => {
            let message = format!("'{path}' holds more than {most} elements.");
            Err(Invalid::other(path.echo(), message))
        }
    }
}

/// ENV-527.
fn directories(json: Json<'_>, path: &Path) -> Result<Vec<String>, Invalid> {
    let list = json.to_texts(path)?;
    for (index, text) in list.iter().enumerate() {
        place::folder(text, &path.index(index))?;
    }
    Ok(list)
}

fn skills(json: Json<'_>, path: &Path) -> Result<Vec<SkillSource<Content>>, Invalid> {
    let mut skills = Vec::new();
    let mut together = Together::default();
    for (index, element) in limited(json, path, MAX_ITEMS)?.into_iter().enumerate() {
        let path = path.index(index);
        let object = Object::any(element, &path)?;
        skills.push(
            match object.kind(&["skill_reference", "inline"])?.as_str() {
                "skill_reference" => reference(&object)?,
                _ => {
                    let bundle = Bundle::parse(&object, &mut together)?;
                    let manifest = skill::inspect(&bundle.archive)
                        .map_err(|fault| Invalid::other(bundle.at.echo(), fault.to_string()))?;
                    bundle.agrees(&manifest.name, &manifest.description)?;
                    SkillSource::Inline {
                        name: bundle.name,
                        description: bundle.description,
                        content: bundle.content,
                    }
                }
            },
        );
    }
    together.check(path)?;
    Ok(skills)
}

/// ENV-514.
fn reference(object: &Object<'_>) -> Result<SkillSource<Content>, Invalid> {
    object.only(&["type", "skill_id", "version"])?;
    let (mut skill_id, mut version) = (None, None);
    for (member, value, path) in object.iter() {
        match member {
            "skill_id" => skill_id = Some(value.to_text(&path)?),
            "version" => version = Field::read(value, |value| value.to_text(&path))?.value(),
            _ => {}
        }
    }
    if version
        .as_deref()
        .is_some_and(|text| Selector::parse(text).is_none())
    {
        let path = object.path("version");
        let message = format!("'{path}' must be a positive number or 'latest'.");
        return Err(Invalid::other(path.echo(), message));
    }
    Ok(SkillSource::SkillReference {
        skill_id: object.required(skill_id, "skill_id")?,
        version,
    })
}

fn plugins(json: Json<'_>, path: &Path) -> Result<Vec<PluginSource<Content>>, Invalid> {
    let mut plugins = Vec::new();
    let mut together = Together::default();
    for (index, element) in limited(json, path, MAX_ITEMS)?.into_iter().enumerate() {
        let path = path.index(index);
        let object = Object::any(element, &path)?;
        object.kind(&["inline"])?;
        let bundle = Bundle::parse(&object, &mut together)?;
        let manifest = bundle.archive.file(PLUGIN_MANIFEST);
        let text = manifest.and_then(|bytes| std::str::from_utf8(bytes).ok());
        let manifest: Option<PluginManifest> =
            text.and_then(|text| serde_json::from_str(text).ok());
        let manifest = manifest.ok_or_else(|| {
            let message =
                "The plugin must hold .codex-plugin/plugin.json with a name and a description.";
            Invalid::other(bundle.at.echo(), message)
        })?;
        bundle.agrees(&manifest.name, &manifest.description)?;
        plugins.push(PluginSource {
            name: bundle.name,
            description: bundle.description,
            content: bundle.content,
        });
    }
    together.check(path)?;
    Ok(plugins)
}

/// What is read of a Plugin's manifest here; the Runtime reads the rest of the installed package (ENV-565).
#[derive(Deserialize)]
struct PluginManifest {
    name: String,
    description: String,
}

/// An inline archive with what the request says about it.
struct Bundle {
    name: String,
    description: String,
    archive: Archive,
    /// The archive, written again by us.
    content: Content,
    /// Where its data came from, for faults inside it.
    at: Path,
    names: [Path; 2],
}

impl Bundle {
    fn parse(object: &Object<'_>, together: &mut Together) -> Result<Self, Invalid> {
        object.only(&["type", "name", "description", "source"])?;
        let (mut name, mut description, mut source) = (None, None, None);
        for (member, value, path) in object.iter() {
            match member {
                "name" => name = Some(value.to_text(&path)?),
                "description" => description = Some(value.to_text(&path)?),
                "source" => source = Some(self::source(value, &path)?),
                _ => {}
            }
        }
        let name = object.required(name, "name")?;
        let description = object.required(description, "description")?;
        let (zip, at) = object.required(source, "source")?;
        let fault =
            |fault: crate::archive::ArchiveError| Invalid::other(at.echo(), fault.to_string());
        let archive = unpack(zip.bytes(), &Limits::BUNDLE).map_err(fault)?;
        let content = Content::new(archive.pack(&Limits::BUNDLE).map_err(fault)?);
        together.compressed += zip.bytes().len() as u64;
        together.expanded += archive.expanded();
        Ok(Self {
            name,
            description,
            archive,
            content,
            at,
            names: [object.path("name"), object.path("description")],
        })
    }

    /// ENV-519.
    fn agrees(&self, name: &str, description: &str) -> Result<(), Invalid> {
        let pairs = [(name, &self.name), (description, &self.description)];
        for ((inside, outside), path) in pairs.into_iter().zip(&self.names) {
            if inside != outside {
                let message = format!("'{path}' differs from the manifest in the archive.");
                return Err(Invalid::other(path.echo(), message));
            }
        }
        Ok(())
    }
}

/// `{type:"base64", media_type:"application/zip", data}` (ENV-518).
fn source(json: Json<'_>, path: &Path) -> Result<(Content, Path), Invalid> {
    let object = Object::open(json, path, &["type", "media_type", "data"])?;
    object.kind(&["base64"])?;
    let (mut media_type, mut data) = (None, None);
    for (member, value, path) in object.iter() {
        match member {
            "media_type" => {
                let word = value.to_text(&path)?;
                const ZIP: &[&str] = &["application/zip"];
                if !ZIP.contains(&word.as_str()) {
                    return Err(Invalid::not_one_of(&path, &word, ZIP));
                }
                media_type = Some(());
            }
            "data" => {
                let limit = usize::try_from(Limits::BUNDLE.compressed).unwrap_or(usize::MAX);
                data = Some((Content::parse(value, &path, limit)?, path));
            }
            _ => {}
        }
    }
    object.required(media_type, "media_type")?;
    object.required(data, "data")
}

/// What all inline archives of one member cost.
#[derive(Default)]
struct Together {
    compressed: u64,
    expanded: u64,
}

impl Together {
    fn check(&self, path: &Path) -> Result<(), Invalid> {
        let (compressed, expanded) = TOGETHER;
        if self.compressed <= compressed && self.expanded <= expanded {
            return Ok(());
        }
        let message = format!("'{path}' exceeds 10 MiB compressed or 50 MiB expanded in total.");
        Err(Invalid::other(path.echo(), message))
    }
}
