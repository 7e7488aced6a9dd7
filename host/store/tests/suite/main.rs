//! One suite, two databases: what the store promises to everybody above it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

/// Tests that run once on SQLite and once on PostgreSQL.
macro_rules! both {
    ($($(#[$meta:meta])* async fn $name:ident($db:ident: TestDatabase) $body:block)*) => {$(
        $(#[$meta])*
        mod $name {
            use super::*;
            async fn body($db: TestDatabase) $body
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() { body(TestDatabase::sqlite()).await }
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() { body(TestDatabase::postgres().await).await }
        }
    )*};
}

mod access;
mod crash;
mod fences;
mod fixture;
mod library;
mod life;
mod lists;
mod pages;
mod plans;
mod purge;
mod races;
mod silent;
mod unknown;
mod vaults;
mod wakes;
