//! Reads Vaults and Credentials out of request bodies.

use super::auth::{AuthSecrets, AuthView, RefreshSecrets, RefreshView, TokenMethod};
use super::{MAX_METADATA, MAX_NAME};
use crate::Secret;
use crate::invalid::{Invalid, Path};
use crate::json::{Field, Json, Kind, Object, Opaque};
use crate::metadata::Metadata;

/// `POST /vaults` (VLT-022, VLT-023).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VaultCreation {
    /// Label.
    pub name: Option<String>,
    /// An object of strings.
    pub metadata: Opaque,
}

/// `POST /vaults/{vault_id}/credentials` (CRD-001 to CRD-010).
#[derive(Debug, Clone)]
pub struct CredentialCreation {
    /// Label.
    pub name: String,
    /// What may be shown.
    pub auth: AuthView,
    /// What may not.
    pub secrets: AuthSecrets,
}

impl VaultCreation {
    /// Reads the body.
    ///
    /// # Errors
    /// E400-03 to E400-16 with the path of the member.
    pub fn parse(body: Json<'_>) -> Result<Self, Invalid> {
        Metadata::check_values(body)?;
        let object = Object::open(body, &Path::root(), &["name", "metadata"])?;
        let (mut name, mut metadata) = (None, Opaque::empty_object());
        for (member, value, path) in object.iter() {
            match member {
                "name" => name = Some(self::name(value, &path)?),
                _ if value.is_null() => {}
                _ => metadata = self::metadata(value, &path)?,
            }
        }
        Ok(Self { name, metadata })
    }
}

/// 1 to 256 bytes after trimming.
fn name(json: Json<'_>, path: &Path) -> Result<String, Invalid> {
    let name = json.to_text(path)?;
    let name = name.trim();
    if (1..=MAX_NAME).contains(&name.len()) {
        return Ok(name.to_owned());
    }
    let message = format!("'{path}' must be 1 to {MAX_NAME} bytes long.");
    Err(Invalid::other(path.echo(), message))
}

/// Values are text, whatever their number and length; the whole is bounded (VLT-023).
fn metadata(json: Json<'_>, path: &Path) -> Result<Opaque, Invalid> {
    let Some(members) = json.members() else {
        return Err(Invalid::mistyped(path, Kind::Object, json.kind()));
    };
    let pairs: Metadata = members
        .into_iter()
        .map(|(key, value)| (key, value.string().unwrap_or_default()))
        .collect();
    if let Some((key, _)) = pairs
        .pairs()
        .find(|(key, value)| key.contains('\0') || value.contains('\0'))
    {
        return Err(Invalid::unstorable(Some(format!("metadata.{key}"))));
    }
    let encoded = serde_json::to_string(&pairs).unwrap_or_default();
    if encoded.len() > MAX_METADATA {
        let message = format!("'metadata' exceeds {MAX_METADATA} bytes.");
        return Err(Invalid::other(path.echo(), message));
    }
    Ok(Opaque::parse(&encoded).unwrap_or_else(Opaque::empty_object))
}

impl CredentialCreation {
    /// Reads the body.
    ///
    /// # Errors
    /// E400-03 to E400-06 with the path of the member.
    pub fn parse(body: Json<'_>) -> Result<Self, Invalid> {
        let object = Object::open(body, &Path::root(), &["name", "auth"])?;
        let (mut name, mut auth) = (None, None);
        for (member, value, path) in object.iter() {
            match member {
                "name" => name = Some(self::name(value, &path)?),
                _ => auth = Some(self::auth(value, &path)?),
            }
        }
        let name = object.required(name, "name")?;
        let (auth, secrets) = object.required(auth, "auth")?;
        Ok(Self {
            name,
            auth,
            secrets,
        })
    }
}

fn auth(json: Json<'_>, path: &Path) -> Result<(AuthView, AuthSecrets), Invalid> {
    let object = Object::any(json, path)?;
    match object.kind(AuthView::WORDS)?.as_str() {
        "static_bearer" => static_bearer(&object),
        _ => oauth(&object),
    }
}

fn static_bearer(object: &Object<'_>) -> Result<(AuthView, AuthSecrets), Invalid> {
    object.only(&["type", "mcp_server_url", "token"])?;
    let (mut url, mut token) = (None, None);
    for (member, value, path) in object.iter() {
        match member {
            "mcp_server_url" => url = Some(server_url(value, &path)?),
            "token" => token = Some(secret(value, &path)?),
            _ => {}
        }
    }
    let view = AuthView::StaticBearer {
        mcp_server_url: object.required(url, "mcp_server_url")?,
    };
    let secrets = AuthSecrets {
        token: object.required(token, "token")?,
        refresh: None,
    };
    Ok((view, secrets))
}

fn oauth(object: &Object<'_>) -> Result<(AuthView, AuthSecrets), Invalid> {
    object.only(&[
        "type",
        "mcp_server_url",
        "access_token",
        "expires_at",
        "refresh",
    ])?;
    let (mut url, mut token, mut expires, mut refresh) = (None, None, None, None);
    for (member, value, path) in object.iter() {
        match member {
            "mcp_server_url" => url = Some(server_url(value, &path)?),
            "access_token" => token = Some(secret(value, &path)?),
            "expires_at" => expires = Field::read(value, |value| expiry(value, &path))?.value(),
            "refresh" => refresh = Field::read(value, |value| self::refresh(value, &path))?.value(),
            _ => {}
        }
    }
    let (shown, hidden) = refresh.unzip();
    let view = AuthView::McpOauth {
        mcp_server_url: object.required(url, "mcp_server_url")?,
        expires_at: expires,
        refresh: shown,
    };
    let secrets = AuthSecrets {
        token: object.required(token, "access_token")?,
        refresh: hidden,
    };
    Ok((view, secrets))
}

fn refresh(json: Json<'_>, path: &Path) -> Result<(RefreshView, RefreshSecrets), Invalid> {
    const KNOWN: &[&str] = &[
        "client_id",
        "refresh_token",
        "token_endpoint",
        "token_endpoint_auth",
        "resource",
        "scope",
    ];
    let object = Object::open(json, path, KNOWN)?;
    let (mut client_id, mut token, mut endpoint, mut method) = (None, None, None, None);
    let (mut resource, mut scope) = (None, None);
    for (member, value, path) in object.iter() {
        match member {
            "client_id" => client_id = Some(filled(value, &path)?),
            "refresh_token" => token = Some(secret(value, &path)?),
            "token_endpoint" => endpoint = Some(server_url(value, &path)?),
            "token_endpoint_auth" => method = Some(token_method(value, &path)?),
            "resource" => resource = Field::read(value, |value| filled(value, &path))?.value(),
            _ => scope = Field::read(value, |value| filled(value, &path))?.value(),
        }
    }
    let client_id = object.required(client_id, "client_id")?;
    let refresh_token = object.required(token, "refresh_token")?;
    let token_endpoint = object.required(endpoint, "token_endpoint")?;
    let (method, client_secret) = object.required(method, "token_endpoint_auth")?;
    let view = RefreshView {
        client_id,
        token_endpoint,
        token_endpoint_auth: method,
        resource,
        scope,
    };
    let secrets = RefreshSecrets {
        refresh_token,
        client_secret,
    };
    Ok((view, secrets))
}

/// CRD-010.
fn token_method(json: Json<'_>, path: &Path) -> Result<(TokenMethod, Option<Secret>), Invalid> {
    let object = Object::any(json, path)?;
    let word = object.kind(TokenMethod::WORDS)?;
    let method = TokenMethod::from_word(&word).unwrap_or(TokenMethod::None);
    if method == TokenMethod::None {
        object.only(&["type"])?;
        return Ok((method, None));
    }
    object.only(&["type", "client_secret"])?;
    let path = object.path("client_secret");
    let found = object
        .get("client_secret")
        .map(|value| secret(value, &path))
        .transpose()?;
    Ok((method, Some(object.required(found, "client_secret")?)))
}

/// Non-empty and opaque: nothing is trimmed (CRD-004).
pub(super) fn secret(json: Json<'_>, path: &Path) -> Result<Secret, Invalid> {
    filled(json, path).map(Secret::from)
}

pub(super) fn filled(json: Json<'_>, path: &Path) -> Result<String, Invalid> {
    let text = json.to_text(path)?;
    match text.is_empty() {
        false => Ok(text),
        true => Err(Invalid::empty(path)),
    }
}

/// Absolute HTTPS without credentials and fragment; kept byte for byte (CRD-002).
fn server_url(json: Json<'_>, path: &Path) -> Result<String, Invalid> {
    let text = json.to_text(path)?;
    let fits = url::Url::parse(&text).is_ok_and(|url| {
        url.scheme() == "https"
            && url.host().is_some()
            && url.username().is_empty()
            && url.password().is_none()
            && url.fragment().is_none()
    });
    // The parser forgives what a byte-for-byte comparison would not: spaces, control characters, missing slashes.
    let plain = text.to_ascii_lowercase().starts_with("https://")
        && !text
            .chars()
            .any(|char| char.is_whitespace() || char.is_control() || char == '\\');
    match fits && plain {
        true => Ok(text),
        false => Err(Invalid::other(
            path.echo(),
            format!("'{path}' must be an absolute HTTPS URL without credentials and fragment."),
        )),
    }
}

/// RFC 3339, in the caller's spelling; an expired value is fine (CRD-008).
pub(super) fn expiry(json: Json<'_>, path: &Path) -> Result<String, Invalid> {
    let text = json.to_text(path)?;
    // The `T` and the offset are what RFC 3339 asks for beyond the parser's forms.
    let shaped = text
        .as_bytes()
        .get(10)
        .is_some_and(|byte| matches!(byte, b'T' | b't' | b' '));
    match shaped && text.parse::<jiff::Timestamp>().is_ok() {
        true => Ok(text),
        false => Err(Invalid::other(
            path.echo(),
            format!("'{path}' must be an RFC 3339 date-time."),
        )),
    }
}

#[cfg(test)]
mod tests;
