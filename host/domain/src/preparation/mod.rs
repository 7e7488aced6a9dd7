//! What is laid into a workspace before the first Turn: files, packages, variables, setup commands, Skills, Plugins, and the
//! network it may use (`environments.md` 10 to 14).
//!
//! One parser serves Templates, inline configuration and `x_agents_core.environment` (ENV-292); [`PreparationPatch`] is what a
//! caller says, [`Preparation`] what is stored and frozen. Bytes travel as [`Content`] inside a request and are [`BlobRef`]s
//! once they are stored.

mod content;
mod files;
mod inherit;
mod network;
mod packages;
mod parse;
mod place;
mod variables;

use serde::{Deserialize, Serialize};

use crate::blob::BlobRef;
use crate::json::Field;

pub use content::Content;
pub use files::InitialFile;
pub use inherit::Widening;
pub use network::{Access, Network};
pub use packages::{Packages, PackagesPatch};
pub use parse::{MEMBERS, PluginSource, SkillSource};
pub use place::WORKSPACE;
pub use variables::{SetupCommand, Variables};

/// Most initial files, Skills or Plugins of one configuration (ENV-491, ENV-532, ENV-533).
pub const MAX_ITEMS: usize = 50;

/// What a request says about preparation: members left out, null, or given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the members of api-surface 5.1 and 10.1")]
pub struct PreparationPatch<C = Content> {
    #[serde(skip_serializing_if = "Field::is_omitted")]
    pub capability_directories: Field<Vec<String>>,
    #[serde(skip_serializing_if = "Field::is_omitted")]
    pub env: Field<Variables>,
    #[serde(skip_serializing_if = "Field::is_omitted")]
    pub files: Field<Vec<InitialFile<C>>>,
    #[serde(skip_serializing_if = "Field::is_omitted")]
    pub network: Field<Network>,
    #[serde(skip_serializing_if = "Field::is_omitted")]
    pub packages: Field<PackagesPatch>,
    #[serde(skip_serializing_if = "Field::is_omitted")]
    pub plugins: Field<Vec<PluginSource<C>>>,
    #[serde(skip_serializing_if = "Field::is_omitted")]
    pub setup_commands: Field<Vec<SetupCommand>>,
    #[serde(skip_serializing_if = "Field::is_omitted")]
    pub skills: Field<Vec<SkillSource<C>>>,
}

impl<C> Default for PreparationPatch<C> {
    fn default() -> Self {
        Self {
            capability_directories: Field::Omitted,
            env: Field::Omitted,
            files: Field::Omitted,
            network: Field::Omitted,
            packages: Field::Omitted,
            plugins: Field::Omitted,
            setup_commands: Field::Omitted,
            skills: Field::Omitted,
        }
    }
}

impl<C> PreparationPatch<C> {
    /// Leaves out what says nothing where there is no Template: null, and what is empty or the default anyway.
    pub fn settle(&mut self) {
        fn drop<T>(field: &mut Field<T>, is_nothing: impl Fn(&T) -> bool) {
            if match field {
                Field::Omitted | Field::Null => true,
                Field::Value(value) => is_nothing(value),
            } {
                *field = Field::Omitted;
            }
        }
        drop(&mut self.capability_directories, Vec::is_empty);
        drop(&mut self.env, Variables::is_empty);
        drop(&mut self.files, Vec::is_empty);
        drop(&mut self.network, |network| *network == Network::default());
        drop(&mut self.packages, |packages| {
            packages.over(&Packages::default()) == Packages::default()
        });
        drop(&mut self.plugins, Vec::is_empty);
        drop(&mut self.setup_commands, Vec::is_empty);
        drop(&mut self.skills, Vec::is_empty);
    }
}

/// What is stored of it in clear; variables and setup commands are sealed beside it (ENV-438, ENV-443).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the members of api-surface 10.1")]
pub struct Preparation {
    pub capability_directories: Vec<String>,
    pub files: Vec<InitialFile<BlobRef>>,
    pub network: Network,
    pub packages: Packages,
    pub plugins: Vec<PluginSource<BlobRef>>,
    pub skills: Vec<SkillSource<BlobRef>>,
}

/// The confidential part.
#[derive(Clone, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the members of api-surface 10.1")]
pub struct Confidential {
    pub env: Variables,
    pub setup_commands: Vec<SetupCommand>,
}

impl std::fmt::Debug for Confidential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Confidential(…)")
    }
}

impl Preparation {
    /// Replaces what a patch gives; null clears (ENV-441, ENV-442).
    pub fn update(&mut self, confidential: &mut Confidential, patch: PreparationPatch<BlobRef>) {
        replace(
            &mut self.capability_directories,
            patch.capability_directories,
        );
        replace(&mut confidential.env, patch.env);
        replace(&mut self.files, patch.files);
        replace(&mut self.network, patch.network);
        match patch.packages {
            Field::Omitted => {}
            Field::Null => self.packages = Packages::default(),
            Field::Value(packages) => self.packages = packages.over(&Packages::default()),
        }
        replace(&mut self.plugins, patch.plugins);
        replace(&mut confidential.setup_commands, patch.setup_commands);
        replace(&mut self.skills, patch.skills);
    }

    /// The bytes that came inside requests and belong to it.
    pub fn inline(&self) -> impl Iterator<Item = &BlobRef> {
        let files = self.files.iter().filter_map(InitialFile::inline);
        let plugins = self.plugins.iter().map(|plugin| &plugin.content);
        let skills = self.skills.iter().filter_map(SkillSource::inline);
        files.chain(plugins).chain(skills)
    }
}

fn replace<T: Default>(place: &mut T, field: Field<T>) {
    match field {
        Field::Omitted => {}
        Field::Null => *place = T::default(),
        Field::Value(value) => *place = value,
    }
}
