//! The API over a real store, without sockets: requests in, bytes out, and the database compared before and after.

/// A test that runs once on SQLite and once on PostgreSQL.
macro_rules! both {
    ($name:ident) => {
        mod $name {
            use store::testing::TestDatabase;
            #[tokio::test]
            async fn sqlite() {
                super::$name(TestDatabase::sqlite()).await
            }
            #[tokio::test]
            async fn postgres() {
                super::$name(TestDatabase::postgres().await).await
            }
        }
    };
}

mod administration;
mod creations;
mod files;
pub(crate) mod fixture;
mod idempotency;
mod lists;
mod matrix;
mod paths;
mod registry;
mod shapes;
mod skills;
mod slow;
mod streams;
mod templates;
mod text;
mod vaults;
