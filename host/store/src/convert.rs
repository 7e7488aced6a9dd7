//! Between columns and domain types. A value that cannot be read is an error of the store, never a panic.

use std::str::FromStr;

use serde::{Serialize, de::DeserializeOwned};

use crate::error::StoreError;

/// Reads an id.
pub(crate) fn parse_id<T: FromStr>(text: &str, table: &'static str, column: &'static str) -> Result<T, StoreError> {
    text.parse().map_err(|_| StoreError::Corrupt { table, column })
}

/// Reads a JSON column.
pub(crate) fn from_json<T: DeserializeOwned>(
    text: &str,
    table: &'static str,
    column: &'static str,
) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| {
        tracing::error!(table, column, %error, "a stored value cannot be read");
        StoreError::Corrupt { table, column }
    })
}

/// Writes a JSON column.
pub(crate) fn to_json<T: Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Impossible(format!("a value is not JSON: {error}")))
}
