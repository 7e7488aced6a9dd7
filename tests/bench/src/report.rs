//! The table: row, figure, ceiling, ratio, target, met or not.

use serde::Serialize;

/// What a line must reach.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "kind", content = "limit", rename_all = "snake_case")]
pub enum Target {
    /// The figure, divided by the ceiling, is at least this.
    RatioAtLeast(f64),
    /// The figure is at most this, in its unit.
    AtMost(f64),
    /// The figure is at least this, in its unit.
    AtLeast(f64),
}

/// One line of the table.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    /// What was measured.
    pub row: &'static str,
    /// The figure.
    pub figure: f64,
    /// Unit of figure and ceiling.
    pub unit: &'static str,
    /// What the figure is compared with, measured in the same run.
    pub ceiling: Option<(&'static str, f64)>,
    /// Median of figure divided by ceiling, pair by pair.
    pub ratio: Option<f64>,
    /// What it must reach.
    pub target: Target,
    /// Whether it does.
    pub met: bool,
}

impl Line {
    /// A rate beside its ceiling; `ratio` is of the pairs.
    #[must_use]
    pub fn rate(
        row: &'static str,
        figure: f64,
        ceiling: (&'static str, f64),
        ratio: f64,
        at_least: f64,
    ) -> Self {
        Self {
            row,
            figure,
            unit: "/s",
            ceiling: Some(ceiling),
            ratio: Some(ratio),
            target: Target::RatioAtLeast(at_least),
            met: ratio >= at_least,
        }
    }

    /// A cost with a limit of its own; the ceiling shows what the machine takes without Berth.
    #[must_use]
    pub fn cost(
        row: &'static str,
        figure: f64,
        unit: &'static str,
        ceiling: Option<(&'static str, f64)>,
        at_most: f64,
    ) -> Self {
        Self {
            row,
            figure,
            unit,
            ceiling,
            ratio: ceiling.map(|(_, value)| figure / value),
            target: Target::AtMost(at_most),
            met: figure <= at_most,
        }
    }

    /// A figure with a floor of its own.
    #[must_use]
    pub fn at_least(row: &'static str, figure: f64, unit: &'static str, at_least: f64) -> Self {
        Self {
            row,
            figure,
            unit,
            ceiling: None,
            ratio: None,
            target: Target::AtLeast(at_least),
            met: figure >= at_least,
        }
    }

    fn cells(&self) -> [String; 6] {
        let target = match self.target {
            Target::RatioAtLeast(ratio) => format!("ratio ≥ {ratio}"),
            Target::AtMost(limit) => format!("≤ {limit} {}", self.unit),
            Target::AtLeast(limit) => format!("≥ {limit} {}", self.unit),
        };
        [
            self.row.to_owned(),
            format!("{} {}", number(self.figure), self.unit),
            self.ceiling.map_or_else(
                || "–".to_owned(),
                |(name, value)| format!("{} {} ({name})", number(value), self.unit),
            ),
            self.ratio.map_or_else(|| "–".to_owned(), number),
            target,
            if self.met { "met" } else { "NOT MET" }.to_owned(),
        ]
    }
}

/// The table as text.
#[must_use]
pub fn table(lines: &[Line]) -> String {
    let head = ["row", "figure", "ceiling", "ratio", "target", ""].map(str::to_owned);
    let rows: Vec<[String; 6]> = std::iter::once(head)
        .chain(lines.iter().map(Line::cells))
        .collect();
    let mut text = String::new();
    for row in &rows {
        for (column, cell) in row.iter().enumerate() {
            let width = rows.iter().map(|row| row[column].chars().count()).max();
            text.push_str(cell);
            if column < 5 {
                let pad = width.unwrap_or(0) + 2 - cell.chars().count();
                text.extend(std::iter::repeat_n(' ', pad));
            }
        }
        text.push('\n');
    }
    text
}

/// Three digits that say something.
fn number(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_whether_its_target_is_met() {
        assert!(Line::rate("r", 10.0, ("c", 12.0), 0.83, 0.8).met);
        assert!(!Line::rate("r", 10.0, ("c", 20.0), 0.5, 0.8).met);
        assert!(Line::cost("r", 3.0, "ms", None, 3.0).met);
        let late = Line::cost("late", 3.1, "ms", Some(("pipe", 0.1)), 3.0);
        assert!(!late.met);
        assert!(
            Line::at_least("r", 3.0, "/s", 3.0).met && !Line::at_least("r", 2.9, "/s", 3.0).met
        );
        // A figure that could not be measured meets nothing.
        assert!(!Line::cost("r", f64::NAN, "ms", None, 3.0).met);
        let text = table(&[late]);
        assert!(text.contains("3.10 ms") && text.contains("0.10 ms (pipe)"));
        assert!(text.contains("≤ 3 ms") && text.contains("NOT MET"));
    }
}
