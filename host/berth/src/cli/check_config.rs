//! `berth check-config`, and what `berth serve` may be told: rules between settings that a single flag cannot know.

use super::database;
use super::expose::{self, Private};
use super::serve::{Options, sessions_dir};
use crate::data_dir::{self, PLUGINS, read_secret};
use anyhow::{Context, bail};
use berth_core::IssuerSettings;
use std::path::Path;

/// What clap cannot know: rules between settings.
pub(super) fn check(options: &Options) -> anyhow::Result<()> {
    if let Some(url) = &options.public_url {
        let plain = url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none()
            && url.path() == "/";
        if !["http", "https"].contains(&url.scheme()) || url.host().is_none() || !plain {
            bail!(
                "--public-url must be one origin, such as https://agents.example.com, without path, query or user"
            );
        }
    }
    let on_network = !options.listen.ip().is_loopback();
    if on_network && options.public_url.is_none() {
        bail!(
            "--listen {} is reachable from outside, so --public-url must say under which address",
            options.listen
        );
    }
    // LOC-004
    if on_network && !options.allow_local_provider_on_network {
        bail!(
            "--listen {} is reachable from outside, and Environments of several tenants on this machine's one kernel are the operator's decision: \
             add --allow-local-provider-on-network to decide so",
            options.listen
        );
    }
    database::check(options.database_url.as_ref())?;
    if let Some(path) = options.local_expose.iter().find(|path| !path.is_absolute()) {
        bail!("--local-expose {} must be an absolute path", path.display());
    }
    issuers(options)?;
    Ok(())
}

/// What agents see holds nothing private of ours (LOC-001).
pub(super) fn exposes(
    options: &Options,
    folder: &Path,
    plugins: &plugin_host::Plugins,
) -> anyhow::Result<()> {
    let mut private = vec![
        Private::new("the data folder, which holds keys,", folder),
        Private::new("the folder of all workspaces", &sessions_dir(folder)),
    ];
    let password = options.database_password_file.as_deref();
    private
        .extend(password.map(|path| Private::new("the file of --database-password-file,", path)));
    let shows = plugins
        .providers()
        .filter_map(|provider| provider.manifest.machine);
    let system: Vec<String> = shows.flat_map(|machine| machine.system).collect();
    expose::check(&options.local_expose, &system, &private)
}

/// Judges the settings without starting, making or taking anything (OPS-083).
///
/// # Errors
/// The first setting that cannot be used.
pub fn run(options: Options) -> anyhow::Result<()> {
    check(&options)?;
    let folder = std::path::absolute(&options.data_dir)?;
    for name in [data_dir::CREDENTIAL_KEY, data_dir::CORE_KEY] {
        let secret = folder.join(name);
        if secret.exists() {
            read_secret(&secret)?;
        }
    }
    let plugin_dir = folder.join(PLUGINS);
    let plugins = plugin_host::Plugins::open(&plugin_host::Settings {
        folder: plugin_dir.is_dir().then_some(plugin_dir),
        allow_native: options.allow_native_plugins,
        require_signed: options.require_signed_plugins,
    })?;
    exposes(&options, &folder, &plugins)?;
    enabled(&options, &plugins)?;
    let password = options.database_password_file.as_deref();
    database::of(options.database_url.clone(), password)?;
    say!("the settings of `berth serve` can be used; nothing was started");
    Ok(())
}

/// Harnesses that the settings name are there (SLC-009).
fn enabled(options: &Options, plugins: &plugin_host::Plugins) -> anyhow::Result<()> {
    let declared = plugins.harnesses()?;
    let declared: Vec<&str> = declared
        .iter()
        .map(|harness| harness.declaration.id.as_str())
        .collect();
    let missing = |name: &&String| !declared.contains(&name.as_str());
    if let Some(name) = options.harnesses.iter().find(missing) {
        bail!(
            "--harnesses names `{name}`, which no plugin declares; there are: {}",
            declared.join(", ")
        );
    }
    let on = |name: &String| options.harnesses.is_empty() || options.harnesses.contains(name);
    match &options.default_harness {
        Some(name) if missing(&name) || !on(name) => {
            bail!("--default-harness names `{name}`, which is not enabled; see --harnesses")
        }
        _ => Ok(()),
    }
}

/// Which OAuth issuers may be asked (OAU-011): an entry that is none stops the start.
pub(super) fn issuers(options: &Options) -> anyhow::Result<IssuerSettings> {
    let origin = |text: &String| -> anyhow::Result<net::TrustedOrigin> {
        text.parse()
            .with_context(|| format!("--oauth-trusted-origin {text}"))
    };
    let mut settings = IssuerSettings {
        trusted: options
            .oauth_trusted_origin
            .iter()
            .map(origin)
            .collect::<Result<_, _>>()?,
        ..IssuerSettings::default()
    };
    if let Some(file) = &options.oauth_ca_file {
        let read = || format!("--oauth-ca-file {}", file.display());
        let pem = std::fs::read(file).with_context(read)?;
        settings.authorities = net::Authorities::parse(&pem).with_context(read)?;
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn refusal(words: &[&str]) -> String {
        let line = Line::parse_from(["berth"].iter().chain(words));
        check(&line.options)
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    }

    #[test]
    fn settings_that_do_not_fit_together_are_refused_before_anything_is_written() {
        assert_eq!(refusal(&[]), "");
        assert!(refusal(&["--listen", "0.0.0.0:1"]).contains("--public-url"));
        // LOC-004
        assert!(
            refusal(&["--listen", "0.0.0.0:1", "--public-url", "https://x.test"])
                .contains("--allow-local-provider-on-network")
        );
        assert_eq!(
            refusal(&[
                "--listen",
                "0.0.0.0:1",
                "--public-url",
                "https://x.test",
                "--allow-local-provider-on-network"
            ]),
            ""
        );
        for url in [
            "https://x.test/path",
            "ftp://x.test",
            "https://u@x.test",
            "https://x.test/?q",
        ] {
            assert!(
                refusal(&["--public-url", url]).contains("one origin"),
                "{url}"
            );
        }
        assert!(refusal(&["--database-url", "mysql://x/y"]).contains("postgres://"));
        assert!(
            refusal(&["--database-url", "postgres://u:p@x/y"]).contains("--database-password-file")
        );
        assert!(refusal(&["--local-expose", "relative"]).contains("absolute"));
        // OAU-011
        assert!(
            refusal(&["--oauth-trusted-origin", "http://idp.test"]).contains("http://idp.test")
        );
        assert_eq!(
            refusal(&[
                "--oauth-trusted-origin",
                "https://idp.test:8443,https://b.test"
            ]),
            ""
        );
        assert!(refusal(&["--oauth-ca-file", "/nonexistent.pem"]).contains("/nonexistent.pem"));
    }
}
