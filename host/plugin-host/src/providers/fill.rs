//! What a provider names and only the host knows: secrets, filled in after all checks. Their values never enter the plugin
//! (architecture 5).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::common::{Effect, Encoding, Failure};
use contract::host_types::{BodyPiece, SecretPiece, SecretRef, TextPiece};
use contract::manifest::SettingKind;
use domain::Secret;
use machine::sandbox::Seen;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use super::handle::{SecretSettings, secret_key};
use super::host::{CallHost, Scope, failure, forgotten};

/// Where a sandbox that is not on this machine has its workspace (SP-5.5).
const WORKSPACE: &str = "/workspace";
/// Bound of a bootstrap file (contract).
const BOOTSTRAP_BYTES: usize = 16 << 10;
/// What needs no escape in a URL.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

fn refused(code: &str) -> Failure {
    failure(code, Effect::None)
}

/// The name under which a captured value is remembered; no plugin can ask for it, since its own names hold no dot.
pub(super) fn captured_key(name: &str) -> Result<String, Failure> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if (1..=48).contains(&name.len()) && name.bytes().all(allowed) {
        Ok(format!("captured.{name}"))
    } else {
        Err(refused("capture_name_invalid"))
    }
}

/// Fills in for one request or program.
pub(super) struct Fill<'a> {
    pub(super) host: &'a CallHost,
    /// The secret settings that may be used here; none = every one of the manifest.
    pub(super) allowed: Option<&'a [String]>,
}

impl Fill<'_> {
    /// The pieces, joined.
    pub(super) fn text(&self, pieces: &[TextPiece]) -> Result<Vec<u8>, Failure> {
        let mut all = Vec::new();
        for piece in pieces {
            match piece {
                TextPiece::Text(text) => all.extend_from_slice(text.as_bytes()),
                TextPiece::Secret(piece) => all.extend(self.secret(piece)?),
            }
        }
        Ok(all)
    }

    /// The pieces, joined; at most so many bytes.
    pub(super) fn body(&self, pieces: &[BodyPiece], most: usize) -> Result<Vec<u8>, Failure> {
        let mut all = Vec::new();
        for piece in pieces {
            match piece {
                BodyPiece::Text(text) => all.extend_from_slice(text.as_bytes()),
                BodyPiece::Bytes(bytes) => all.extend_from_slice(bytes),
                BodyPiece::Secret(piece) => all.extend(self.secret(piece)?),
                // This build carries no daemon for another machine.
                BodyPiece::Artifact(_) => return Err(refused("artifact_unavailable")),
            }
            if all.len() > most {
                return Err(refused("request_too_large"));
            }
        }
        Ok(all)
    }

    fn secret(&self, piece: &SecretPiece) -> Result<Vec<u8>, Failure> {
        let secret = match &piece.secret {
            SecretRef::Setting(key) => self.setting(key)?,
            SecretRef::BootstrapFile => self.bootstrap()?,
            SecretRef::Captured(name) => self.captured(name)?,
        };
        encoded(secret.expose(), piece.encoding)
    }

    fn setting(&self, key: &str) -> Result<Secret, Failure> {
        let shared = &self.host.shared;
        let mut settings = shared.provider.manifest.settings.iter();
        let declared = settings.any(|it| it.kind == SettingKind::Secret && it.key == key);
        let allowed = self
            .allowed
            .is_none_or(|allowed| allowed.iter().any(|it| it == key));
        if !declared || !allowed {
            return Err(refused("secret_not_granted"));
        }
        let found = match &shared.chosen.secrets {
            SecretSettings::Given(given) => given.get(key).cloned(),
            SecretSettings::Stored(generation) => {
                let key = secret_key(*generation, key);
                self.remembered(Scope::Provider, &key)?
            }
        };
        found.ok_or_else(|| refused("secret_missing"))
    }

    fn bootstrap(&self) -> Result<Secret, Failure> {
        let file = self.host.bootstrap.as_ref();
        let file = file.ok_or_else(|| refused("no_bootstrap"))?;
        let file = file(&Seen {
            workspace: WORKSPACE,
            core: None,
        });
        if file.expose().len() > BOOTSTRAP_BYTES {
            return Err(refused("bootstrap_too_large"));
        }
        Ok(file)
    }

    fn captured(&self, name: &str) -> Result<Secret, Failure> {
        let allocation = self.host.allocation.as_ref();
        let allocation = allocation.ok_or_else(|| refused("no_allocation"))?;
        let found = self.remembered(Scope::Allocation(allocation.id), &captured_key(name)?)?;
        found.ok_or_else(|| refused("secret_missing"))
    }

    /// Nothing was done yet, so a failure has no effect.
    fn remembered(&self, scope: Scope, key: &str) -> Result<Option<Secret>, Failure> {
        let found = self
            .host
            .shared
            .memory
            .get(self.host.provider(), scope, key);
        found.map_err(|error| Failure {
            effect: Effect::None,
            ..forgotten(error)
        })
    }
}

fn encoded(secret: &[u8], encoding: Encoding) -> Result<Vec<u8>, Failure> {
    match encoding {
        Encoding::Raw => Ok(secret.to_vec()),
        Encoding::Base64 => Ok(STANDARD.encode(secret).into_bytes()),
        Encoding::Percent => Ok(percent_encode(secret, UNRESERVED).to_string().into_bytes()),
        Encoding::JsonString => {
            let text = std::str::from_utf8(secret).map_err(|_| refused("secret_not_text"))?;
            let quoted = serde_json::to_string(text).map_err(|_| refused("secret_not_text"))?;
            Ok(quoted.as_bytes()[1..quoted.len() - 1].to_vec())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_written_as_its_place_needs_it() {
        let secret = b"a\"b\n/+ ~";
        let written = |encoding| String::from_utf8(encoded(secret, encoding).unwrap()).unwrap();
        assert_eq!(written(Encoding::Raw), "a\"b\n/+ ~");
        assert_eq!(written(Encoding::JsonString), "a\\\"b\\n/+ ~");
        assert_eq!(written(Encoding::Base64), "YSJiCi8rIH4=");
        assert_eq!(written(Encoding::Percent), "a%22b%0A%2F%2B%20~");
        assert!(encoded(&[0xff], Encoding::JsonString).is_err());
    }

    #[test]
    fn captured_values_are_out_of_reach_of_the_state_capability() {
        assert_eq!(captured_key("token").unwrap(), "captured.token");
        for wrong in ["", "a.b", "A", "../x", &"a".repeat(49)] {
            assert!(captured_key(wrong).is_err(), "{wrong}");
        }
    }
}
