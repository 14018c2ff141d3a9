//! Lines of an experiment over a common axis, with their intervals as bands.

use super::axis::{Axis, tick_label};
use super::key::{key_of, look};
use super::markup::{escape, shorten};
use super::svg::{Anchor, Plot};
use crate::compare::with_interval;
use crate::{Line, Picture};

const HEIGHT: f64 = 280.0;

/// Marks on a line: enough to tell lines apart without colours.
const MARKS: usize = 4;

/// Letters of a label at a mark; the whole is in the description.
const MAX_LETTERS: usize = 24;

/// Height of a row of labels over the plot.
const LABEL_ROW: f64 = 15.0;

/// Width of a plot on a phone, and of a letter, in pixels.
const NARROWEST: f64 = 300.0;
const LETTER: f64 = 7.0;

/// The picture with its key; nothing if no line has a point. A line has the look of its place
/// among all `names`, so that it is the same in every picture.
pub(super) fn picture(picture: &Picture, names: &[&str]) -> Option<String> {
    let lines: Vec<(usize, &Line)> = picture
        .lines
        .iter()
        .filter(|line| line.points.iter().any(is_drawn))
        .map(|line| {
            let place = names.iter().position(|name| *name == line.name);
            (place.unwrap_or(0), line)
        })
        .collect();
    let points = || lines.iter().flat_map(|(_, line)| &line.points).filter(|point| is_drawn(point));
    let marks: Vec<&(f64, String)> =
        picture.marks.iter().filter(|(place, _)| place.is_finite()).collect();
    let places = || points().map(|(x, _, _)| *x).chain(marks.iter().map(|(place, _)| *place));
    let (first, last) = (points().next()?, places().fold(f64::NEG_INFINITY, f64::max));
    let start = places().fold(first.0, f64::min);
    // Curves are thinned to the middles of stretches: the first lies just after zero.
    let start = if start > 0.0 && start < 0.1 * last { 0.0 } else { start };
    let across = Axis::exact(start, last);
    let low = points().map(|(_, mean, half)| mean - half).fold(f64::INFINITY, f64::min);
    let high = points().map(|(_, mean, half)| mean + half).fold(f64::NEG_INFINITY, f64::max);
    let up = Axis::snug(low, high);

    let letters = up.ticks().into_iter().map(|tick| tick_label(tick).chars().count());
    let gutter = 12 + (LETTER as u32) * letters.max().unwrap_or(0) as u32;
    let rows = label_rows(&marks, &across);
    let head = match rows.iter().max() {
        Some(last) => LABEL_ROW * (*last as f64 + 1.0) + 6.0,
        None => 0.0,
    };
    let mut plot = Plot::new(&picture.title, &description(picture, &lines), HEIGHT)
        .gutters(gutter.max(30), 12)
        .foot(40.0)
        .head(head);
    plot.left_axis(&up, tick_label);
    plot.lower_axis(&across, tick_label);
    plot.text(1.0, HEIGHT + 34.0, 0.0, Anchor::End, "axis-name", &format!("{} →", picture.x));
    for ((place, label), row) in marks.iter().zip(rows) {
        let part = across.part(*place);
        plot.upright(part, "event");
        let y = -6.0 - LABEL_ROW * row as f64;
        plot.text(part, y, 0.0, anchor(part, label), "event-name", &shorten(label, MAX_LETTERS));
    }
    // Bands first: no band may lie over another's line.
    for (place, line) in &lines {
        for stretch in line.points.split(|point| !is_drawn(point)) {
            if stretch.iter().all(|(_, _, half)| *half == 0.0) {
                continue;
            }
            let band = stretch.iter().map(|(x, mean, half)| {
                (across.part(*x), plot.y(&up, mean - half), plot.y(&up, mean + half))
            });
            let band: Vec<_> = band.collect();
            plot.band(&format!("band {}", look(*place)), &band);
        }
    }
    for (place, line) in &lines {
        let drawn = line
            .points
            .iter()
            .map(|point| is_drawn(point).then(|| (across.part(point.0), plot.y(&up, point.1))));
        let drawn: Vec<_> = drawn.collect();
        plot.line(&format!("line {}", look(*place)), drawn.into_iter());
    }
    for (order, (place, line)) in lines.iter().enumerate() {
        let offset = order as f64 / lines.len() as f64;
        for (x, mean, half) in marked(&line.points, offset) {
            let says = format!(
                "{}: {} at {} {}",
                line.name,
                figure(*mean, *half),
                picture.x,
                tick_label(*x)
            );
            plot.mark(look(*place), across.part(*x), plot.y(&up, *mean), &says);
        }
    }
    let labels: Vec<(usize, &str)> =
        lines.iter().map(|(place, line)| (*place, line.name.as_str())).collect();
    Some(format!(
        "{}<figure><p class=\"up-name\">↑ {}</p>{}</figure>",
        key_of(&labels),
        escape(&picture.y),
        plot.finish()
    ))
}

fn is_drawn((x, mean, half): &(f64, f64, f64)) -> bool {
    x.is_finite() && mean.is_finite() && half.is_finite()
}

/// A mean with half its interval; lines of one seed have none.
fn figure(mean: f64, half: f64) -> String {
    with_interval(mean, (half > 0.0).then_some(half))
}

/// The description for screen readers.
fn description(picture: &Picture, lines: &[(usize, &Line)]) -> String {
    let mut words = vec![format!("{} over {}", picture.y, picture.x)];
    for (_, line) in lines {
        let mut drawn = line.points.iter().filter(|point| is_drawn(point));
        let Some(first) = drawn.next() else { continue };
        let last = drawn.next_back().unwrap_or(first);
        words.push(format!(
            "{} starts at {} and ends at {}",
            line.name,
            figure(first.1, first.2),
            figure(last.1, last.2)
        ));
    }
    let marks = picture.marks.iter().filter(|(place, _)| place.is_finite());
    words.extend(marks.map(|(place, label)| format!("{label} at {}", tick_label(*place))));
    words.join("; ")
}

/// A few points, spread evenly and apart from those of other lines; the last is always there.
fn marked(points: &[(f64, f64, f64)], offset: f64) -> impl Iterator<Item = &(f64, f64, f64)> {
    let drawn: Vec<_> = points.iter().filter(|point| is_drawn(point)).collect();
    let last = drawn.len().saturating_sub(1);
    let place = move |mark: usize| ((mark as f64 + offset) / MARKS as f64 * last as f64) as usize;
    let mut places: Vec<usize> = (0..MARKS).map(place).chain([last]).collect();
    places.dedup();
    places.into_iter().filter_map(move |place| drawn.get(place).copied())
}

/// The part of the width that a label takes on a phone.
fn width_of(label: &str) -> f64 {
    LETTER * (label.chars().count().min(MAX_LETTERS) + 1) as f64 / NARROWEST
}

/// Labels stand in the middle of their mark unless they would leave the picture.
fn anchor(part: f64, label: &str) -> Anchor {
    let half = width_of(label) / 2.0;
    match part {
        part if part < half => Anchor::Start,
        part if part > 1.0 - half => Anchor::End,
        _ => Anchor::Middle,
    }
}

/// The lowest row for each label in which it meets no other, even on a phone.
fn label_rows(marks: &[&(f64, String)], across: &Axis) -> Vec<usize> {
    let mut taken: Vec<Vec<(f64, f64)>> = Vec::new();
    let mut rows = Vec::new();
    for (place, label) in marks {
        let part = across.part(*place);
        let width = width_of(label);
        let from = match anchor(part, label) {
            Anchor::Start => part,
            Anchor::Middle => part - width / 2.0,
            Anchor::End => part - width,
        };
        let is_free = |row: &Vec<(f64, f64)>| {
            row.iter().all(|(start, end)| from >= *end || from + width <= *start)
        };
        let row = taken.iter().position(is_free).unwrap_or_else(|| {
            taken.push(Vec::new());
            taken.len() - 1
        });
        taken[row].push((from, from + width));
        rows.push(row);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, points: &[(f64, f64, f64)]) -> Line {
        Line { name: name.to_owned(), points: points.to_vec() }
    }

    fn drawing(lines: Vec<Line>, marks: Vec<(f64, String)>) -> Picture {
        let words = |text: &str| format!("{text} <script>");
        Picture { title: words("title"), x: words("x"), y: words("y"), marks, lines }
    }

    fn count(svg: &str, part: &str) -> usize {
        svg.matches(part).count()
    }

    #[test]
    fn every_line_has_its_band_and_its_look() {
        let lines = vec![
            line("b", &[(1.0, 0.5, 0.1), (50.0, 0.6, 0.1)]),
            line("one seed", &[(1.0, 0.1, 0.0), (50.0, 0.2, 0.0)]),
        ];
        let svg = picture(&drawing(lines, Vec::new()), &["a", "b", "one seed"]).unwrap();
        assert_eq!(
            (count(&svg, "\"line s1 h1\" d="), count(&svg, "\"line s2 h2\" d=")),
            (1, 1),
            "{svg}"
        );
        assert_eq!((count(&svg, "\"band s1 h1\""), count(&svg, "\"band s2 h2\"")), (1, 0), "{svg}");
        // From zero, as it begins just after it.
        assert!(svg.contains("d=\"M20 "), "{svg}");
        assert!(svg.contains("one seed starts at 0.100 and ends at 0.200"), "{svg}");
        assert!(svg.contains("b: 0.500 ± 0.100 at x &lt;script&gt; 1"), "{svg}");
    }

    #[test]
    fn what_is_no_number_is_a_gap() {
        let points =
            [(0.0, 1.0, 0.1), (1.0, f64::NAN, 0.1), (2.0, 2.0, 0.1), (3.0, 3.0, f64::INFINITY)];
        let lines = vec![line("gap", &points), line("nothing", &[(0.0, f64::NAN, 0.0)])];
        let svg = picture(&drawing(lines, vec![(f64::NAN, "?".to_owned())]), &["gap"]).unwrap();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(!svg.contains("nothing"), "{svg}");
        assert_eq!(count(&svg, "\"band s0 h0\""), 2, "{svg}");
        assert!(picture(&drawing(Vec::new(), Vec::new()), &[]).is_none());
    }

    #[test]
    fn marks_are_labelled_and_do_not_meet() {
        let lines = vec![line("a", &[(0.0, 1.0, 0.1), (100.0, 2.0, 0.1)])];
        let marks = [(20.0, "+5"), (40.0, "-5"), (41.0, "<script>"), (42.0, "and one more")];
        let marks: Vec<(f64, String)> =
            marks.iter().map(|(place, label)| (*place, (*label).to_owned())).collect();
        let of: Vec<&(f64, String)> = marks.iter().collect();
        assert_eq!(label_rows(&of, &Axis::exact(0.0, 100.0)), [0, 0, 1, 2]);
        let svg = picture(&drawing(lines, marks), &["a"]).unwrap();
        assert_eq!(count(&svg, "<line class=\"event\""), 4, "{svg}");
        assert!(svg.contains("margin-top:51px"), "{svg}");
        assert!(!svg.contains("<script>"), "{svg}");
        assert!(svg.contains("&lt;script&gt; at 41"), "{svg}");
    }
}
