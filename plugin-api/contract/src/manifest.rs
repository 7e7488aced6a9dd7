//! `plugin.toml`: what the host has to know before it runs a line of a plugin. Unknown keys are errors, so that a
//! misspelt permission cannot be a silent refusal.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// A whole `plugin.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Manifest {
    /// `[a-z0-9-]{1,64}`, unique among the plugins of one host.
    pub id: String,
    /// The plugin's own version, semantic.
    pub version: String,
    /// For people.
    pub name: String,
    /// SPDX expression.
    pub license: String,
    /// What it is.
    pub kind: Kind,
    /// Version of this contract that it was written against, such as `0.2.0`.
    pub contract: String,
    /// Each capability it imports, with the reason that the operator reads before granting it.
    #[serde(default)]
    pub permissions: BTreeMap<Capability, String>,
    /// Programs that harnesses run (`kind = "harness"`).
    #[serde(default, rename = "harness")]
    pub harnesses: Vec<Harness>,
    /// Addresses that `http` may reach.
    #[serde(default, rename = "endpoint")]
    pub endpoints: Vec<Endpoint>,
    /// Programs that `program` may start.
    #[serde(default, rename = "program")]
    pub programs: Vec<Program>,
    /// What the operator can set.
    #[serde(default, rename = "setting")]
    pub settings: Vec<Setting>,
    /// What `machine` may show inside.
    #[serde(default)]
    pub machine: Option<Machine>,
}

/// Kind of a plugin; decides the world it is linked into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// [`crate::HarnessAdapter`], in the Runtime.
    Harness,
    /// [`crate::SandboxProvider`], in Core.
    SandboxProvider,
    /// [`crate::McpResolver`], in the Runtime.
    McpResolver,
}

/// An import that needs a grant. `log` needs none: every world has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    /// Time.
    Clock,
    /// Randomness.
    Random,
    /// Small durable records.
    State,
    /// Requests to its endpoints.
    Http,
    /// Its programs.
    Program,
    /// The isolated process tree on Core's own host.
    Machine,
}

/// How the program of a harness is installed, checked and found (HAR-001, HAR-002).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Harness {
    /// Name that a declaration's `install` refers to.
    pub id: String,
    /// npm package; the host installs `package@pin` into a folder of its own.
    pub package: String,
    /// The exact version this plugin was proven with.
    pub pin: String,
    /// Semantic version requirement of all versions it may run.
    pub range: String,
    /// Argument lists, each run once with the entry's only program; their output goes to `interpret-probe` (HAR-003).
    pub probe: Vec<Vec<String>>,
    /// One entry for each system it runs on.
    #[serde(rename = "system")]
    pub systems: Vec<System>,
}

/// Where the program is on one operating system and architecture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct System {
    /// As `std::env::consts::OS`.
    pub os: String,
    /// As `std::env::consts::ARCH`.
    pub arch: String,
    /// Subresource integrity of the package's archive that holds the program (`sha512-…`), as the lock file of the
    /// installation must have it.
    pub integrity: String,
    /// Key of that package in the lock file, such as `node_modules/@openai/codex-linux-x64`.
    pub locked: String,
    /// Program name of a launch plan to path, relative to the folder of the installation.
    pub programs: BTreeMap<String, String>,
    /// Folders that go first in the program's PATH, relative to the folder of the installation.
    #[serde(default)]
    pub path: Vec<String>,
}

/// One granted address: a URL or a Unix socket, by alias.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Endpoint {
    /// The alias that a request names.
    pub name: String,
    /// `https://…` with DNS-label placeholders such as `{id}`, or `unix:/absolute/path`; a `{setting.key}` is replaced by
    /// the operator's setting.
    pub base: String,
    /// Methods it may use.
    pub methods: Vec<String>,
    /// Keys of the secret settings that may be filled in.
    #[serde(default)]
    pub secrets: Vec<String>,
}

/// One program that a provider may start, by alias.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Program {
    /// The alias that a command names.
    pub name: String,
    /// Allowed argument lists: `*` is one argument, `**` the rest.
    pub args: Vec<Vec<String>>,
}

/// One setting of the plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Setting {
    /// `[a-z0-9-]{1,64}`.
    pub key: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: SettingKind,
    /// What it means, for people.
    pub description: String,
    /// Whether the plugin is useless without it.
    #[serde(default)]
    pub required: bool,
    /// Value when the operator says nothing; never for a secret.
    #[serde(default)]
    pub default: Option<String>,
}

/// Type of a setting. All values travel as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SettingKind {
    /// Text.
    String,
    /// `true` or `false`.
    Bool,
    /// A decimal integer.
    Integer,
    /// Never enters the plugin; named by `secret-ref.setting`.
    Secret,
}

/// What a machine provider may show inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Machine {
    /// Absolute folders and files of the host for `mount-source.system` (LOC-005).
    pub system: Vec<String>,
}

/// Why a manifest is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// A name does not have its form.
    #[error("{0}: {1:?} is not a valid name")]
    Name(&'static str, String),
    /// Two entries of one table have one name.
    #[error("{0}: {1:?} is there twice")]
    Twice(&'static str, String),
    /// A table or permission that this kind of plugin cannot have.
    #[error("{0} is not for a plugin of this kind")]
    NotForKind(&'static str),
    /// A table without its permission, or a permission without its table.
    #[error("{0} needs both its permission and its table")]
    Unpaired(&'static str),
    /// A permission without a reason.
    #[error("permission {0:?} has no reason")]
    NoReason(Capability),
    /// A path that could leave its folder.
    #[error("{0:?} is not a clean relative path")]
    Path(String),
    /// A machine path that is not absolute and clean.
    #[error("{0:?} is not a clean absolute path")]
    SystemPath(String),
    /// A secret with a default.
    #[error("secret setting {0:?} has a default")]
    SecretDefault(String),
    /// A harness plugin without a harness, or a harness without system or program.
    #[error("{0} is empty")]
    Empty(&'static str),
    /// An endpoint whose address is of no known form, or that has no method.
    #[error(
        "endpoint {0:?} needs a base that begins with https://, unix:/ or a {{setting.…}}, and methods in capitals"
    )]
    Endpoint(String),
    /// An endpoint names a secret that is no secret setting.
    #[error("endpoint secret {0:?} is not a secret setting")]
    UnknownSecret(String),
}

impl Manifest {
    /// Checks what the types cannot say. Version strings and ranges are the host's to parse.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn check(&self) -> Result<(), ManifestError> {
        name("id", &self.id)?;
        for (capability, reason) in &self.permissions {
            if reason.trim().is_empty() {
                return Err(ManifestError::NoReason(*capability));
            }
        }
        self.check_kind()?;
        unique("harness", self.harnesses.iter().map(|x| &x.id))?;
        unique("endpoint", self.endpoints.iter().map(|x| &x.name))?;
        unique("program", self.programs.iter().map(|x| &x.name))?;
        unique("setting", self.settings.iter().map(|x| &x.key))?;
        for harness in &self.harnesses {
            harness.check()?;
        }
        for setting in &self.settings {
            if setting.kind == SettingKind::Secret && setting.default.is_some() {
                return Err(ManifestError::SecretDefault(setting.key.clone()));
            }
        }
        for endpoint in &self.endpoints {
            endpoint.check()?;
        }
        self.check_secrets()?;
        for path in self.machine.iter().flat_map(|x| &x.system) {
            if !path.strip_prefix('/').is_some_and(clean) {
                return Err(ManifestError::SystemPath(path.clone()));
            }
        }
        Ok(())
    }

    fn check_kind(&self) -> Result<(), ManifestError> {
        let provider = self.kind == Kind::SandboxProvider;
        if !provider && !self.permissions.is_empty() {
            return Err(ManifestError::NotForKind("permissions"));
        }
        if self.kind == Kind::Harness && self.harnesses.is_empty() {
            return Err(ManifestError::Empty("harness"));
        }
        if self.kind != Kind::Harness && !self.harnesses.is_empty() {
            return Err(ManifestError::NotForKind("harness"));
        }
        let pairs = [
            (Capability::Http, "endpoint", !self.endpoints.is_empty()),
            (Capability::Program, "program", !self.programs.is_empty()),
            (Capability::Machine, "machine", self.machine.is_some()),
        ];
        for (capability, table, present) in pairs {
            if present && !provider {
                return Err(ManifestError::NotForKind(table));
            }
            if present != self.permissions.contains_key(&capability) {
                return Err(ManifestError::Unpaired(table));
            }
        }
        Ok(())
    }

    fn check_secrets(&self) -> Result<(), ManifestError> {
        let secrets: BTreeSet<&str> = self
            .settings
            .iter()
            .filter(|x| x.kind == SettingKind::Secret)
            .map(|x| x.key.as_str())
            .collect();
        for secret in self.endpoints.iter().flat_map(|x| &x.secrets) {
            if !secrets.contains(secret.as_str()) {
                return Err(ManifestError::UnknownSecret(secret.clone()));
            }
        }
        Ok(())
    }
}

impl Endpoint {
    /// What stands behind a setting is the host's to judge.
    fn check(&self) -> Result<(), ManifestError> {
        // Plain HTTP to this machine alone: for a provider's own tests.
        let forms = [
            "https://",
            "unix:/",
            "{setting.",
            "http://127.0.0.1",
            "http://[::1]",
            "http://localhost",
        ];
        let known = forms.iter().any(|form| self.base.starts_with(form));
        let capitals = |method: &String| {
            !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase())
        };
        if known && !self.methods.is_empty() && self.methods.iter().all(capitals) {
            Ok(())
        } else {
            Err(ManifestError::Endpoint(self.name.clone()))
        }
    }
}

impl Harness {
    fn check(&self) -> Result<(), ManifestError> {
        if self.systems.is_empty() {
            return Err(ManifestError::Empty("harness.system"));
        }
        for system in &self.systems {
            if system.programs.is_empty() {
                return Err(ManifestError::Empty("harness.system.programs"));
            }
            for path in system
                .programs
                .values()
                .chain(&system.path)
                .chain([&system.locked])
            {
                if !clean(path) {
                    return Err(ManifestError::Path(path.clone()));
                }
            }
        }
        Ok(())
    }
}

fn unique<'a>(
    table: &'static str,
    names: impl Iterator<Item = &'a String>,
) -> Result<(), ManifestError> {
    let mut seen = BTreeSet::new();
    for entry in names {
        name(table, entry)?;
        if !seen.insert(entry) {
            return Err(ManifestError::Twice(table, entry.clone()));
        }
    }
    Ok(())
}

fn name(table: &'static str, name: &str) -> Result<(), ManifestError> {
    let valid = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_');
    if (1..=64).contains(&name.len()) && name.bytes().all(valid) {
        Ok(())
    } else {
        Err(ManifestError::Name(table, name.to_owned()))
    }
}

/// Relative, without empty, `.` or `..` segments, backslashes or NUL.
fn clean(path: &str) -> bool {
    !path.contains(['\\', '\0'])
        && path
            .split('/')
            .all(|segment| !matches!(segment, "" | "." | ".."))
}
