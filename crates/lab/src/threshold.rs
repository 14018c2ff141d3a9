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
        Ok(Self { metric: metric.to_owned(), comparison, bound })
    }

    /// Whether the figures cross it. A figure that is missing is an error: a check
    /// that silently passes is worse than none.
    pub fn is_crossed_by(&self, figures: &Value) -> Result<bool> {
        let Some(value) = figures.get(&self.metric).and_then(Value::as_f64) else {
            let numbers: Vec<&str> = figures
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(_, value)| value.is_number())
                .map(|(name, _)| name.as_str())
                .collect();
            let hint = nearest(&self.metric, numbers.iter().copied());
            let known = numbers.join(", ");
            return Err(Error::MissingFigure { name: self.metric.clone(), hint, known });
        };
        Ok(match self.comparison {
            Comparison::Less => value < self.bound,
            Comparison::LessOrEqual => value <= self.bound,
            Comparison::Greater => value > self.bound,
            Comparison::GreaterOrEqual => value >= self.bound,
            Comparison::Equal => value == self.bound,
        })
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
            assert_eq!(
                Threshold::parse(text).unwrap().is_crossed_by(&figures).unwrap(),
                expect,
                "{text}"
            );
        };
        check("return_mean < 475", false);
        check("return_mean<=480", true);
        check("return_mean > 4.7e2", true);
        check("return_mean >= 481", false);
        check("return_mean == 480", true);
    }

    #[test]
    fn what_cannot_be_checked_is_an_error() {
        for text in ["return_mean", "return_mean < high", "< 3", "return_mean < nan"] {
            assert!(Threshold::parse(text).is_err(), "{text}");
        }
        let error = Threshold::parse("return_men < 3")
            .unwrap()
            .is_crossed_by(&json!({ "return_mean": 1.0 }))
            .unwrap_err();
        assert!(error.to_string().contains("did you mean `return_mean`?"), "{error}");
    }
}
