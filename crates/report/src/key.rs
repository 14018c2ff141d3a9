//! Which colour, mark and dash stands for which run.

use std::fmt::Write;

use super::markup::escape;

/// Colours, dashes and marks that the style sheet knows of each.
pub(super) const LOOKS: usize = 8;

/// The marks, drawn once and used by name. Shapes differ, so that colours are not needed to tell runs apart.
pub(super) const MARKS: &str = concat!(
    "<svg class=\"defs\" aria-hidden=\"true\"><defs>",
    "<circle id=\"m0\" r=\"4.6\"/>",
    "<path id=\"m1\" d=\"M-4.2-4.2h8.4v8.4h-8.4z\"/>",
    "<path id=\"m2\" d=\"M0-5.6L5.3 4.2H-5.3z\"/>",
    "<path id=\"m3\" d=\"M0-6L6 0L0 6L-6 0z\"/>",
    "<path id=\"m4\" d=\"M0 5.6L5.3-4.2H-5.3z\"/>",
    "<path id=\"m5\" d=\"M-5-1.7h3.3v-3.3h3.4v3.3H5v3.4H1.7V5h-3.4V1.7H-5z\"/>",
    "<path id=\"m6\" d=\"M-6-2.4h12v4.8h-12z\"/>",
    "<path id=\"m7\" d=\"M-2.4-6h4.8v12h-4.8z\"/>",
    "</defs></svg>"
);

/// How a run is drawn: its colour, and the number of its dash and mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    colour: usize,
    pub(super) mark: usize,
}

/// The classes of the style sheet.
impl std::fmt::Display for Look {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "s{} h{}", self.colour, self.mark)
    }
}

/// The look of the run at this place. After eight runs colours come around again with other dashes
/// and marks: the first 64 differ.
pub(super) fn look(place: usize) -> Look {
    Look { colour: place % LOOKS, mark: (place + place / LOOKS) % LOOKS }
}

/// A line that names every run beside its look.
pub(super) fn key(labels: &[&str]) -> String {
    key_of(&labels.iter().copied().enumerate().collect::<Vec<_>>())
}

/// The same where looks are those of other places than the own.
pub(super) fn key_of(labels: &[(usize, &str)]) -> String {
    let mut html = "<ul class=\"key\">".to_owned();
    for (place, label) in labels {
        let _ = write!(html, "<li>{}{}</li>", swatch(*place), escape(label));
    }
    html + "</ul>"
}

/// A run's line and mark.
pub(super) fn swatch(place: usize) -> String {
    let look = look(place);
    format!(
        "<svg class=\"swatch\" width=\"30\" height=\"12\" aria-hidden=\"true\"><line class=\"line {look}\" x2=\"30\" y1=\"6\" y2=\"6\"/><use class=\"mark {look}\" href=\"#m{}\" x=\"15\" y=\"6\"/></svg>",
        look.mark
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_of_many_runs_look_alike() {
        let looks: BTreeSet<String> = (0..64).map(|place| look(place).to_string()).collect();
        assert_eq!(looks.len(), 64);
        assert_eq!(look(3).to_string(), "s3 h3");
    }
}
