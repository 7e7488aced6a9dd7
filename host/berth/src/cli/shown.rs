//! Every setting of a Core, for the facts of the installation.

use super::serve::Options;
use berth_core::ShownSetting;
use clap::ValueEnum;
use std::path::Path;

/// Every setting with its default, as `GET /core/v1/installation` shows it. Only an address of a database may hide something.
pub(super) fn shown(options: &Options, defaults: &Options) -> Vec<ShownSetting> {
    type Read = fn(&Options) -> Option<String>;
    fn path(path: &Path) -> String {
        path.display().to_string()
    }
    let rows: [(&'static str, bool, Read); 22] = [
        ("data-dir", false, |o| Some(path(&o.data_dir))),
        ("listen", false, |o| Some(o.listen.to_string())),
        ("database-url", true, |o| {
            o.database_url.as_ref().map(ToString::to_string)
        }),
        ("database-password-file", false, |o| {
            o.database_password_file.as_deref().map(path)
        }),
        ("public-url", false, |o| {
            o.public_url.as_ref().map(ToString::to_string)
        }),
        ("local-isolation", false, |o| Some(o.local_isolation.name())),
        ("allow-local-provider-on-network", false, |o| {
            Some(o.allow_local_provider_on_network.to_string())
        }),
        ("local-expose", false, |o| {
            let list: Vec<_> = o.local_expose.iter().map(|one| path(one)).collect();
            (!list.is_empty()).then(|| list.join(","))
        }),
        ("allow-loopback-model-urls", false, |o| {
            Some(o.allow_loopback_model_urls.to_string())
        }),
        ("oauth-trusted-origin", false, |o| {
            (!o.oauth_trusted_origin.is_empty()).then(|| o.oauth_trusted_origin.join(","))
        }),
        ("oauth-ca-file", false, |o| {
            o.oauth_ca_file.as_deref().map(path)
        }),
        ("harnesses", false, |o| {
            (!o.harnesses.is_empty()).then(|| o.harnesses.join(","))
        }),
        ("default-harness", false, |o| o.default_harness.clone()),
        ("allow-native-plugins", false, |o| {
            Some(o.allow_native_plugins.to_string())
        }),
        ("require-signed-plugins", false, |o| {
            Some(o.require_signed_plugins.to_string())
        }),
        ("execution-concurrency", false, |o| {
            Some(o.execution_concurrency.to_string())
        }),
        ("executor-idle-seconds", false, |o| {
            Some(o.executor_idle_seconds.to_string())
        }),
        ("write-audit-retention-hours", false, |o| {
            Some(o.write_audit_retention_hours.to_string())
        }),
        ("drain-seconds", false, |o| {
            Some(o.drain_seconds.to_string())
        }),
        ("max-connections", false, |o| {
            Some(o.max_connections.to_string())
        }),
        ("log-level", false, |o| Some(o.log.log_level.clone())),
        ("log-format", false, |o| {
            let name = o.log.log_format.to_possible_value();
            name.map(|name| name.get_name().to_owned())
        }),
    ];
    rows.into_iter()
        .map(|(key, sensitive, read)| ShownSetting {
            key,
            value: read(options),
            default: read(defaults),
            sensitive,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Args;

    #[test]
    fn every_setting_is_shown() {
        // OPS-082
        let options = Options::defaults().unwrap();
        let shown: Vec<_> = shown(&options, &options)
            .iter()
            .map(|one| one.key)
            .collect();
        let command = <Options as Args>::augment_args(clap::Command::new("berth"));
        let flags: Vec<_> = command
            .get_arguments()
            .filter_map(|flag| flag.get_long())
            .collect();
        assert_eq!(shown, flags);
    }
}
