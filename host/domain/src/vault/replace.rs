//! Replacing the secrets of a Credential (CRD-006 to CRD-023). Parsing knows the shapes; what the stored credential allows is
//! decided under its lock.

use super::auth::{AuthSecrets, AuthView, TokenMethod};
use super::parse::{expiry, filled, secret};
use crate::Secret;
use crate::invalid::{Invalid, Path};
use crate::json::{Field, Json, Object};

/// `auth` of a replacement.
#[derive(Debug, Clone)]
pub enum AuthPatch {
    /// Another token.
    StaticBearer {
        /// The token.
        token: Secret,
    },
    /// Parts of a grant.
    McpOauth {
        /// Another access token.
        access_token: Option<Secret>,
        /// Another expiry; null clears.
        expires_at: Field<String>,
        /// Parts of its renewal.
        refresh: Option<RefreshPatch>,
    },
}

/// Parts of the renewal of a grant.
#[derive(Debug, Clone)]
pub struct RefreshPatch {
    /// Another refresh token.
    pub refresh_token: Option<Secret>,
    /// Another scope; null sends none.
    pub scope: Field<String>,
    /// The stored method, and another secret for it.
    pub method: Option<(TokenMethod, Option<Secret>)>,
}

/// Why a stored credential does not take a replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReplaceFault {
    /// CRD-014.
    #[error("The type of a credential cannot be changed.")]
    Kind,
    /// CRD-012.
    #[error("This credential has no refresh configuration, and none can be added.")]
    NoRefresh,
    /// CRD-013.
    #[error("token_endpoint_auth must name the stored method.")]
    Method,
}

impl ReplaceFault {
    /// The member that is wrong.
    pub fn param(self) -> &'static str {
        match self {
            Self::Kind => "auth.type",
            Self::NoRefresh => "auth.refresh",
            Self::Method => "auth.refresh.token_endpoint_auth.type",
        }
    }
}

impl AuthPatch {
    /// Reads the body of `POST /vaults/{vault_id}/credentials/{credential_id}`.
    ///
    /// # Errors
    /// E400-03 to E400-06 with the path of the member; an OAuth patch that changes nothing (CRD-011).
    pub fn parse(body: Json<'_>) -> Result<Self, Invalid> {
        let object = Object::open(body, &Path::root(), &["auth"])?;
        let auth = object.get("auth");
        let auth = Object::any(object.required(auth, "auth")?, &object.path("auth"))?;
        match auth.kind(AuthView::WORDS)?.as_str() {
            "static_bearer" => static_bearer(&auth),
            _ => oauth(&auth),
        }
    }

    /// Applies it to a stored credential. Nothing else than the named members changes (CRD-007, CRD-012).
    ///
    /// # Errors
    /// [`ReplaceFault`]; then nothing was changed.
    pub fn apply(self, view: &mut AuthView, secrets: &mut AuthSecrets) -> Result<(), ReplaceFault> {
        match (self, view) {
            (Self::StaticBearer { token }, AuthView::StaticBearer { .. }) => {
                secrets.token = token;
                Ok(())
            }
            (
                Self::McpOauth {
                    access_token,
                    expires_at,
                    refresh,
                },
                AuthView::McpOauth {
                    expires_at: expires,
                    refresh: shown,
                    ..
                },
            ) => {
                if let Some(patch) = refresh {
                    let stored = shown.as_mut().zip(secrets.refresh.as_mut());
                    let (shown, hidden) = stored.ok_or(ReplaceFault::NoRefresh)?;
                    if let Some((method, client_secret)) = patch.method {
                        if method != shown.token_endpoint_auth {
                            return Err(ReplaceFault::Method);
                        }
                        if client_secret.is_some() {
                            hidden.client_secret = client_secret;
                        }
                    }
                    if let Some(token) = patch.refresh_token {
                        hidden.refresh_token = token;
                    }
                    match patch.scope {
                        Field::Omitted => {}
                        Field::Null => shown.scope = None,
                        Field::Value(scope) => shown.scope = Some(scope),
                    }
                }
                // CRD-021: a new token does not inherit the end of the old one.
                match (expires_at, &access_token) {
                    (Field::Value(at), _) => *expires = Some(at),
                    (Field::Null, _) | (Field::Omitted, Some(_)) => *expires = None,
                    (Field::Omitted, None) => {}
                }
                if let Some(token) = access_token {
                    secrets.token = token;
                }
                Ok(())
            }
            _ => Err(ReplaceFault::Kind),
        }
    }
}

/// Exactly the token (CRD-006).
fn static_bearer(object: &Object<'_>) -> Result<AuthPatch, Invalid> {
    object.only(&["type", "token"])?;
    let path = object.path("token");
    let token = object
        .get("token")
        .map(|value| secret(value, &path))
        .transpose()?;
    Ok(AuthPatch::StaticBearer {
        token: object.required(token, "token")?,
    })
}

fn oauth(object: &Object<'_>) -> Result<AuthPatch, Invalid> {
    object.only(&["type", "access_token", "expires_at", "refresh"])?;
    let (mut access_token, mut expires_at, mut patch) = (None, Field::Omitted, None);
    for (member, value, path) in object.iter() {
        match member {
            "access_token" => access_token = optional(value, &path)?,
            "expires_at" => expires_at = Field::read(value, |value| expiry(value, &path))?,
            "refresh" => patch = Field::read(value, |value| refresh(value, &path))?.value(),
            _ => {}
        }
    }
    let renews = patch.as_ref().is_some_and(|patch: &RefreshPatch| {
        let secret = matches!(patch.method, Some((_, Some(_))));
        patch.refresh_token.is_some() || !patch.scope.is_omitted() || secret
    });
    if access_token.is_none() && expires_at.is_omitted() && !renews {
        let message = "The replacement changes nothing.";
        return Err(Invalid::other(Some("auth"), message));
    }
    Ok(AuthPatch::McpOauth {
        access_token,
        expires_at,
        refresh: patch,
    })
}

fn refresh(json: Json<'_>, path: &Path) -> Result<RefreshPatch, Invalid> {
    let object = Object::open(
        json,
        path,
        &["refresh_token", "scope", "token_endpoint_auth"],
    )?;
    let mut patch = RefreshPatch {
        refresh_token: None,
        scope: Field::Omitted,
        method: None,
    };
    for (member, value, path) in object.iter() {
        match member {
            "refresh_token" => patch.refresh_token = optional(value, &path)?,
            "scope" => patch.scope = Field::read(value, |value| filled(value, &path))?,
            _ => patch.method = Field::read(value, |value| method(value, &path))?.value(),
        }
    }
    Ok(patch)
}

/// One of the two secret methods (CRD-013).
fn method(json: Json<'_>, path: &Path) -> Result<(TokenMethod, Option<Secret>), Invalid> {
    let object = Object::any(json, path)?;
    let word = object.kind(TokenMethod::SECRET_WORDS)?;
    object.only(&["type", "client_secret"])?;
    let path = object.path("client_secret");
    let found = object
        .get("client_secret")
        .map(|value| optional(value, &path))
        .transpose()?;
    let method = TokenMethod::from_word(&word).unwrap_or(TokenMethod::None);
    Ok((method, found.flatten()))
}

/// Null keeps (CRD-020, CRD-022); empty is refused.
fn optional(json: Json<'_>, path: &Path) -> Result<Option<Secret>, Invalid> {
    Ok(Field::read(json, |json| secret(json, path))?.value())
}

#[cfg(test)]
mod tests;
