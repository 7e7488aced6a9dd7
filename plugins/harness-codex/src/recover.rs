//! Finding the thread when its id was never recorded (HIS-003, RP-10.19).

use sdk::json::{list, string};
use serde_json::Value;

/// What `thread/list` shows.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// Exactly one unarchived root, in the expected directory.
    One(String),
    /// None.
    None,
    /// Only one, elsewhere.
    Foreign,
    /// More than one, or more than one page.
    Several,
}

/// The only root of the private home, if it has the expected directory.
pub fn only_root(answer: &Value, cwd: &str) -> Found {
    if answer
        .get("nextCursor")
        .is_some_and(|cursor| !cursor.is_null())
    {
        return Found::Several;
    }
    let roots: Vec<&Value> = list(answer, "data")
        .iter()
        .filter(|thread| is_root(thread))
        .collect();
    match roots.as_slice() {
        [root] if string(root, "cwd") == Some(cwd) => {
            string(root, "id").map_or(Found::Foreign, |id| Found::One(id.to_owned()))
        }
        [] => Found::None,
        [_] => Found::Foreign,
        _ => Found::Several,
    }
}

/// The thread that was named last. Threads without a message are alike: of each process that was prepared and took no Turn one
/// may be left, and none of them did anything.
pub fn newest_named(names: &[u8], name: &str) -> Option<String> {
    let line = |line: &[u8]| {
        let named: Value = serde_json::from_slice(line).ok()?;
        let ours = string(&named, "thread_name") == Some(name);
        string(&named, "id").filter(|_| ours).map(str::to_owned)
    };
    names.split(|byte| *byte == b'\n').rev().find_map(line)
}

fn is_root(thread: &Value) -> bool {
    let child = thread
        .get("parentThreadId")
        .is_some_and(|parent| !parent.is_null())
        || thread["source"].get("subAgent").is_some();
    !child
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn thread(id: &str, cwd: &str, parent: Option<&str>) -> Value {
        json!({"id": id, "cwd": cwd, "parentThreadId": parent, "source": "vscode"})
    }

    #[test]
    fn exactly_one_root_in_the_expected_directory_fits() {
        let one = json!({"data": [thread("t", "/w", None), thread("c", "/w", Some("t"))], "nextCursor": null});
        assert_eq!(only_root(&one, "/w"), Found::One("t".into()));
        assert_eq!(only_root(&one, "/elsewhere"), Found::Foreign);
        assert_eq!(only_root(&json!({"data": []}), "/w"), Found::None);
    }

    #[test]
    fn of_empty_threads_the_newest_goes_on() {
        let names = br#"{"id":"a","thread_name":"berth"}
{"id":"b","thread_name":"berth"}
{"id":"c","thread_name":"another"}
{"id":"d","thr"#;
        assert_eq!(newest_named(names, "berth").as_deref(), Some("b"));
        assert_eq!(newest_named(b"", "berth"), None);
        assert_eq!(newest_named(b"no json\n\xff\n", "berth"), None);
    }

    #[test]
    fn more_than_one_is_never_a_guess() {
        let two = json!({"data": [thread("a", "/w", None), thread("b", "/other", None)]});
        assert_eq!(only_root(&two, "/w"), Found::Several);
        let pages = json!({"data": [thread("a", "/w", None)], "nextCursor": "more"});
        assert_eq!(only_root(&pages, "/w"), Found::Several);
    }
}
