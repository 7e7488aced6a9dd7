//! Each row runs, with counts so small that its figures mean nothing and are not looked at.
//!
//! `BERTH_TEST_BIN` and `BERTH_TEST_SCRIPTED` name the programs (default: beside this crate's build), `BERTH_TEST_PLUGINS` the folder of
//! plugin files (`cargo xtask plugins` builds them).

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use berth_bench::effort::Effort;
use berth_bench::report::Line;
use berth_bench::rows::Row;
use berth_bench::server::Programs;
use std::path::{Path, PathBuf};

const BENCH: &str = env!("CARGO_BIN_EXE_berth-bench");

fn program(variable: &str, name: &str) -> PathBuf {
    let beside = Path::new(BENCH).with_file_name(name);
    let program = std::env::var_os(variable).map_or(beside, PathBuf::from);
    assert!(program.is_file(), "{} is missing", program.display());
    program
}

fn plugins() -> PathBuf {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-plugins");
    std::env::var_os("BERTH_TEST_PLUGINS").map_or(beside, PathBuf::from)
}

async fn measured(row: Row) -> Vec<Line> {
    let programs = Programs {
        berth: program("BERTH_TEST_BIN", "berth"),
        scripted: program("BERTH_TEST_SCRIPTED", "berth-scripted"),
        plugins: plugins(),
        bench: BENCH.into(),
        disk: std::env::temp_dir(),
    };
    let lines = row.measure(&programs, Effort::TINY).await.unwrap();
    for line in &lines {
        assert!(line.figure.is_finite(), "{line:?}");
        assert!(line.ratio.is_none_or(f64::is_finite), "{line:?}");
    }
    lines
}

macro_rules! rows {
    ($($test:ident: $row:ident has $lines:literal,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                assert_eq!(measured(Row::$row).await.len(), $lines);
            }
        )*

        #[test]
        fn every_row_has_a_test() {
            let tested = [$(Row::$row),*];
            assert!(Row::ALL.iter().all(|row| tested.contains(row)));
        }
    };
}

rows! {
    reading_is_measured: Read has 2,
    a_long_history_is_measured: List has 1,
    a_foreign_id_is_measured: Missing has 1,
    creating_is_measured: Create has 2,
    a_turn_is_measured: Turn has 1,
    deltas_are_measured: Delta has 2,
    a_machine_is_measured: Machine has 1,
    an_upload_is_measured: Upload has 2,
    an_idle_core_is_measured: Idle has 4,
    a_plugin_is_measured: Plugin has 8,
}
