//! The result of an experiment: tables, curves and notes, for people and programs.

use serde::Serialize;
use serde_json::{Map, Value};

use super::Spread;

/// What came out of one experiment.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Finding {
    /// Its name, as `simppo/fig-4.6`.
    pub name: String,
    /// What it asks.
    pub title: String,
    /// Seeds of training.
    pub seeds: Vec<u64>,
    /// Fewer episodes and sizes than the experiment asks for: not to quote.
    pub is_quick: bool,
    /// Tables, ours beside the paper's.
    pub tables: Vec<Table>,
    /// Curves to draw.
    pub pictures: Vec<Picture>,
    /// How to read it.
    pub notes: Vec<String>,
    /// Figures that programs look for, by name.
    #[serde(flatten)]
    pub facts: Map<String, Value>,
}

/// A table.
#[derive(Debug, Clone, Serialize)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Names of its columns.
    pub columns: Vec<String>,
    /// Its rows, as long as there are columns.
    pub rows: Vec<Vec<Cell>>,
}

/// One cell of a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// Text.
    Text(String),
    /// A figure without a spread.
    Number(f64),
    /// A figure over seeds.
    Spread(Spread),
    /// Not measured, or not printed.
    Nothing,
}

/// Lines over a common axis.
#[derive(Debug, Clone, Serialize)]
pub struct Picture {
    /// What it shows.
    pub title: String,
    /// What lies along the horizontal axis.
    pub x: String,
    /// What lies along the vertical axis.
    pub y: String,
    /// Places on the horizontal axis where something happened.
    pub marks: Vec<(f64, String)>,
    /// The lines.
    pub lines: Vec<Line>,
}

/// One line: mean and 95 % interval over seeds.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    /// The name of what it shows.
    pub name: String,
    /// Place, mean, and half the width of the interval.
    pub points: Vec<(f64, f64, f64)>,
}

impl Table {
    /// An empty table.
    pub fn new(title: impl Into<String>, columns: &[&str]) -> Self {
        Self {
            title: title.into(),
            columns: columns.iter().map(|name| (*name).to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row, which must have as many cells as the table has columns.
    pub fn push(&mut self, row: Vec<Cell>) {
        debug_assert_eq!(row.len(), self.columns.len(), "{}", self.title);
        self.rows.push(row);
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number(number) if number.abs() >= 100.0 => write!(f, "{number:.0}"),
            Self::Number(number) => write!(f, "{number:.2}"),
            Self::Spread(spread) => spread.fmt(f),
            Self::Nothing => f.write_str("-"),
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Spread> for Cell {
    fn from(spread: Spread) -> Self {
        Self::Spread(spread)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl Line {
    /// Curves of several seeds, thinned to about eighty points, each the mean of its stretch.
    pub fn over_seeds(name: &str, curves: &[Vec<f64>]) -> Self {
        let shortest = curves.iter().map(Vec::len).min().unwrap_or(0);
        let stretch = shortest.div_ceil(80).max(1);
        let mut points = Vec::new();
        for start in (0..shortest).step_by(stretch) {
            let end = (start + stretch).min(shortest);
            let means: Vec<f64> = curves
                .iter()
                .map(|curve| curve[start..end].iter().sum::<f64>() / (end - start) as f64)
                .collect();
            let spread = Spread::of(&means);
            let middle = (start + end) as f64 / 2.0;
            points.push((middle, spread.mean, spread.interval.unwrap_or(0.0)));
        }
        Self { name: name.to_owned(), points }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_the_mean_of_its_seeds_in_stretches() {
        let curves = vec![vec![1.0; 160], vec![3.0; 161]];
        let line = Line::over_seeds("x", &curves);
        assert_eq!(line.points.len(), 80);
        assert_eq!((line.points[0].0, line.points[0].1), (1.0, 2.0));
    }
}
