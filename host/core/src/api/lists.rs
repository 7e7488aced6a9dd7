//! From a client's page to the store's list, and back.

use std::str::FromStr;

use store::read::{self, List, ListError};

use super::error::ApiError;
use super::failure::read_failed;
use super::query::{Order, Page};

/// The list that a page asks for. A cursor is text: one that is no id of the list's kind is sent as the id that never exists,
/// so that both take the same way (W-LIST-5, W-ID-3).
pub(crate) fn list<T: FromStr + ToString>(page: &Page, never: T) -> List {
    let after = page
        .after
        .as_deref()
        .map(|text| text.parse().unwrap_or(never).to_string());
    let order = match page.order {
        Order::Ascending => read::Order::Ascending,
        Order::Descending => read::Order::Descending,
    };
    List {
        after,
        limit: page.limit,
        order,
    }
}

/// What a client hears of a list that failed; `unknown` is the answer to a cursor that names nothing of it.
pub(crate) fn list_failed(error: ListError, unknown: ApiError) -> ApiError {
    match error {
        ListError::UnknownCursor => unknown,
        ListError::Store(error) => read_failed(error),
    }
}
