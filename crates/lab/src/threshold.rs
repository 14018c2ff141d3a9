//! `--fail-if 'return_mean < 475'`: figures that must not be crossed.

use std::fmt;

use serde_json::Value;

use crate::config::nearest;
use crate::{Error, Result};

/// A comparison of one figure with a number.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    metric: String,
    comparison: Comparison,
    bound: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
}

impl Threshold {
    /// Reads `METRIC < NUMBER`.
    pub fn parse(text: &str) -> Result<Self> {
        let refuse =
            |reason: &str| Error::Threshold { text: text.to_owned(), reason: reason.to_owned() };
        // Longer signs first: `<=` begins with `<`.
        const SIGNS: [(&str, Comparison); 5] = [
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("==", Comparison::Equal),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        let (at, sign, comparison) = SIGNS
            .iter()
            .find_map(|(sign, comparison)| text.find(sign).map(|at| (at, *sign, *comparison)))
            .ok_or_else(|| refuse("there is no comparison in it"))?;
        let metric = text[..at].trim();
        let number = text[at + sign.len()..].trim();
        let bound: f64 =
            number.parse().map_err(|_| refuse(&format!("`{number}` is not a number")))?;
        if metric.is_empty() || bound.is_nan() {
            return Err(refuse("metric or number is missing"));
        }
        // No figure crosses infinity: such a check would always pass.
        if bound.is_infinite() {
            return Err(refuse("the number must be finite"));
        }
        Ok(Self { metric: metric.to_owned(), comparison, bound })
    }

    /// Refuses a metric that is none of `names`, so that a slip is found before the work.
    pub fn check_name(&self, names: &[&str]) -> Result<()> {
        if names.contains(&self.metric.as_str()) {
            return Ok(());
        }
        let hint = nearest(&self.metric, names.iter().copied());
        let known = names.join(", ");
        Err(Error::MissingFigure { name: self.metric.clone(), hint, known })
    }

    /// The figure, if it crosses the threshold. A figure that is missing is an error: a check
    /// that silently passes is worse than none.
    pub fn crossed_by(&self, figures: &Value) -> Result<Option<f64>> {
        let Some(value) = figures.get(&self.metric).and_then(Value::as_f64) else {
            let fields = figures.as_object().into_iter().flatten();
            let numbers: Vec<&str> = fields
                .filter(|(_, value)| value.is_number() || value.is_null())
                .map(|(name, _)| name.as_str())
                .collect();
            self.check_name(&numbers)?;
            return Err(Error::FigureWithoutValue { name: self.metric.clone() });
        };
        let is_crossed = match self.comparison {
            Comparison::Less => value < self.bound,
            Comparison::LessOrEqual => value <= self.bound,
            Comparison::Greater => value > self.bound,
            Comparison::GreaterOrEqual => value >= self.bound,
            Comparison::Equal => value == self.bound,
        };
        Ok(is_crossed.then_some(value))
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.comparison {
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
            Comparison::Equal => "==",
        };
        write!(f, "{} {sign} {}", self.metric, self.bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn thresholds_compare() {
        let figures = json!({ "return_mean": 480.0, "status": "finished" });
        let check = |text: &str, expect: bool| {
            let found = Threshold::parse(text).unwrap().crossed_by(&figures).unwrap();
            assert_eq!(found, expect.then_some(480.0), "{text}");
        };
        check("return_mean < 475", false);
        check("return_mean<=480", true);
        check("return_mean > 4.7e2", true);
        check("return_mean >= 481", false);
        check("return_mean == 480", true);
    }

    #[test]
    fn what_cannot_be_checked_is_an_error() {
        for text in
            ["return_mean", "return_mean < high", "< 3", "return_mean < nan", "return_mean > inf"]
        {
            assert!(Threshold::parse(text).is_err(), "{text}");
        }
        let error = Threshold::parse("return_men < 3")
            .unwrap()
            .crossed_by(&json!({ "return_mean": 1.0 }))
            .unwrap_err();
        assert!(error.to_string().contains("did you mean `return_mean`?"), "{error}");
        let error = Threshold::parse("return_mean < 3")
            .unwrap()
            .crossed_by(&json!({ "return_mean": null }))
            .unwrap_err();
        assert_eq!(error.to_string(), "figure `return_mean` has no value: nothing was measured");
    }
}
