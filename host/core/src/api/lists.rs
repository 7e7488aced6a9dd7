//! Cursors of lists: text that may name nothing.

use std::str::FromStr;

use store::read::{Direction, PageOf};

use super::query::{Order, Page};

/// Where a page starts.
pub(crate) enum Cursor<T> {
    /// A page from a well-formed place; whether it exists is the store's to say.
    Page(PageOf<T>),
    /// Text that is no id of this kind: the same as an id that does not exist (W-LIST-5).
    Malformed,
}

/// Reads the cursor of a list whose elements have ids of one kind.
pub(crate) fn cursor<T: FromStr>(page: &Page) -> Cursor<T> {
    let after = match page.after.as_deref().map(str::parse) {
        None => None,
        Some(Ok(id)) => Some(id),
        Some(Err(_)) => return Cursor::Malformed,
    };
    let direction = match page.order {
        Order::Ascending => Direction::Ascending,
        Order::Descending => Direction::Descending,
    };
    Cursor::Page(PageOf { after, limit: page.limit, direction })
}
