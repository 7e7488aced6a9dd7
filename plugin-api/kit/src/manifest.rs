//! The manifest, as the host reads it.

use contract::manifest::{Kind, Manifest};

use crate::{Error, Result, ensure};

/// Parses and checks a `plugin.toml`.
///
/// # Errors
/// It is no manifest, breaks one of its own rules, or is of another kind.
pub fn check(text: &str, kind: Kind) -> Result<Manifest> {
    let error = |what: String| Error {
        rule: "manifest",
        what,
    };
    let manifest: Manifest = toml::from_str(text).map_err(|cause| error(cause.to_string()))?;
    manifest.check().map_err(|cause| error(cause.to_string()))?;
    ensure(manifest.kind == kind, "manifest", || {
        format!("the kind is {:?}", manifest.kind)
    })?;
    ensure(manifest.contract == contract::VERSION, "manifest", || {
        format!(
            "contract {} is not {}",
            manifest.contract,
            contract::VERSION
        )
    })?;
    Ok(manifest)
}
