//! Which Credential a Session uses for each of its MCP servers: decided once, at creation, and frozen, anonymous included
//! (`files-skills-vaults.md` 3.2).

use super::Credential;
use crate::CredentialId;
use crate::agent::Tool;
use crate::agent::tools::Transport;
use crate::invalid::{Invalid, is_echoable};

/// Why no Credential can be selected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectFault {
    /// SEL-010 to SEL-012.
    #[error(transparent)]
    Invalid(Invalid),
    /// SEL-013: several match; the server's URL.
    #[error("several credentials match")]
    Several(String),
}

/// Writes into each MCP server the Credential that the Session uses for it: the one it names, if that is in an attached Vault
/// and for this URL, or the only one that matches; none = anonymous. `attached` holds the Credentials of the attached Vaults,
/// or is absent if there is none. No type is preferred (SEL-004), and nothing is written after a fault.
///
/// # Errors
/// [`SelectFault`] of the first server that has one.
pub fn select(tools: &mut [Tool], attached: Option<&[Credential]>) -> Result<(), SelectFault> {
    let chosen: Vec<_> = tools
        .iter()
        .map(|tool| choose(tool, attached))
        .collect::<Result<_, _>>()?;
    for (tool, chosen) in tools.iter_mut().zip(chosen) {
        if let (Tool::Mcp(mcp), Some(id)) = (tool, chosen) {
            mcp.credential_id = Some(id);
        }
    }
    Ok(())
}

fn choose(tool: &Tool, attached: Option<&[Credential]>) -> Result<Option<String>, SelectFault> {
    let Tool::Mcp(mcp) = tool else {
        return Ok(None);
    };
    let url = match &mcp.transport {
        Transport::Http { server_url, .. } => Some(server_url.as_str()),
        Transport::Stdio { .. } => None,
    };
    let fits = |credential: &&Credential| Some(credential.auth.server_url()) == url;
    let credentials = attached.unwrap_or_default();
    let Some(named) = &mcp.credential_id else {
        let mut matching = credentials.iter().filter(fits);
        return match (matching.next(), matching.next()) {
            (Some(_), Some(_)) => Err(SelectFault::Several(url.unwrap_or_default().to_owned())),
            (one, _) => Ok(one.map(|credential| credential.id.to_string())),
        };
    };
    if attached.is_none() {
        return Err(invalid(
            "MCP credential_id requires an attached vault".to_owned(),
        ));
    }
    let id = named.parse().unwrap_or(CredentialId::NEVER);
    let found = credentials.iter().find(|credential| credential.id == id);
    let Some(found) = found else {
        let id = echoed(named);
        return Err(invalid(format!(
            "MCP credential_id{id} was not found in an attached vault"
        )));
    };
    match fits(&found) {
        // SEL-018: an explicit id reads as it was sent.
        true => Ok(Some(named.clone())),
        false => {
            let (id, url) = (echoed(named), echoed(url.unwrap_or_default()));
            Err(invalid(format!(
                "MCP credential_id{id} does not match server_url{url}"
            )))
        }
    }
}

/// The value as it may be repeated, after a space; nothing if it may not (SEL-015).
pub fn echoed(value: &str) -> String {
    match is_echoable(value) && !value.is_empty() {
        true => format!(" {value}"),
        false => String::new(),
    }
}

fn invalid(message: String) -> SelectFault {
    SelectFault::Invalid(Invalid::other(None, message))
}

#[cfg(test)]
mod tests;
