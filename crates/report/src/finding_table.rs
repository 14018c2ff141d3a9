//! Tables of an experiment: numbers to the right under each other, intervals below their means.

use std::fmt::Write;

use super::key::swatch;
use super::markup::escape;
use crate::compare::{digits_of, in_digits};
use crate::{Cell, Table};

/// Stands for what was not measured, or not printed.
const NOTHING: &str = "<span class=\"nothing\">–</span>";

/// The table in a frame of its own, in which it scrolls. Rows that are named like a line of the
/// pictures show its look.
pub(super) fn finding_table(table: &Table, lines: &[&str]) -> String {
    let columns: Vec<Column> = (0..table.columns.len())
        .map(|place| Column::of(table.rows.iter().filter_map(|row| row.get(place))))
        .collect();
    let mut html = format!(
        "<div class=\"frame pinned\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table><thead><tr>",
        escape(&table.title)
    );
    for (name, column) in table.columns.iter().zip(&columns) {
        let _ = write!(html, "<th scope=\"col\"{}>{}</th>", column.class(""), heading(name));
    }
    html.push_str("</tr></thead><tbody>");
    let mut above: Option<&Cell> = None;
    for row in &table.rows {
        html.push_str("<tr>");
        for (place, (cell, column)) in row.iter().zip(&columns).enumerate() {
            let text = column.show(cell);
            if place > 0 {
                let _ = write!(html, "<td{}{}>{text}</td>", column.class(""), range(cell));
                continue;
            }
            // Rows of the same name belong together: only the first says it aloud.
            let class = column.class(if above == Some(cell) { "again" } else { "" });
            let swatch = swatch_of(cell, lines);
            let _ = write!(html, "<th scope=\"row\"{class}>{swatch}{text}</th>");
        }
        above = row.first();
        html.push_str("</tr>");
    }
    html + "</tbody></table></div>"
}

/// The name of a column; it breaks between words only, and a unit stays with its word.
fn heading(name: &str) -> String {
    let words = name.replace(" %", "\u{a0}%");
    let words = words.split(' ').map(|word| match word.contains('-') {
        true => format!("<span class=\"whole\">{}</span>", escape(word)),
        false => escape(word),
    });
    words.collect::<Vec<_>>().join(" ")
}

fn swatch_of(cell: &Cell, lines: &[&str]) -> String {
    let Cell::Text(name) = cell else { return String::new() };
    let place = lines.iter().position(|line| line == name);
    place.map(swatch).unwrap_or_default()
}

/// The smallest and the largest, shown where a reader points at a cell.
fn range(cell: &Cell) -> String {
    match cell {
        Cell::Spread(spread) if spread.interval.is_some() => {
            let digits = digits_of(spread.mean, spread.interval);
            let [min, max] = [spread.min, spread.max].map(|end| in_digits(end, None, digits));
            format!(" title=\"from {min} to {max} over seeds\"")
        }
        _ => String::new(),
    }
}

/// How the cells of one column are written.
#[derive(Debug, PartialEq)]
struct Column {
    is_number: bool,
    digits: usize,
}

impl Column {
    fn of<'a>(cells: impl Iterator<Item = &'a Cell> + Clone) -> Self {
        let is_number = cells.clone().all(|cell| is_number(cell) || is_nothing(cell))
            && cells.clone().any(is_number);
        let figures = cells.filter_map(|cell| match cell {
            Cell::Number(number) => Some((*number, None)),
            Cell::Spread(spread) => Some((spread.mean, spread.interval)),
            _ => None,
        });
        let figures: Vec<(f64, Option<f64>)> =
            figures.filter(|(mean, _)| mean.is_finite()).collect();
        let printed: Option<Vec<usize>> = figures.iter().map(printed_digits).collect();
        let digits = printed.and_then(|digits| digits.into_iter().max()).unwrap_or_else(|| {
            let mut digits: Vec<usize> =
                figures.iter().map(|(mean, interval)| digits_of(*mean, *interval)).collect();
            digits.sort_unstable();
            // The middle one: points stand under each other and most cells have three digits
            // that count.
            digits.get(digits.len().saturating_sub(1) / 2).copied().unwrap_or(0)
        });
        Self { is_number, digits }
    }

    fn class(&self, also: &str) -> String {
        let own = if self.is_number { "number" } else { "text" };
        let both = [own, also].join(" ");
        format!(" class=\"{}\"", both.trim_end())
    }

    /// A cell as markup.
    fn show(&self, cell: &Cell) -> String {
        match cell {
            cell if is_nothing(cell) => NOTHING.to_owned(),
            Cell::Text(text) => escape(text),
            Cell::Number(number) => self.figure(*number, None),
            Cell::Spread(spread) => {
                let ends = spread.range().map(|(min, max)| {
                    let [min, max] = [min, max].map(|end| in_digits(end, None, self.digits));
                    format!(" <span class=\"half\">{min} to {max}</span>")
                });
                self.figure(spread.mean, spread.interval) + &ends.unwrap_or_default()
            }
            Cell::Nothing => NOTHING.to_owned(),
        }
    }

    fn figure(&self, mean: f64, interval: Option<f64>) -> String {
        let would_vanish = mean != 0.0 && mean.abs() < 0.5 * 10f64.powi(-(self.digits as i32));
        let is_noise = interval.is_some_and(|half| half >= mean.abs());
        let digits = match would_vanish && !is_noise {
            true => digits_of(mean, interval).max(self.digits),
            false => self.digits,
        };
        let text = in_digits(mean, interval, digits);
        let text = match text.strip_prefix('-') {
            Some(rest) => format!("−{rest}"),
            None => text,
        };
        match text.split_once(" ± ") {
            Some((mean, half)) => format!("{mean} <span class=\"half\">± {half}</span>"),
            None => text,
        }
    }
}

/// Digits after the point of a figure that has two at most, as those of papers do.
fn printed_digits((mean, interval): &(f64, Option<f64>)) -> Option<usize> {
    let is_exact = |digits: &usize| {
        let scaled = mean * 10f64.powi(*digits as i32);
        (scaled - scaled.round()).abs() < 1e-9 * scaled.abs().max(1.0)
    };
    (0..=2).find(|digits| interval.is_none() && is_exact(digits))
}

fn is_number(cell: &Cell) -> bool {
    match cell {
        Cell::Number(number) => number.is_finite(),
        Cell::Spread(spread) => spread.mean.is_finite(),
        // Sizes come as words, `20` or `+5`; `inf` and `nan` are none of them.
        Cell::Text(text) => {
            text.ends_with(|c: char| c.is_ascii_digit()) && text.parse::<f64>().is_ok()
        }
        Cell::Nothing => false,
    }
}

fn is_nothing(cell: &Cell) -> bool {
    match cell {
        Cell::Number(number) => !number.is_finite(),
        Cell::Spread(spread) => !spread.mean.is_finite(),
        Cell::Text(text) => matches!(text.trim(), "" | "-" | "–"),
        Cell::Nothing => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spread;

    fn spread(mean: f64, interval: f64) -> Cell {
        Spread { mean, interval: Some(interval), min: mean - 1.0, max: mean + 1.0 }.into()
    }

    #[test]
    fn numbers_of_a_column_have_the_same_digits() {
        let check = |cells: &[Cell], expect: &[&str]| {
            let column = Column::of(cells.iter());
            let shown: Vec<String> = cells.iter().map(|cell| column.show(cell)).collect();
            let shown: Vec<String> = shown
                .iter()
                .map(|cell| cell.replace("<span class=\"half\">", "").replace("</span>", ""))
                .collect();
            assert_eq!(shown, expect);
        };
        check(
            &[spread(0.954, 0.02), spread(1.21, 0.3), spread(35.2, 4.0)],
            &["0.95 ± 0.02", "1.21 ± 0.30", "35.20 ± 4.00"],
        );
        check(&[spread(-41_250.4, 120.0), spread(3.0, 1.0)], &["−41\u{202f}250 ± 120", "3 ± 1"]);
        // What a paper printed stays as it was printed.
        check(&[288.5.into(), 129.6.into(), 0.6.into()], &["288.5", "129.6", "0.6"]);
        check(&[2000.0.into(), 2000.0.into()], &["2000", "2000"]);
        // Two seeds have a range.
        check(
            &[Spread::of(&[6.4, 18.8]).into(), Spread::of(&[3.2, 3.8]).into()],
            &["12.6 6.4 to 18.8", "3.5 3.2 to 3.8"],
        );
        // Small is not zero, unless its interval says so.
        check(&[1.2345.into(), 2.3456.into(), 0.000_71.into()], &["1.23", "2.35", "0.0007"]);
        check(
            &[spread(1.2, 0.1), spread(2.3, 0.1), spread(0.001, 0.3)],
            &["1.20 ± 0.10", "2.30 ± 0.10", "0.00 ± 0.30"],
        );
    }

    #[test]
    fn columns_of_words_are_told_from_columns_of_numbers() {
        let check = |cells: &[Cell], expect: bool| {
            assert_eq!(Column::of(cells.iter()).is_number, expect, "{cells:?}");
        };
        check(&["20".into(), "+5".into(), Cell::Nothing], true);
        check(&["55.9 % below".into(), "-".into()], false);
        check(&["inf".into()], false);
        check(&["-".into(), Cell::Nothing], false);
        check(&[f64::NAN.into(), 2.0.into()], true);
        assert_eq!(Column::of([Cell::from(f64::NAN)].iter()).show(&f64::NAN.into()), NOTHING);
    }

    #[test]
    fn headings_break_between_words_only() {
        assert_eq!(heading("below it, %"), "below it,\u{a0}%");
        assert_eq!(
            heading("<i> container-s"),
            "&lt;i&gt; <span class=\"whole\">container-s</span>"
        );
    }

    #[test]
    fn names_are_escaped_and_carry_the_look_of_their_line() {
        let table = Table {
            title: "\"><script>".to_owned(),
            columns: vec!["<b>".to_owned(), "SLO violations %".to_owned()],
            rows: vec![
                vec!["<script>x".into(), spread(1.0, 0.5)],
                vec!["<script>x".into(), Cell::Nothing],
            ],
        };
        let html = finding_table(&table, &["other", "<script>x"]);
        assert!(!html.contains("<script>") && !html.contains("<b>"), "{html}");
        assert_eq!(html.matches("href=\"#m1\"").count(), 2, "{html}");
        assert_eq!(html.matches("class=\"text again\"").count(), 1, "{html}");
        assert!(html.contains("title=\"from 0.00 to 2.00 over seeds\""), "{html}");
    }
}
