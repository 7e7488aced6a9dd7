//! `cargo xtask rules`: from a rule id to the code that fulfils it and the tests that prove it. Doc comments and tests name the ids.

use crate::shell::root;
use anyhow::Result;
use clap::Args;
use std::collections::BTreeMap;
use std::path::Path;

/// Which rule to look for.
#[derive(Args)]
pub struct Options {
    /// A rule id, for example `SC-6.3` or `ENV-241`; without one, every id with its number of places.
    id: Option<String>,
}

/// Prints the places.
pub fn run(options: &Options) -> Result<()> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for room in ["host", "plugin-api", "plugins", "migrations", "tests"] {
        visit(&root().join(room), &mut places)?;
    }
    match &options.id {
        Some(id) => {
            let found = places.get(id.trim()).map(Vec::as_slice).unwrap_or_default();
            found.iter().for_each(|place| println!("{place}"));
            anyhow::ensure!(!found.is_empty(), "no code names the rule {id}");
        }
        None => places
            .iter()
            .for_each(|(id, found)| println!("{id:<12} {}", found.len())),
    }
    Ok(())
}

fn visit(folder: &Path, places: &mut BTreeMap<String, Vec<String>>) -> Result<()> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Ok(());
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            visit(&path, places)?;
        } else if [".rs", ".sql", ".py", ".wit"]
            .iter()
            .any(|end| name.ends_with(end))
        {
            let text = std::fs::read_to_string(&path)?;
            let shown = path
                .strip_prefix(root())
                .unwrap_or(&path)
                .display()
                .to_string();
            for (number, line) in text.lines().enumerate() {
                for id in ids(line) {
                    places.entry(id).or_default().push(format!(
                        "{shown}:{}: {}",
                        number + 1,
                        line.trim()
                    ));
                }
            }
        }
    }
    Ok(())
}

/// The rule ids in one line: capital letters (groups joined by `-`), a dash, a number with at most one dot.
fn ids(line: &str) -> Vec<String> {
    line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '.'))
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| {
            let Some((letters, number)) = word.rsplit_once('-') else {
                return false;
            };
            let groups = letters
                .split('-')
                .all(|group| !group.is_empty() && group.chars().all(|c| c.is_ascii_uppercase()));
            let digits = number.strip_suffix(['a', 'b', 'c']).unwrap_or(number);
            groups
                && !digits.is_empty()
                && digits.split('.').count() <= 2
                && digits
                    .split('.')
                    .all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit()))
        })
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_ids_are_found_and_other_words_are_not() {
        assert_eq!(
            ids("/// Claims nothing twice (SC-6.3, ENV-241; S-LS-4), FIL-108a."),
            ["SC-6.3", "ENV-241", "S-LS-4", "FIL-108a"]
        );
        assert!(ids("UTF-8x sha-256 x86-64 Berth-1 -1 A- SC-6.3.1").is_empty());
    }
}
