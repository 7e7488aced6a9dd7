//! Environment Templates (api-surface 10.1): safe metadata only (ENV-438).

use domain::blob::BlobRef;
use domain::preparation::{InitialFile, Network, Packages, PluginSource, SkillSource};
use domain::template::Template;
use serde::Serialize;

/// A Template.
#[derive(Serialize)]
pub(crate) struct TemplateJson<'a> {
    id: String,
    object: &'static str,
    created_at: i64,
    updated_at: i64,
    name: Option<&'a str>,
    capability_directories: &'a [String],
    files: Vec<FileJson<'a>>,
    network: &'a Network,
    packages: PackagesJson<'a>,
    plugins: Vec<InlineJson<'a>>,
    skills: Vec<SkillJson<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum FileJson<'a> {
    FileId { file_id: &'a str, path: &'a str },
    Inline { path: &'a str, size_bytes: u64 },
}

/// The selector of a reference stays unresolved (ENV-515).
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum SkillJson<'a> {
    SkillReference {
        skill_id: &'a str,
        version: Option<&'a str>,
    },
    Inline {
        name: &'a str,
        description: &'a str,
    },
}

/// A Plugin: always inline (ENV-526).
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum InlineJson<'a> {
    Inline { name: &'a str, description: &'a str },
}

/// Packages of all managers; `system` is there and empty (ENV-325).
#[derive(Serialize)]
pub(crate) struct PackagesJson<'a> {
    npm: &'a [String],
    python: &'a [String],
    system: [(); 0],
}

/// Shows a Template.
pub(crate) fn template(template: &Template) -> TemplateJson<'_> {
    let preparation = &template.preparation;
    TemplateJson {
        id: template.id.to_string(),
        object: "agent.environment.template",
        created_at: template.created_at.seconds(),
        updated_at: template.updated_at.seconds(),
        name: template.name.as_deref(),
        capability_directories: &preparation.capability_directories,
        files: preparation.files.iter().map(file).collect(),
        network: &preparation.network,
        packages: packages(&preparation.packages),
        plugins: preparation.plugins.iter().map(plugin).collect(),
        skills: preparation.skills.iter().map(skill).collect(),
    }
}

fn file(file: &InitialFile<BlobRef>) -> FileJson<'_> {
    match file {
        InitialFile::FileId { file_id, path } => FileJson::FileId { file_id, path },
        InitialFile::Inline { path, content } => FileJson::Inline {
            path,
            size_bytes: content.size,
        },
    }
}

/// Shows packages.
pub(crate) fn packages(packages: &Packages) -> PackagesJson<'_> {
    PackagesJson {
        npm: &packages.npm,
        python: &packages.python,
        system: [],
    }
}

fn plugin(plugin: &PluginSource<BlobRef>) -> InlineJson<'_> {
    InlineJson::Inline {
        name: &plugin.name,
        description: &plugin.description,
    }
}

fn skill(skill: &SkillSource<BlobRef>) -> SkillJson<'_> {
    match skill {
        SkillSource::SkillReference { skill_id, version } => SkillJson::SkillReference {
            skill_id,
            version: version.as_deref(),
        },
        SkillSource::Inline {
            name, description, ..
        } => SkillJson::Inline { name, description },
    }
}
