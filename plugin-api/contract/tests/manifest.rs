//! What a `plugin.toml` may say.

#![allow(clippy::unwrap_used)]

use contract::manifest::{Capability, Manifest, ManifestError};

const PROVIDER: &str = r#"
id = "sandbox-here"
version = "0.1.0"
name = "Here"
license = "Apache-2.0"
kind = "sandbox-provider"
contract = "0.2.0"

[permissions]
machine = "Starts one isolated process tree for each environment."
http = "Asks the service."

[machine]
system = ["/usr", "/etc/ssl"]

[[endpoint]]
name = "api"
base = "https://api.example.com"
methods = ["GET"]
secrets = ["api-key"]

[[setting]]
key = "api-key"
type = "secret"
description = "Key of the service."
"#;

fn check(text: &str) -> Result<(), ManifestError> {
    toml::from_str::<Manifest>(text).unwrap().check()
}

#[test]
fn a_complete_manifest_passes() {
    assert_eq!(check(PROVIDER), Ok(()));
}

#[test]
fn an_unknown_key_is_an_error() {
    let misspelt = PROVIDER.replace("[permissions]", "[permission]");
    assert!(toml::from_str::<Manifest>(&misspelt).is_err());
}

#[test]
fn a_permission_and_its_table_belong_together() {
    let without_table = PROVIDER.replace("[machine]\nsystem = [\"/usr\", \"/etc/ssl\"]\n", "");
    assert_eq!(
        check(&without_table),
        Err(ManifestError::Unpaired("machine"))
    );
    let without_permission = PROVIDER.replace("http = \"Asks the service.\"\n", "");
    assert_eq!(
        check(&without_permission),
        Err(ManifestError::Unpaired("endpoint"))
    );
    let without_reason = PROVIDER.replace("\"Asks the service.\"", "\" \"");
    assert_eq!(
        check(&without_reason),
        Err(ManifestError::NoReason(Capability::Http))
    );
}

#[test]
fn only_a_provider_asks_for_permissions() {
    let resolver = PROVIDER.replace("\"sandbox-provider\"", "\"mcp-resolver\"");
    assert_eq!(
        check(&resolver),
        Err(ManifestError::NotForKind("permissions"))
    );
}

#[test]
fn an_endpoint_is_an_address_that_an_operator_can_read() {
    let base = PROVIDER
        .lines()
        .find(|line| line.starts_with("base = "))
        .unwrap();
    let methods = PROVIDER
        .lines()
        .find(|line| line.starts_with("methods = "))
        .unwrap();
    for good in [
        "https://{id}.example.com",
        "unix:/run/engine.sock",
        "{setting.url}",
        "http://127.0.0.1:9",
    ] {
        let changed = PROVIDER.replace(base, &format!("base = {good:?}"));
        assert_eq!(check(&changed), Ok(()), "{good}");
    }
    for bad in ["http://example.com", "ftp://a", "unix:relative", "{id}", ""] {
        let changed = PROVIDER.replace(base, &format!("base = {bad:?}"));
        assert!(
            matches!(check(&changed), Err(ManifestError::Endpoint(_))),
            "{bad}"
        );
    }
    for bad in ["[]", r#"["get"]"#, r#"[""]"#] {
        let changed = PROVIDER.replace(methods, &format!("methods = {bad}"));
        assert!(
            matches!(check(&changed), Err(ManifestError::Endpoint(_))),
            "{bad}"
        );
    }
}

#[test]
fn paths_and_secrets_are_checked() {
    let escape = PROVIDER.replace("/etc/ssl", "/usr/../root");
    assert_eq!(
        check(&escape),
        Err(ManifestError::SystemPath("/usr/../root".into()))
    );
    let unknown = PROVIDER.replace("secrets = [\"api-key\"]", "secrets = [\"other\"]");
    assert_eq!(
        check(&unknown),
        Err(ManifestError::UnknownSecret("other".into()))
    );
    let leaked = format!("{PROVIDER}default = \"k\"\n");
    assert_eq!(
        check(&leaked),
        Err(ManifestError::SecretDefault("api-key".into()))
    );
}
