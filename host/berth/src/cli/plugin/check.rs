//! `berth plugin check`: everything that can be judged about a plugin file before it is installed.

use super::Place;
use clap::Args;
use plugin_host::load::PluginFile;
use plugin_host::{Driver, Plugin, Transport};
use std::path::{Path, PathBuf};

/// What to judge.
#[derive(Debug, Args)]
pub struct Options {
    /// The plugin file.
    file: PathBuf,
    #[command(flatten)]
    place: Place,
}

/// Judges it and says what was judged.
///
/// # Errors
/// The first thing that is wrong.
pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    let file = PluginFile::read(&options.file).map_err(|reason| refused(&options.file, reason))?;
    say(&file);
    let mut settings = options.place.settings();
    if !options.place.data_dir.is_dir() {
        // With a data folder what is compiled now need not be compiled again by `install`; without one nothing is kept.
        settings.folder = None;
    }
    let plugin = file
        .load(&file.asked(), &settings)
        .map_err(|reason| refused(&options.file, reason))?;
    say!("loads        yes: imports, exports and their shapes are the contract's");
    conformance(&plugin)?;
    say!("conformance  passed");
    Ok(())
}

/// The sentence for a file that is refused.
pub(super) fn refused(path: &Path, reason: plugin_host::load::Refusal) -> anyhow::Error {
    anyhow::Error::new(plugin_host::load::Refused {
        path: path.to_owned(),
        reason,
    })
}

/// What a file says about itself.
pub(super) fn say(file: &PluginFile) {
    let manifest = &file.manifest;
    say!(
        "plugin       {} {} ({})",
        manifest.id,
        manifest.version,
        manifest.name
    );
    say!("licence      {}", manifest.license);
    say!("transport    {}", file.transport.name());
    say!("size         {} KiB", file.size().div_ceil(1024));
    say!("digest       {}", file.digest);
    if file.transport == Transport::Native {
        say!(
            "trust        it runs with all rights of Berth: files, keys, network; install it only if you trust its author"
        );
    }
    if manifest.permissions.is_empty() {
        say!("permissions  none");
    }
    for (capability, reason) in &manifest.permissions {
        say!(
            "permission   {}: {reason}",
            super::install::name(*capability)
        );
    }
    for endpoint in &manifest.endpoints {
        let secrets = match endpoint.secrets.as_slice() {
            [] => String::new(),
            keys => format!(", with the secret settings {}", keys.join(", ")),
        };
        let (base, methods) = (&endpoint.base, endpoint.methods.join(", "));
        say!("  reaches    {base} ({methods}){secrets}");
    }
    for program in &manifest.programs {
        let lists = program.args.iter().map(|args| args.join(" "));
        let lists = lists.collect::<Vec<_>>().join(" | ");
        say!("  starts     {} {lists}", program.name);
    }
}

/// The kit's suite of the plugin's kind.
///
/// # Errors
/// The rule that it breaks.
pub(super) fn conformance(plugin: &Plugin) -> kit::Result {
    match &plugin.driver {
        Driver::Harness(adapter) => kit::harness::suite(&**adapter, &[], &plugin.manifest),
        Driver::Sandbox(provider) => {
            kit::provider::suite(&**provider, &kit::provider::Case::plain(Vec::new()))
        }
        Driver::Resolver(resolver) => kit::resolver::suite(&**resolver),
    }
}
