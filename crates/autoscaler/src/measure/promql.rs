//! PromQL limited to one namespace: every selector of a query gets a matcher, so that a user who may write an
//! object reads no series of other namespaces through it.
//!
//! It reads tokens, not a grammar. What it does not understand is refused, and a name that could be a
//! metric is one: a mistake makes a query that Prometheus rejects, never one without the matcher.

use thiserror::Error;

/// Why a query cannot be limited.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the query cannot be limited to the object's namespace: {reason} at {rest:?}")]
pub struct Unlimited {
    /// What is not understood.
    reason: &'static str,
    /// The query from there on, shortened.
    rest: String,
}

/// The query with `label="value"` in each of its selectors.
pub fn limited(query: &str, label: &str, value: &str) -> Result<String, Unlimited> {
    let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
    let matcher = format!("{label}=\"{quoted}\"");
    let mut scan = Scan { rest: query, out: String::with_capacity(query.len() + 64), matcher };
    scan.query()?;
    Ok(scan.out)
}

/// What may come next.
#[derive(Clone, Copy, PartialEq)]
enum Expected {
    /// A selector, a call, a number, a text.
    Operand,
    /// An operator, a modifier, or the end of what was begun.
    Operator,
}

struct Scan<'a> {
    rest: &'a str,
    out: String,
    matcher: String,
}

impl<'a> Scan<'a> {
    fn query(&mut self) -> Result<(), Unlimited> {
        let mut expected = Expected::Operand;
        // The brackets that are open.
        let mut depth = 0usize;
        loop {
            self.space();
            let Some(first) = self.rest.chars().next() else {
                return match (depth, expected) {
                    (0, Expected::Operator) => Ok(()),
                    _ => Err(self.refused("it ends too early")),
                };
            };
            match (first, expected) {
                ('(', Expected::Operand) => {
                    depth += 1;
                    self.take(1);
                }
                // `()` of calls without arguments, and the end of a list.
                (')', _) if depth > 0 => {
                    depth -= 1;
                    self.take(1);
                    expected = Expected::Operator;
                }
                (',', Expected::Operator) if depth > 0 => {
                    self.take(1);
                    expected = Expected::Operand;
                }
                ('"' | '\'' | '`', Expected::Operand) => {
                    self.text()?;
                    expected = Expected::Operator;
                }
                ('0'..='9' | '.', Expected::Operand) => {
                    self.number();
                    expected = Expected::Operator;
                }
                ('+' | '-', Expected::Operand) => self.take(1),
                ('{', Expected::Operand) => {
                    self.matchers()?;
                    expected = Expected::Operator;
                }
                ('[', Expected::Operator) => self.range()?,
                (
                    '+' | '-' | '*' | '/' | '%' | '^' | '=' | '!' | '<' | '>' | '@',
                    Expected::Operator,
                ) => {
                    let pairs = ["==", "!=", "<=", ">="];
                    let is_pair = pairs.iter().any(|pair| self.rest.starts_with(pair));
                    self.take(if is_pair { 2 } else { 1 });
                    self.modifiers()?;
                    expected = Expected::Operand;
                }
                (c, Expected::Operand) if is_word(c) => {
                    expected = self.operand(&mut depth)?;
                }
                (c, Expected::Operator) if is_word(c) => {
                    expected = self.operator()?;
                }
                _ => return Err(self.refused("it is not understood")),
            }
        }
    }

    /// A metric, a call, an aggregation, or a number that is a word.
    fn operand(&mut self, depth: &mut usize) -> Result<Expected, Unlimited> {
        let word = self.word();
        let lower = word.to_ascii_lowercase();
        self.space();
        if self.rest.starts_with('(') {
            self.take(1);
            *depth += 1;
            return Ok(Expected::Operand);
        }
        if matches!(&lower[..], "inf" | "nan") {
            return Ok(Expected::Operator);
        }
        let next = self.peek_word().to_ascii_lowercase();
        if matches!(&next[..], "by" | "without") {
            // An aggregation, whose labels stand before what it aggregates.
            self.word();
            self.labels()?;
            self.space();
            return match self.rest.starts_with('(') {
                true => Ok(Expected::Operand),
                false => Err(self.refused("an aggregation has no operand")),
            };
        }
        if self.rest.starts_with('{') {
            self.matchers()?;
        } else {
            // Before the spaces that follow the name.
            let end = self.out.trim_end().len();
            self.out.insert_str(end, &format!("{{{}}}", self.matcher));
        }
        Ok(Expected::Operator)
    }

    /// An operator or a modifier that is a word.
    fn operator(&mut self) -> Result<Expected, Unlimited> {
        match &self.peek_word().to_ascii_lowercase()[..] {
            "and" | "or" | "unless" | "atan2" => {
                self.word();
                self.modifiers()?;
                Ok(Expected::Operand)
            }
            "offset" => {
                self.word();
                Ok(Expected::Operand)
            }
            // `sum(a) by (x)`.
            "by" | "without" => {
                self.word();
                self.labels()?;
                Ok(Expected::Operator)
            }
            "anchored" | "smoothed" => {
                self.word();
                Ok(Expected::Operator)
            }
            _ => Err(self.refused("this word is not known here")),
        }
    }

    /// What stands between an operator and its second operand; none of these words is a metric there.
    fn modifiers(&mut self) -> Result<(), Unlimited> {
        loop {
            self.space();
            match &self.peek_word().to_ascii_lowercase()[..] {
                "bool" => {
                    self.word();
                }
                "on" | "ignoring" => {
                    self.word();
                    self.labels()?;
                }
                "group_left" | "group_right" => {
                    self.word();
                    self.space();
                    if self.rest.starts_with('(') {
                        self.labels()?;
                    }
                }
                _ => return Ok(()),
            }
        }
    }

    /// `{...}`, with the matcher first.
    fn matchers(&mut self) -> Result<(), Unlimited> {
        self.take(1);
        self.out.push_str(&self.matcher);
        self.space();
        if !self.rest.starts_with('}') {
            self.out.push(',');
        }
        loop {
            self.space();
            match self.rest.chars().next() {
                Some('}') => {
                    self.take(1);
                    return Ok(());
                }
                Some('"' | '\'' | '`') => self.text()?,
                Some(c) if is_word(c) => {
                    // `or` inside of matchers would begin alternatives without ours.
                    if self.peek_word().eq_ignore_ascii_case("or") {
                        return Err(self.refused("matchers have an alternative"));
                    }
                    self.word();
                }
                Some('=' | '!' | '~' | ',') => self.take(1),
                _ => return Err(self.refused("matchers are not understood")),
            }
        }
    }

    /// `(a, b)` after `by` and its like.
    fn labels(&mut self) -> Result<(), Unlimited> {
        self.space();
        if !self.rest.starts_with('(') {
            return Err(self.refused("a list of labels is missing"));
        }
        self.take(1);
        loop {
            self.space();
            match self.rest.chars().next() {
                Some(')') => {
                    self.take(1);
                    return Ok(());
                }
                Some('"' | '\'' | '`') => self.text()?,
                Some(',') => self.take(1),
                Some(c) if is_word(c) => {
                    self.word();
                }
                _ => return Err(self.refused("a list of labels is not understood")),
            }
        }
    }

    /// `[5m]` or `[1h:5m]`: durations, and sums of them.
    fn range(&mut self) -> Result<(), Unlimited> {
        let is_duration = |c: char| c.is_ascii_alphanumeric() || " .:+-*/%^()".contains(c);
        let length = self.rest[1..].find(|c: char| !is_duration(c)).map(|length| length + 1);
        match length.filter(|length| self.rest[*length..].starts_with(']')) {
            Some(length) => {
                self.take(length + 1);
                Ok(())
            }
            None => Err(self.refused("a range is not understood")),
        }
    }

    /// A text in quotes; in backticks nothing is escaped.
    fn text(&mut self) -> Result<(), Unlimited> {
        let quote = self.rest.chars().next().unwrap_or('"');
        let mut is_escaped = false;
        for (place, c) in self.rest.char_indices().skip(1) {
            match c {
                _ if is_escaped => is_escaped = false,
                '\\' if quote != '`' => is_escaped = true,
                // Prometheus ends the text there, with an error.
                '\n' if quote != '`' => break,
                c if c == quote => {
                    self.take(place + 1);
                    return Ok(());
                }
                _ => {}
            }
        }
        Err(self.refused("a text does not end"))
    }

    /// A number or a duration, such as `0x1f`, `1e-3` or `1h30m`.
    fn number(&mut self) {
        let mut before = ' ';
        let is_part = |c: char, before: char| {
            c.is_ascii_alphanumeric()
                || matches!(c, '.' | '_')
                || (matches!(c, '+' | '-') && matches!(before, 'e' | 'E'))
        };
        let length = self.rest.find(|c: char| {
            let ends = !is_part(c, before);
            before = c;
            ends
        });
        self.take(length.unwrap_or(self.rest.len()));
    }

    /// Spaces and comments. A comment could hide from one reader what another one sees: it is left out.
    fn space(&mut self) {
        loop {
            let trimmed = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
            if trimmed.len() < self.rest.len() {
                self.out.push(' ');
            }
            self.rest = trimmed;
            if !self.rest.starts_with('#') {
                return;
            }
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            self.rest = &self.rest[end..];
            self.out.push(' ');
        }
    }

    fn peek_word(&self) -> &'a str {
        let end = self.rest.find(|c: char| !is_word(c) && !c.is_ascii_digit());
        &self.rest[..end.unwrap_or(self.rest.len())]
    }

    fn word(&mut self) -> &'a str {
        let word = self.peek_word();
        self.take(word.len());
        word
    }

    /// Copies so many bytes.
    fn take(&mut self, length: usize) {
        let (taken, rest) = self.rest.split_at(length);
        self.out.push_str(taken);
        self.rest = rest;
    }

    fn refused(&self, reason: &'static str) -> Unlimited {
        Unlimited { reason, rest: self.rest.chars().take(40).collect() }
    }
}

/// Letters of names; digits follow them.
fn is_word(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || c == ':'
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `N` stands for the matcher.
    fn check(query: &str, expect: &str) {
        let expect = expect.replace('N', "namespace=\"shop\"");
        let squeezed = |text: &str| text.split_whitespace().collect::<String>();
        let found = limited(query, "namespace", "shop").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(squeezed(&found), squeezed(&expect), "{query}");
    }

    fn refused(query: &str) {
        let found = limited(query, "namespace", "shop");
        assert!(found.is_err(), "{query} became {found:?}");
    }

    #[test]
    fn every_selector_gets_the_matcher() {
        check("up", "up{N}");
        check("up{}", "up{N}");
        check("up { job = 'a' , }", "up {N, job = 'a' , }");
        check("{__name__=~\"a.*\"}", "{N,__name__=~\"a.*\"}");
        check(
            "rate(hits{code!~\"5..\"}[5m] offset 1h)",
            "rate(hits{N,code!~\"5..\"}[5m] offset 1h)",
        );
        check("rate(hits[5m:30s] @ end())", "rate(hits{N}[5m:30s] @ end())");
        check("a:b:c + -d / e ^ 2", "a:b:c{N} + -d{N} / e{N} ^ 2");
        check("a == bool b", "a{N} == bool b{N}");
        check(
            "a unless on(x, y) b or ignoring (z) c",
            "a{N} unless on(x, y) b{N} or ignoring (z) c{N}",
        );
        check("a * on (x) group_left (y) b", "a{N} * on (x) group_left (y) b{N}");
        check("a * on (x) group_left b", "a{N} * on (x) group_left b{N}");
        check("sum by (job) (a)", "sum by (job) (a{N})");
        check("sum(a) by (job) > 1e-3", "sum(a{N}) by (job) > 1e-3");
        check("topk(5, a) and vector(1) < Inf", "topk(5, a{N}) and vector(1) < Inf");
        check(
            "label_replace(a, 'x', '$1', \"y\", `(.*)`)",
            "label_replace(a{N}, 'x', '$1', \"y\", `(.*)`)",
        );
        check("time() - a", "time() - a{N}");
        check(
            "histogram_quantile(0.99, sum by (le) (rate(h_bucket{job=\"x\"}[2m])))",
            "histogram_quantile(0.99, sum by (le) (rate(h_bucket{N,job=\"x\"}[2m])))",
        );
    }

    #[test]
    fn words_that_are_also_metrics_get_it_too() {
        for word in ["sum", "rate", "by", "offset", "and", "start", "count", "unless"] {
            check(word, &format!("{word}{{N}}"));
            check(&format!("1 + {word}"), &format!("1 + {word}{{N}}"));
        }
    }

    #[test]
    fn texts_and_comments_hide_nothing() {
        check("a{x=\"}\"} + b", "a{N,x=\"}\"} + b{N}");
        check("a{x=\"\\\"}\"} + b", "a{N,x=\"\\\"}\"} + b{N}");
        check("a{x=`\\`} + b", "a{N,x=`\\`} + b{N}");
        check("a # \" {\n + b", "a{N} + b{N}");
        check("a{ # }\n x='y'} + b", "a{N, x='y'} + b{N}");
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for query in [
            "",
            "a b",
            "a{x='y'",
            "a{x='y}",
            "a) + b",
            "(a",
            "a +",
            "a{x='y' or z='w'}",
            "a[5m",
            "a[{b}]",
            "a ? b",
            "a{x=\"\n\"} + b",
            "sum by (x)",
            "a;b",
            "a{x='y'}{z='w'}",
            "a 5",
            "a{b}c",
            "\u{e4}",
        ] {
            refused(query);
        }
    }

    #[test]
    fn a_name_of_a_namespace_cannot_end_the_matcher() {
        let found = limited("up", "namespace", "a\"} or up{x=\"").unwrap();
        assert_eq!(found, "up{namespace=\"a\\\"} or up{x=\\\"\"}");
    }
}
