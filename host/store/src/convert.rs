//! Between columns and domain types. A value that cannot be read is an error of the store, never a panic.

use std::str::FromStr;

use serde::{Serialize, de::DeserializeOwned};
use sqlx::{Row, any::AnyRow};

use crate::error::StoreError;

/// Reads an id.
pub(crate) fn parse_id<T: FromStr>(
    text: &str,
    table: &'static str,
    column: &'static str,
) -> Result<T, StoreError> {
    text.parse()
        .map_err(|_| StoreError::Corrupt { table, column })
}

/// Reads an id column.
pub(crate) fn id_column<T: FromStr>(
    row: &AnyRow,
    table: &'static str,
    column: &'static str,
) -> Result<T, StoreError> {
    parse_id(&row.try_get::<String, _>(column)?, table, column)
}

/// Reads a JSON text.
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

/// Reads a JSON column.
pub(crate) fn json_column<T: DeserializeOwned>(
    row: &AnyRow,
    table: &'static str,
    column: &'static str,
) -> Result<T, StoreError> {
    from_json(&row.try_get::<String, _>(column)?, table, column)
}

/// Reads a JSON column that may be null.
pub(crate) fn optional_json_column<T: DeserializeOwned>(
    row: &AnyRow,
    table: &'static str,
    column: &'static str,
) -> Result<Option<T>, StoreError> {
    row.try_get::<Option<String>, _>(column)?
        .map(|text| from_json(&text, table, column))
        .transpose()
}

/// Writes a JSON text.
pub(crate) fn to_json<T: Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value)
        .map_err(|error| StoreError::Impossible(format!("a value is not JSON: {error}")))
}

/// A count as a column. Counts stay far below the limit; one beyond it is a bug.
pub(crate) fn int(count: u64) -> Result<i64, StoreError> {
    i64::try_from(count)
        .map_err(|_| StoreError::Impossible(format!("{count} does not fit into a column")))
}

/// A column as a count.
pub(crate) fn count_column(
    row: &AnyRow,
    table: &'static str,
    column: &'static str,
) -> Result<u64, StoreError> {
    u64::try_from(row.try_get::<i64, _>(column)?).map_err(|_| StoreError::Corrupt { table, column })
}

/// A terminal row that somebody wants to change (I15).
pub(crate) fn expect_written(rows: u64, table: &'static str) -> Result<(), StoreError> {
    if rows == 1 {
        Ok(())
    } else {
        Err(StoreError::Impossible(format!(
            "a terminal row of {table} would change"
        )))
    }
}
