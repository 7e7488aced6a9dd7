//! No statement reads more the more there ever was: each finds its rows by an index, or is named here with its reason.

use std::path::Path;

use berth_store::{Location, testing::TestDatabase};
use sqlx::{AnyConnection, AssertSqlSafe, Connection, Row};

/// Indexes that hold only what there is to do, so that reading one of them whole is reading the work.
const WORK: &[&str] = &[
    "allocations_live",
    "allocations_unreleased",
    "environments_to_allocate",
    "environments_to_initialize",
    "environments_to_recover",
    "reservations_due",
    "reservations_pending",
    "sessions_to_purge",
    "sessions_to_trim",
    "turns_live",
    "turns_queued",
    "write_operations_that_expire",
];

/// Tables of one row, or of one for each harness or choice of a provider.
const SMALL: &[&str] = &[
    "clock",
    "installation",
    "lease",
    "model_defaults",
    "provider_selections",
];

/// Read from one end up to a limit.
const ENDS: &[&str] = &["audit_log_by_time", "sqlite_autoindex_projects_1"];

/// Statements that must use this index and no other.
const CHOSEN: &[(&str, &str)] = &[
    (
        "FROM write_operations w LEFT JOIN api_keys k ON k.id = w.key_id WHERE w.project_id = $1 AND w.resource_type",
        "write_operations_of_resource",
    ),
    (
        "WHERE w.project_id = $1 AND w.resource_id = $5",
        "write_operations_of_resource (project_id=? AND resource_id=?",
    ),
    (
        "FROM environments e JOIN sessions s ON s.id = e.session_id WHERE e.kind",
        "environments_to_allocate",
    ),
    (
        "FROM environments e JOIN sessions s ON s.id = e.session_id WHERE e.initialization",
        "environments_to_initialize",
    ),
    (
        "UNION SELECT session_id FROM environments",
        "environments_to_recover",
    ),
    (
        "FROM environments WHERE initialization",
        "environments_to_recover",
    ),
    (
        "FROM environments WHERE connection",
        "environments_to_recover",
    ),
    // There are two, and either holds no more than what lives.
    (
        "SELECT count(*) AS held FROM allocations",
        "INDEX allocations_",
    ),
    (
        "UPDATE configurations SET body",
        "sqlite_autoindex_configurations_1",
    ),
    (
        "SELECT s.id, s.deleted_at FROM sessions s",
        "sessions_to_purge",
    ),
    (
        "SELECT id FROM sessions WHERE purged_at IS NULL",
        "sessions_to_trim",
    ),
    (
        "FROM reservations WHERE state = 'pending' AND deadline",
        "reservations_due",
    ),
    (
        "FROM reservations WHERE state = 'pending' AND session_id",
        "reservations_pending",
    ),
    (
        "FROM turns t JOIN sessions s ON s.id = t.session_id WHERE t.status = 'queued'",
        "turns_queued",
    ),
];

/// Every string literal of Rust source.
fn literals(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = source.chars().peekable();
    while let Some(char) = rest.next() {
        match char {
            '/' if rest.peek() == Some(&'/') => {
                while rest.next().is_some_and(|char| char != '\n') {}
            }
            '\'' => {
                // A character, or a lifetime.
                let mut ahead = rest.clone();
                match (ahead.next(), ahead.next()) {
                    (Some('\\'), Some(_)) => {
                        rest = {
                            rest.next();
                            rest.next();
                            rest
                        }
                    }
                    (Some(_), Some('\'')) => {
                        rest = {
                            rest.next();
                            rest.next();
                            rest
                        }
                    }
                    _ => {}
                }
            }
            '"' => {
                let mut text = String::new();
                while let Some(char) = rest.next() {
                    match char {
                        '"' => break,
                        '\\' => match rest.next() {
                            Some('\n') => {
                                while rest.next_if(|char| char.is_whitespace()).is_some() {}
                            }
                            Some('n') => text.push('\n'),
                            Some(other) => text.push(other),
                            None => break,
                        },
                        char => text.push(char),
                    }
                }
                found.push(text);
            }
            _ => {}
        }
    }
    found
}

fn sources(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("testing") {
                sources(&path, found);
            }
        } else if !path.ends_with("tests.rs") {
            found.push(std::fs::read_to_string(path).unwrap());
        }
    }
}

fn statements() -> Vec<String> {
    let mut files = Vec::new();
    sources(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut files,
    );
    let is_statement = |text: &String| {
        ["SELECT ", "UPDATE ", "DELETE ", "INSERT "]
            .iter()
            .any(|verb| text.starts_with(verb))
    };
    files
        .iter()
        .flat_map(|file| literals(file))
        .filter(is_statement)
        .collect()
}

#[tokio::test]
async fn every_statement_finds_its_rows_by_an_index() {
    let db = TestDatabase::sqlite();
    db.open().await.close().await;
    let Location::File(path) = db.location() else {
        panic!("a file")
    };
    let path = path
        .to_str()
        .unwrap()
        .replace('%', "%25")
        .replace('?', "%3f")
        .replace('#', "%23")
        .replace(' ', "%20");
    let mut conn = AnyConnection::connect(&format!("sqlite://{path}"))
        .await
        .unwrap();
    let statements = statements();
    assert!(
        statements.len() > 100,
        "only {} were found",
        statements.len()
    );
    let (mut explained, mut scans) = (Vec::new(), Vec::new());
    for sql in &statements {
        // Pieces of a statement and those of PostgreSQL are none that SQLite reads.
        let Ok(rows) = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}")))
            .fetch_all(&mut conn)
            .await
        else {
            continue;
        };
        let plan: Vec<String> = rows.iter().map(|row| row.get("detail")).collect();
        for step in &plan {
            let mut words = step.split_whitespace();
            if words.next() != Some("SCAN") {
                continue;
            }
            let of = words.next().unwrap_or_default();
            let index = step.split("INDEX ").nth(1).unwrap_or_default();
            let named = [' ', ')'].map(|end| format!(") AS {of}{end}"));
            let derived = of == "CONSTANT"
                || of.starts_with('(')
                || named.iter().any(|name| sql.contains(name));
            if !(derived || SMALL.contains(&of) || WORK.contains(&index) || ENDS.contains(&index)) {
                scans.push(format!("{step}\n    {sql}"));
            }
        }
        explained.push((sql, plan));
    }
    // Few are put together of pieces.
    assert!(
        explained.len() * 10 > statements.len() * 8,
        "{} of {} could be read",
        explained.len(),
        statements.len()
    );
    assert!(scans.is_empty(), "{}", scans.join("\n"));
    for (part, index) in CHOSEN {
        let found: Vec<_> = explained
            .iter()
            .filter(|(sql, _)| sql.contains(part))
            .collect();
        assert!(!found.is_empty(), "no statement has {part}");
        for (sql, plan) in found {
            assert!(
                plan.iter().any(|step| step.contains(index)),
                "{sql}\n{}",
                plan.join("\n")
            );
        }
    }
    conn.close().await.unwrap();
}

/// An order by a locale may change with the server's operating system, and then an index finds nothing any more.
#[tokio::test]
async fn text_in_indexes_is_ordered_by_its_bytes_on_postgres() {
    let db = TestDatabase::postgres().await;
    db.open().await.close().await;
    let Location::Server { url, .. } = db.location() else {
        panic!("a server")
    };
    let mut conn = AnyConnection::connect(&url).await.unwrap();
    let rows = sqlx::query(
        "SELECT CAST(c.relname AS TEXT) AS name, CAST(pg_get_indexdef(i.indexrelid) AS TEXT) AS definition \
         FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
         CROSS JOIN LATERAL unnest(i.indcollation::oid[]) AS used (id) JOIN pg_collation l ON l.oid = used.id \
         WHERE n.nspname = 'public' AND l.collname <> 'C'",
    )
    .fetch_all(&mut conn)
    .await
    .unwrap();
    let wrong: Vec<String> = rows.iter().map(|row| row.get("definition")).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    conn.close().await.unwrap();
}
