//! A small builder of pictures.
//!
//! Horizontal places are parts of the width and written as percentages; vertical places are
//! pixels. Lines live in an inner picture that is stretched sideways only, so that a picture
//! fills a phone and a desk alike and its letters stay as large as the text around it.

use std::fmt::Write;

use super::axis::Axis;
use super::key::Look;
use super::markup::escape;

/// Width of the inner picture in its own units.
const WIDTH: f64 = 1000.0;

/// Space for the labels of the lower axis.
const FOOT: f64 = 22.0;

/// One picture in the making.
#[derive(Debug)]
pub(super) struct Plot {
    title: String,
    description: String,
    height: f64,
    left: u32,
    right: u32,
    foot: f64,
    head: f64,
    back: String,
    lines: String,
    front: String,
}

/// Where a text ends up relative to its place.
#[derive(Debug, Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Plot {
    /// A plot of this height without its labels. Title and description are for those who
    /// cannot see it.
    pub(super) fn new(title: &str, description: &str, height: f64) -> Self {
        Self {
            title: escape(title),
            description: escape(description),
            height,
            left: 40,
            right: 12,
            foot: FOOT,
            head: 0.0,
            back: String::new(),
            lines: String::new(),
            front: String::new(),
        }
    }

    /// Space beside the plot in pixels.
    pub(super) fn gutters(mut self, left: u32, right: u32) -> Self {
        (self.left, self.right) = (left, right);
        self
    }

    /// Space below the plot in pixels.
    pub(super) fn foot(mut self, foot: f64) -> Self {
        self.foot = foot;
        self
    }

    /// Space above the plot in pixels, for texts with places below zero.
    pub(super) fn head(mut self, head: f64) -> Self {
        self.head = head;
        self
    }

    /// The pixel of a value on a vertical axis.
    pub(super) fn y(&self, axis: &Axis, value: f64) -> f64 {
        self.height * (1.0 - axis.part(value))
    }

    /// Thin horizontal lines with their values.
    pub(super) fn left_axis(&mut self, axis: &Axis, label: impl Fn(f64) -> String) {
        for tick in axis.ticks() {
            let y = self.y(axis, tick);
            self.level(y, "grid");
            let text = label(tick);
            self.text(0.0, y + 4.0, -7.0, Anchor::End, "tick", &text);
        }
    }

    /// Values along the foot.
    pub(super) fn lower_axis(&mut self, axis: &Axis, label: impl Fn(f64) -> String) {
        let y = self.height;
        self.level(y, "axis");
        for tick in axis.ticks() {
            let part = axis.part(tick);
            let anchor = match part {
                part if part < 0.02 => Anchor::Start,
                part if part > 0.98 => Anchor::End,
                _ => Anchor::Middle,
            };
            let text = label(tick);
            self.text(part, y + 16.0, 0.0, anchor, "tick", &text);
        }
    }

    /// A horizontal line over the whole width.
    pub(super) fn level(&mut self, y: f64, class: &str) {
        let _ = write!(
            self.back,
            "<line class=\"{class}\" x2=\"100%\" y1=\"{0}\" y2=\"{0}\"/>",
            short(y)
        );
    }

    /// A vertical line over the whole height.
    pub(super) fn upright(&mut self, part: f64, class: &str) {
        let _ = write!(
            self.back,
            "<line class=\"{class}\" x1=\"{0}%\" x2=\"{0}%\" y2=\"{1}\"/>",
            percent(part),
            short(self.height)
        );
    }

    /// A horizontal line between two places.
    pub(super) fn span(&mut self, from: f64, to: f64, y: f64, class: &str) {
        let _ = write!(
            self.front,
            "<line class=\"{class}\" x1=\"{}%\" x2=\"{}%\" y1=\"{2}\" y2=\"{2}\"/>",
            percent(from),
            percent(to),
            short(y)
        );
    }

    /// A bar from the left side.
    pub(super) fn bar(&mut self, to: f64, y: f64, height: f64, class: &str) {
        let _ = write!(
            self.back,
            "<rect class=\"{class}\" width=\"{}%\" y=\"{}\" height=\"{}\" rx=\"2\"/>",
            percent(to),
            short(y),
            short(height)
        );
    }

    /// Text at a place, moved by `dx` pixels.
    pub(super) fn text(
        &mut self,
        part: f64,
        y: f64,
        dx: f64,
        anchor: Anchor,
        class: &str,
        text: &str,
    ) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let dx = if dx == 0.0 { String::new() } else { format!(" dx=\"{}\"", short(dx)) };
        let _ = write!(
            self.front,
            "<text class=\"{class}\" x=\"{}%\" y=\"{}\"{dx}{anchor}>{}</text>",
            percent(part),
            short(y),
            escape(text)
        );
    }

    /// A series' own mark, with what it says when pointed at.
    pub(super) fn mark(&mut self, look: Look, part: f64, y: f64, says: &str) {
        let _ = write!(
            self.front,
            "<use class=\"mark {look}\" href=\"#m{}\" x=\"{}%\" y=\"{}\"><title>{}</title></use>",
            look.mark,
            percent(part),
            short(y),
            escape(says)
        );
    }

    /// A line through points of (part, pixel); it breaks where there is none.
    pub(super) fn line(&mut self, class: &str, points: impl Iterator<Item = Option<(f64, f64)>>) {
        let mut path = String::new();
        let mut is_down = false;
        for point in points {
            let Some((part, y)) = point else {
                is_down = false;
                continue;
            };
            let _ = write!(
                path,
                "{}{} {}",
                if is_down { 'L' } else { 'M' },
                short(part * WIDTH),
                short(y)
            );
            is_down = true;
        }
        self.path(class, &path);
    }

    /// A line of steps: each value holds until the next.
    pub(super) fn steps(&mut self, class: &str, points: impl Iterator<Item = (f64, f64)>) {
        let mut path = String::new();
        let mut last: Option<f64> = None;
        let mut end = 0.0;
        for (part, y) in points {
            match last {
                None => {
                    let _ = write!(path, "M{} {}", short(part * WIDTH), short(y));
                }
                // Only changes are written: a policy that rests costs no bytes.
                Some(before) if short(before) != short(y) => {
                    let _ = write!(path, "H{}V{}", short(part * WIDTH), short(y));
                }
                Some(_) => {}
            }
            (last, end) = (Some(y), part);
        }
        if last.is_some() {
            let _ = write!(path, "H{}", short(end * WIDTH));
        }
        self.path(class, &path);
    }

    /// Upright strokes that stand on `y`, at parts of the width and of these heights.
    pub(super) fn strokes(
        &mut self,
        class: &str,
        y: f64,
        strokes: impl Iterator<Item = (f64, f64)>,
    ) {
        let mut path = String::new();
        for (part, height) in strokes {
            let _ = write!(path, "M{} {}v{}", short(part * WIDTH), short(y), short(-height));
        }
        self.path(class, &path);
    }

    /// The area between lower and upper pixels at parts of the width.
    pub(super) fn band(&mut self, class: &str, points: &[(f64, f64, f64)]) {
        let upper = points.iter().map(|(part, _, upper)| (part, upper));
        let lower = points.iter().rev().map(|(part, lower, _)| (part, lower));
        let mut path = String::new();
        for (part, y) in upper.chain(lower) {
            let sign = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{sign}{} {}", short(part * WIDTH), short(*y));
        }
        if !path.is_empty() {
            self.path(class, &(path + "Z"));
        }
    }

    fn path(&mut self, class: &str, path: &str) {
        if !path.is_empty() {
            let _ = write!(self.lines, "<path class=\"{class}\" d=\"{path}\"/>");
        }
    }

    /// The picture as markup.
    pub(super) fn finish(self) -> String {
        let full = short(self.height + self.foot);
        let head = match self.head {
            0.0 => String::new(),
            head => format!(";margin-top:{}px", short(head)),
        };
        format!(
            "<svg class=\"plot\" role=\"img\" height=\"{full}\" style=\"--l:{}px;--r:{}px{head}\"><title>{}</title><desc>{}</desc>{}<svg class=\"lines\" width=\"100%\" height=\"{full}\" viewBox=\"0 0 {WIDTH} {full}\" preserveAspectRatio=\"none\">{}</svg>{}</svg>",
            self.left, self.right, self.title, self.description, self.back, self.lines, self.front
        )
    }
}

/// A part of the width in percent.
fn percent(part: f64) -> String {
    short((part * 1000.0).round() / 10.0)
}

/// One digit after the point, and none if it is zero.
fn short(value: f64) -> String {
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_write_changes_only() {
        let mut plot = Plot::new("t", "d", 100.0);
        let points = [(0.0, 10.0), (0.25, 10.0), (0.5, 20.0), (0.75, 20.0), (1.0, 20.0)];
        plot.steps("s0", points.into_iter());
        assert!(plot.finish().contains("d=\"M0 10H500V20H1000\""));
    }

    #[test]
    fn a_line_breaks_where_nothing_was_measured() {
        let mut plot = Plot::new("t", "d", 100.0);
        let points = [Some((0.0, 1.0)), None, Some((0.5, 2.0)), Some((1.0, 3.25))];
        plot.line("s0", points.into_iter());
        assert!(plot.finish().contains("d=\"M0 1M500 2L1000 3.2\""));
    }

    #[test]
    fn titles_and_texts_are_escaped() {
        let mut plot = Plot::new("<b>", "&", 10.0);
        plot.text(0.0, 0.0, 0.0, Anchor::Start, "tick", "<script>");
        plot.mark(crate::key::look(0), 0.5, 1.0, "\"><script>");
        let svg = plot.finish();
        assert!(svg.contains("<title>&lt;b&gt;</title><desc>&amp;</desc>"), "{svg}");
        assert!(!svg.contains("<script>"), "{svg}");
    }
}
