//! InfluxDB's line protocol: points of decisions and trajectories as text.

use std::fmt::Write;

/// Lines of points.
#[derive(Debug, Default)]
pub(super) struct Lines {
    text: String,
    points: usize,
    has_fields: bool,
}

/// A value of a field.
pub(super) enum Field<'a> {
    Float(f64),
    Integer(i64),
    Text(&'a str),
}

impl Lines {
    /// Begins a point. Measurements and tags are separated by commas, so that these are escaped.
    pub(super) fn point(&mut self, measurement: &str, tags: &[(&str, &str)]) {
        escape(&mut self.text, measurement, ", ");
        for (name, value) in tags {
            self.text.push(',');
            escape(&mut self.text, name, ",= ");
            self.text.push('=');
            escape(&mut self.text, value, ",= ");
        }
        self.has_fields = false;
        self.points += 1;
    }

    /// Adds a field to it.
    pub(super) fn field(&mut self, name: &str, value: &Field<'_>) {
        self.text.push(if self.has_fields { ',' } else { ' ' });
        self.has_fields = true;
        escape(&mut self.text, name, ",= ");
        self.text.push('=');
        match value {
            // Rust prints the shortest number that reads back as the same.
            Field::Float(value) => write!(self.text, "{value:?}"),
            Field::Integer(value) => write!(self.text, "{value}i"),
            Field::Text(value) => {
                self.text.push('"');
                for letter in value.chars() {
                    if matches!(letter, '"' | '\\') {
                        self.text.push('\\');
                    }
                    self.text.push(letter);
                }
                self.text.push('"');
                Ok(())
            }
        }
        .expect("a string takes everything");
    }

    /// Ends it with its time in nanoseconds.
    pub(super) fn at(&mut self, ns: i64) {
        writeln!(self.text, " {ns}").expect("a string takes everything");
    }

    /// Number of points.
    pub(super) fn points(&self) -> usize {
        self.points
    }

    /// The lines, which are then gone.
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.points = 0;
        std::mem::take(&mut self.text).into_bytes()
    }
}

/// A line ends a point, and a backslash at the end of a tag would escape what follows it: both are
/// written as other characters.
fn escape(to: &mut String, text: &str, special: &str) {
    for letter in text.chars() {
        match letter {
            '\n' | '\r' => to.push_str("\\ "),
            '\\' => to.push('/'),
            _ => {
                if special.contains(letter) {
                    to.push('\\');
                }
                to.push(letter);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_escaped_as_the_protocol_asks() {
        let mut lines = Lines::default();
        lines.point("decision", &[("workload", "shop/a b,c=d"), ("policy", "x\\")]);
        lines.field("observation.RU cpu", &Field::Float(0.1));
        lines.field("step", &Field::Integer(3));
        lines.field("ended", &Field::Text("a \"b\" \\"));
        lines.at(1_000);
        let expect = "decision,workload=shop/a\\ b\\,c\\=d,policy=x/ observation.RU\\ cpu=0.1,step=3i,\
                      ended=\"a \\\"b\\\" \\\\\" 1000\n";
        assert_eq!(lines.points(), 1);
        assert_eq!(String::from_utf8(lines.take()).expect("text"), expect);
        assert_eq!(lines.points(), 0);
    }
}
