//! Puts the values that only the host knows into files, variables and standard input (ENV-601).

use base64::{Engine as _, engine::general_purpose::STANDARD};
use domain::Secret;
use plugin_host::contract::{
    common::Encoding,
    harness_launch::{Fill, Piece},
};

use crate::relay::Grant;

/// A piece names a value that this host does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a value that the adapter named cannot be filled in")]
pub(super) struct UnknownFill;

/// The values of one Executor.
#[derive(Debug, Default)]
pub(super) struct Fills {
    /// Address and grant of the model relay; none when the harness brings a model of its own (MDL-012).
    pub(super) relay: Option<(String, Grant)>,
}

impl Fills {
    /// Joins `pieces`. The result may hold a token, so it is a secret.
    pub(super) fn join(&self, pieces: &[Piece]) -> Result<Secret, UnknownFill> {
        let mut joined = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Text(text) => joined.extend_from_slice(text.as_bytes()),
                Piece::Bytes(bytes) => joined.extend_from_slice(bytes),
                Piece::Fill(fill) => joined.extend(encode(self.value(&fill.value)?, fill.encoding)),
            }
        }
        Ok(Secret::new(joined))
    }

    fn value(&self, fill: &Fill) -> Result<&[u8], UnknownFill> {
        let relay = self.relay.as_ref().ok_or(UnknownFill);
        match fill {
            Fill::RelayUrl => relay.map(|(url, _)| url.as_bytes()),
            Fill::RelayToken => relay.map(|(_, grant)| grant.token().expose()),
            // Nothing that this Runtime prepares has MCP servers or host-served tools; an adapter that asks is refused.
            Fill::McpBearer(_) | Fill::ToolUrl | Fill::ToolToken | Fill::Other(_) => {
                Err(UnknownFill)
            }
        }
    }
}

fn encode(value: &[u8], encoding: Encoding) -> Vec<u8> {
    match encoding {
        Encoding::Raw => value.to_vec(),
        Encoding::Base64 => STANDARD.encode(value).into_bytes(),
        Encoding::Percent => percent(value),
        Encoding::JsonString => {
            let quoted = serde_json::Value::from(String::from_utf8_lossy(value))
                .to_string()
                .into_bytes();
            // TOML has no raw DEL in a basic string; JSON's other escapes are TOML's too.
            let inside = &quoted[1..quoted.len() - 1];
            inside
                .iter()
                .flat_map(|b| {
                    if *b == 0x7f {
                        b"\\u007f".to_vec()
                    } else {
                        vec![*b]
                    }
                })
                .collect()
        }
    }
}

fn percent(value: &[u8]) -> Vec<u8> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    value
        .iter()
        .flat_map(|b| {
            if plain(*b) {
                vec![*b]
            } else {
                format!("%{b:02X}").into_bytes()
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_encoding_fits_where_it_lands() {
        let value = "a\"b\\c\n/é\u{7f}".as_bytes();
        let text = |encoding| String::from_utf8(encode(value, encoding)).unwrap();
        assert_eq!(text(Encoding::JsonString), "a\\\"b\\\\c\\n/é\\u007f");
        assert_eq!(text(Encoding::Percent), "a%22b%5Cc%0A%2F%C3%A9%7F");
        assert_eq!(STANDARD.decode(text(Encoding::Base64)).unwrap(), value);
        assert_eq!(text(Encoding::Raw).as_bytes(), value);
    }

    #[test]
    fn a_value_that_is_not_there_is_refused() {
        let fill = plugin_host::contract::harness_launch::FillPiece {
            value: Fill::RelayToken,
            encoding: Encoding::Raw,
        };
        assert_eq!(
            Fills::default().join(&[Piece::Fill(fill)]),
            Err(UnknownFill)
        );
    }
}
