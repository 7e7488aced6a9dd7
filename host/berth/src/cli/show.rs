//! Answers on standard output: a table for people, JSON with `--json`.

use serde_json::Value;

/// Longest cell of a table, in characters: what callers of the API chose may be long.
const CELL: usize = 120;

/// Prints the value as JSON.
pub fn json(value: &Value) {
    say!("{value:#}");
}

/// Prints rows under their headings, columns aligned. An empty table says so.
pub fn table(headings: &[&str], rows: &[Vec<String>]) {
    if rows.is_empty() {
        say!("none");
        return;
    }
    say!("{}", lay_out(headings, rows).trim_end());
}

fn lay_out(headings: &[&str], rows: &[Vec<String>]) -> String {
    let mut lines = vec![
        headings
            .iter()
            .map(|heading| heading.to_uppercase())
            .collect::<Vec<_>>(),
    ];
    lines.extend(
        rows.iter()
            .map(|row| row.iter().map(|cell| cut(cell)).collect()),
    );
    let widths: Vec<usize> = (0..headings.len())
        .map(|column| {
            lines
                .iter()
                .filter_map(|line| line.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for line in lines {
        let cells: Vec<String> = line
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn cut(cell: &str) -> String {
    match cell.char_indices().nth(CELL) {
        None => cell.to_owned(),
        Some((end, _)) => format!("{}…", &cell[..end]),
    }
}

/// A member as text: a dash where there is nothing. What would move or turn a terminal's text is written out: some of it was
/// chosen by callers of the API.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => plain(text),
        other => plain(&other.to_string()),
    }
}

fn plain(text: &str) -> String {
    let turns = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || turns(c) {
            plain.extend(c.escape_unicode());
        } else {
            plain.push(c);
        }
    }
    plain
}

/// Unix seconds as a UTC time.
pub fn time(value: &Value) -> String {
    value
        .as_i64()
        .and_then(|seconds| jiff::Timestamp::from_second(seconds).ok())
        .map_or_else(|| text(value), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_without_trailing_blanks() {
        let rows = [
            vec!["a".to_owned(), "long cell".into(), "x".into()],
            vec!["bbb".into(), "c".into(), String::new()],
        ];
        assert_eq!(
            lay_out(&["id", "name", "end"], &rows),
            "ID   NAME       END\na    long cell  x\nbbb  c\n"
        );
    }

    #[test]
    fn what_callers_chose_cannot_take_a_table_or_a_terminal() {
        let rows = [vec!["x".repeat(100_000), "end".to_owned()]];
        let table = lay_out(&["model", "state"], &rows);
        assert!(
            table.lines().all(|line| line.chars().count() < 140),
            "{table}"
        );
        assert!(table.contains("x…  end"));
        let text = text(&"\u{1b}[2Ja\nb\u{202e}c é".into());
        assert_eq!(text, "\\u{1b}[2Ja\\u{a}b\\u{202e}c é");
    }

    #[test]
    fn nothing_is_a_dash_and_seconds_are_a_time() {
        assert_eq!(text(&Value::Null), "-");
        assert_eq!(time(&serde_json::json!(0)), "1970-01-01T00:00:00Z");
    }
}
