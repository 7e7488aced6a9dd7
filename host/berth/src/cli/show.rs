//! Answers on standard output: a table for people, JSON with `--json`.

use serde_json::Value;

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
    lines.extend(rows.iter().cloned());
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

/// A member as text: a dash where there is nothing.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
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
    fn nothing_is_a_dash_and_seconds_are_a_time() {
        assert_eq!(text(&Value::Null), "-");
        assert_eq!(time(&serde_json::json!(0)), "1970-01-01T00:00:00Z");
    }
}
