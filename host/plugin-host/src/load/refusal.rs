//! Why a plugin file is not loaded.

use std::path::PathBuf;

use contract::manifest::ManifestError;

/// A plugin file that was refused. The host serves on without it.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {reason}", path = .path.display())]
pub struct Refused {
    /// Which file.
    pub path: PathBuf,
    /// What is wrong, and what to do.
    pub reason: Refusal,
}

/// What is wrong with a plugin file, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(#[source] std::io::Error),
    /// It is too large.
    #[error("it is larger than {} MiB, the most a plugin may have", super::MOST_BYTES >> 20)]
    TooLarge,
    /// It is neither a component nor a library.
    #[error(
        "it is neither a WASM component nor a native library; build it with `berth plugin build`"
    )]
    NoPlugin,
    /// It is the compiler's output.
    #[error("it is a WASM core module, not a component; build it with `berth plugin build`")]
    CoreModule,
    /// No manifest.
    #[error(
        "it has no plugin.toml, neither inside nor beside it; build it with `berth plugin build`, or put its plugin.toml beside it under the same name with the ending .toml"
    )]
    NoManifest,
    /// The manifest is no TOML, or has unknown keys.
    #[error("its plugin.toml cannot be read: {0}")]
    Toml(String),
    /// The manifest breaks a rule.
    #[error("its plugin.toml is wrong: {0}")]
    Manifest(#[from] ManifestError),
    /// The manifest names no version.
    #[error("its plugin.toml says {0} = {1:?}, which is no semantic version such as 1.2.3")]
    Version(&'static str, String),
    /// The manifest names another contract.
    #[error("it was written for contract {0}, this Berth has {host} and runs the step before it; build it against {host}", host = contract::VERSION)]
    Contract(String),
    /// It is a native library and those are not allowed.
    #[error(
        "it is a native library, which runs with all rights of this process; if you trust it, start Berth with --allow-native-plugins, otherwise build it as a component"
    )]
    NativeNotAllowed,
    /// This build cannot load plugins of that transport.
    #[error("this build of Berth cannot load {0}")]
    NotBuiltIn(&'static str),
    /// A capability was not granted.
    #[error(
        "it asks for `{0}`, which it was not granted; install it with `berth plugin install --grant {0}`"
    )]
    NotGranted(String),
    /// A library without all of its parts, which the system would map and stumble over.
    #[error("it is cut short or damaged; get it again")]
    CutShort,
    /// The transport refuses it.
    #[error("{0}")]
    Transport(String),
    /// Two files are one plugin.
    #[error("another file, {other}, has the same id `{id}`; remove one of the two", other = .other.display())]
    Twice {
        /// Which id.
        id: String,
        /// Which other file.
        other: PathBuf,
    },
    /// The grants or trusted keys of the folder cannot be read.
    #[error("{0}")]
    Grants(String),
    /// It has no signature, and one is required.
    #[error(
        "it is not signed ({file} is missing), and --require-signed-plugins is given; get it with its signature, or sign it with a key that `berth plugin trust list` shows", file = .0.display()
    )]
    Unsigned(PathBuf),
    /// What lies beside it is no signature.
    #[error(
        "its signature {file} has {1} bytes, and one of Ed25519 has 64; get it again", file = .0.display()
    )]
    NoSignature(PathBuf, usize),
    /// Its manifest is not part of what was signed.
    #[error(
        "its plugin.toml is beside it and not part of what was signed; build it with `berth plugin build`, which puts it inside, and sign that"
    )]
    ManifestUnsigned,
    /// Nobody who is trusted signed these bytes.
    #[error(
        "its signature {file} was made by no trusted key, or for other bytes; get the file again, or, if you trust its author, `berth plugin trust add NAME KEY`", file = .0.display()
    )]
    UntrustedSignature(PathBuf),
}
