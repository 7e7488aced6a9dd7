//! `berth plugin install` and `berth plugin remove`.

use super::super::show;
use super::Place;
use super::check::{refused, say};
use crate::data_dir;
use anyhow::{Context, bail};
use clap::Args;
use plugin_host::Transport;
use plugin_host::contract::manifest::{Capability, Manifest};
use plugin_host::load::folder::{prepare, publish};
use plugin_host::load::{GrantedProgram, Grants, PluginFile, section, signature_of};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What to install.
#[derive(Debug, Args)]
pub struct Options {
    /// The plugin file, or the folder that `berth plugin build` built it in.
    path: PathBuf,
    /// A permission to grant; each that the plugin asks for must be granted.
    #[arg(long, value_name = "PERMISSION", value_delimiter = ',')]
    grant: Vec<String>,
    /// The program of this machine behind a name of the manifest, by its absolute path. Granted as it is now: one that
    /// changes is not started any more.
    #[arg(long = "program", value_name = "NAME=PATH", value_parser = named_program)]
    programs: Vec<(String, PathBuf)>,
    #[command(flatten)]
    place: Place,
}

fn named_program(text: &str) -> Result<(String, PathBuf), &'static str> {
    match text.split_once('=') {
        Some((name, path)) if path.starts_with('/') => Ok((name.to_owned(), path.into())),
        _ => Err("write NAME=/absolute/path"),
    }
}

/// What to remove.
#[derive(Debug, Args)]
pub struct Removal {
    /// Plugin id.
    id: String,
    #[command(flatten)]
    place: Place,
}

impl Options {
    pub(super) fn data_dir(&self) -> &Path {
        &self.place.data_dir
    }
}

impl Removal {
    pub(super) fn data_dir(&self) -> &Path {
        &self.place.data_dir
    }
}

/// Its name in a manifest and on the command line.
pub(super) fn name(capability: Capability) -> String {
    show::text(&json!(capability))
}

/// Installs it: grants first, then the file by one rename. Sessions that run keep the version they have.
///
/// # Errors
/// It is refused, asks for more than is granted, or the folder cannot be written.
pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    let source = built(&options.path)?;
    let file = PluginFile::read(&source).map_err(|reason| refused(&source, reason))?;
    say(&file);
    let asked = file.asked();
    let missing: Vec<String> = asked
        .iter()
        .map(|capability| name(*capability))
        .filter(|name| !options.grant.contains(name))
        .collect();
    if !missing.is_empty() {
        bail!(
            "{} asks for {}, which nobody granted; read the reasons above, and if you agree add --grant {}",
            file.manifest.id,
            missing.join(", "),
            missing.join(",")
        );
    }
    let programs = programs(&file.manifest, &options.programs)?;
    let settings = options.place.settings();
    let folder = data_dir::open(&options.place.data_dir)?.join(data_dir::PLUGINS);
    prepare(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    // Loading it here also compiles it, so that no Session waits for that.
    let loaded = file
        .load(&asked, &settings)
        .map_err(|reason| refused(&source, reason))?;
    if let Some(name) = &loaded.signed_by {
        say!("signature    by {name}");
    }
    place(&file, (asked, programs), &folder)?;
    say!(
        "{} {} is installed",
        file.manifest.id,
        file.manifest.version
    );
    Ok(())
}

/// The file itself, or the one that a folder was built to.
fn built(path: &Path) -> anyhow::Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let entries = std::fs::read_dir(path)?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut found: Vec<_> = entries
        .filter(|path| path.extension().is_some_and(|ending| ending == "wasm"))
        .collect();
    match (found.pop(), found.pop()) {
        (Some(file), None) => Ok(file),
        (None, _) => bail!(
            "{} holds no .wasm file; run `berth plugin build {}` first",
            path.display(),
            path.display()
        ),
        _ => bail!("{} holds several .wasm files; name one", path.display()),
    }
}

/// Each program of the manifest with the file that the operator names for it.
fn programs(
    manifest: &Manifest,
    named: &[(String, PathBuf)],
) -> anyhow::Result<BTreeMap<String, GrantedProgram>> {
    let wanted: BTreeSet<&str> = manifest
        .programs
        .iter()
        .map(|it| it.name.as_str())
        .collect();
    if let Some((name, _)) = named
        .iter()
        .find(|(name, _)| !wanted.contains(name.as_str()))
    {
        bail!("{} starts no program called `{name}`", manifest.id);
    }
    let mut granted = BTreeMap::new();
    for name in wanted {
        let Some((_, path)) = named.iter().find(|(known, _)| known == name) else {
            bail!(
                "{} starts a program that it calls `{name}`; say which one of this machine that is: --program {name}=/path",
                manifest.id
            );
        };
        let program = GrantedProgram::at(path)
            .with_context(|| format!("{} cannot be granted", path.display()))?;
        granted.insert(name.to_owned(), program);
    }
    Ok(granted)
}

type Granted = (BTreeSet<Capability>, BTreeMap<String, GrantedProgram>);

fn place(file: &PluginFile, (granted, programs): Granted, folder: &Path) -> anyhow::Result<()> {
    let ending = match file.transport {
        Transport::Native => "so",
        _ => "wasm",
    };
    let target = folder.join(format!("{}.{ending}", file.manifest.id));
    let before = PluginFile::read(&target).map(|old| old.digest).ok();
    let mut grants = Grants::read(folder)?;
    grants.grant(&file.digest, granted);
    grants.grant_programs(&file.digest, programs);
    grants.write(folder)?;
    if section::manifest(file.bytes()).is_none() {
        let beside = std::fs::read(file.path.with_extension("toml"))?;
        publish(&target.with_extension("toml"), &beside)?;
    }
    // The former signature is not one of the new file.
    gone(&signature_of(&target))?;
    publish(&target, file.bytes())?;
    match std::fs::read(signature_of(&file.path)) {
        Ok(signature) => publish(&signature_of(&target), &signature)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    // Whatever else had this id: the other transport, or the version before.
    for other in ["so", "wasm"].into_iter().filter(|other| *other != ending) {
        let other = folder.join(format!("{}.{other}", file.manifest.id));
        gone(&other)?;
        gone(&signature_of(&other))?;
    }
    if let Some(before) = before.filter(|before| *before != file.digest) {
        grants.revoke(&before);
        grants.write(folder)?;
    }
    Ok(())
}

/// Removes it and what it was granted. Sessions that run keep it until they end.
///
/// # Errors
/// It is built in, or not there.
pub(super) fn remove(options: &Removal) -> anyhow::Result<()> {
    let folder = options.place.data_dir.join(data_dir::PLUGINS);
    let mut removed = false;
    for ending in ["so", "wasm"] {
        let path = folder.join(format!("{}.{ending}", options.id));
        if !path.is_file() {
            continue;
        }
        let digest = PluginFile::read(&path).map(|file| file.digest);
        gone(&path)?;
        gone(&path.with_extension("toml"))?;
        gone(&signature_of(&path))?;
        if let Ok(digest) = digest {
            let mut grants = Grants::read(&folder)?;
            grants.revoke(&digest);
            grants.write(&folder)?;
        }
        removed = true;
    }
    if !removed {
        bail!(
            "no installed plugin has the id `{}` (what is built in cannot be removed); `berth plugin list` shows all",
            options.id
        );
    }
    say!("{} is removed", options.id);
    Ok(())
}

fn gone(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
