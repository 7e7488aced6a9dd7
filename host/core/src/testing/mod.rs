//! Other sides for the tests of this crate, and what several of them share.

/// Makes a test on each database out of a function that takes one.
macro_rules! both {
    ($name:ident) => {
        mod $name {
            use store::testing::TestDatabase;
            #[tokio::test(flavor = "multi_thread")]
            async fn sqlite() {
                super::$name(TestDatabase::sqlite()).await
            }
            #[tokio::test(flavor = "multi_thread")]
            async fn postgres() {
                super::$name(TestDatabase::postgres().await).await
            }
        }
    };
}

pub(crate) mod issuer;
