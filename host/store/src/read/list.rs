//! Lists with cursors: one implementation for every list (wire.md 9).
//!
//! A list is ordered by a number and an id. A cursor is the id of a resource of the same list; pages in both directions
//! visit each resource once, also where numbers repeat (W-LIST-7).

use sqlx::{Row, any::AnyRow};

use crate::conn::Conn;
use crate::error::StoreError;

/// Direction of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Oldest first.
    Ascending,
    /// Newest first: the default (W-LIST-2).
    #[default]
    Descending,
}

/// What of a list is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    /// The resource after which to go on, exclusive (W-LIST-4); as its canonical text.
    pub after: Option<String>,
    /// Most resources of the page; already inside the bounds of its list.
    pub limit: u32,
    /// Direction.
    pub order: Order,
}

/// One page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// Its resources in order.
    pub items: Vec<T>,
    /// Something follows.
    pub has_more: bool,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The cursor names nothing of this list (W-LIST-5).
    #[error("the cursor names nothing of this list")]
    UnknownCursor,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for ListError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

/// The statements of one list. `$1` is its parent; of the page statements `$2` and `$3` are the position after which to
/// begin, `$4` the limit, `$5` the filter if the list has one.
pub(crate) struct ListSql {
    /// Position (`number`, `id`) of the resource `$2` of the parent `$1`.
    pub(crate) cursor: &'static str,
    pub(crate) ascending: &'static str,
    pub(crate) descending: &'static str,
}

/// Builds the statements of a list from its columns, its table with the condition on `$1`, and its two keys.
macro_rules! list_sql {
    ($columns:literal, $from:literal, $number:literal, $id:literal) => {
        list_sql!($columns, $from, $from, $number, $id)
    };
    ($columns:literal, $from:literal, $cursor_from:literal, $number:literal, $id:literal) => {
        $crate::read::list::ListSql {
            cursor: concat!(
                "SELECT ",
                $number,
                " AS number, ",
                $id,
                " AS id FROM ",
                $cursor_from,
                " AND ",
                $id,
                " = $2"
            ),
            ascending: concat!(
                "SELECT ",
                $columns,
                " FROM ",
                $from,
                " AND (",
                $number,
                ", ",
                $id,
                ") > ($2, $3) ORDER BY ",
                $number,
                ", ",
                $id,
                " LIMIT $4"
            ),
            descending: concat!(
                "SELECT ",
                $columns,
                " FROM ",
                $from,
                " AND (",
                $number,
                ", ",
                $id,
                ") < ($2, $3) ORDER BY ",
                $number,
                " DESC, ",
                $id,
                " DESC LIMIT $4"
            ),
        }
    };
}
pub(crate) use list_sql;

/// Reads one page.
pub(crate) async fn page<T>(
    conn: &mut Conn,
    sql: &ListSql,
    parent: &str,
    filter: Option<&str>,
    list: &List,
    read: impl Fn(&AnyRow) -> Result<T, StoreError>,
) -> Result<Page<T>, ListError> {
    let (number, id) = match (&list.after, list.order) {
        (Some(after), _) => {
            let row = sqlx::query(sql.cursor)
                .bind(parent.to_owned())
                .bind(after.clone())
                .fetch_optional(&mut *conn)
                .await?
                .ok_or(ListError::UnknownCursor)?;
            (row.try_get("number")?, row.try_get("id")?)
        }
        // Before the first and behind the last position of any list (ids are lower-case ASCII).
        (None, Order::Ascending) => (i64::MIN, String::new()),
        (None, Order::Descending) => (i64::MAX, "~".to_owned()),
    };
    let statement = match list.order {
        Order::Ascending => sql.ascending,
        Order::Descending => sql.descending,
    };
    let mut query = sqlx::query(statement)
        .bind(parent.to_owned())
        .bind(number)
        .bind(id)
        .bind(i64::from(list.limit) + 1);
    if let Some(filter) = filter {
        query = query.bind(filter.to_owned());
    }
    let mut rows = query.fetch_all(conn).await?;
    let limit = usize::try_from(list.limit).unwrap_or(usize::MAX);
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    Ok(Page {
        items: rows.iter().map(read).collect::<Result<_, _>>()?,
        has_more,
    })
}
