//! A compared run as one flat record, for programs.

use homeostat_lab::{FormerPercentage, with_former_percentages};
use serde_json::{Map, Value, json};

use super::{Comparison, RunKind, Verdict};

/// The percentages that records of 0.1.0 had.
const FORMER: [FormerPercentage; 5] = [
    FormerPercentage { new: "slo_violation_ratio", old: "miss_pct" },
    FormerPercentage { new: "slo_violation_ratio_interval", old: "miss_pct_interval" },
    FormerPercentage { new: "slo_violation_ratio_difference", old: "miss_pct_difference" },
    FormerPercentage {
        new: "slo_violation_ratio_difference_interval",
        old: "miss_pct_difference_interval",
    },
    FormerPercentage { new: "slo_violation_ratio_shows", old: "miss_pct_shows" },
];

impl Comparison {
    /// Everything of the run at this place: figures, their intervals, and what differs; with
    /// the name of the function in front, if it is of one.
    pub fn record(&self, place: usize, function: Option<&str>) -> Value {
        let run = &self.runs[place];
        let mut fields = Map::new();
        if let Some(function) = function {
            fields.insert("function".to_owned(), json!(function));
        }
        fields.insert("run".to_owned(), json!(run.path.display().to_string()));
        fields.insert("policy".to_owned(), json!(run.label));
        let trials = if self.kind == RunKind::Training { "agents" } else { "seeds" };
        fields.insert(trials.to_owned(), json!(run.trials));
        for (metric, summary) in &run.figures {
            fields.insert(metric.key.to_owned(), json!(summary.mean));
            fields.insert(format!("{}_interval", metric.key), json!(summary.interval()));
        }
        let base = &self.runs[self.baseline].path;
        fields.insert("baseline".to_owned(), json!(base.display().to_string()));
        // Every row has every field, as a table of commas must.
        let compared =
            run.figures.iter().map(|(metric, _)| *metric).filter(|metric| metric.is_compared);
        for metric in compared {
            let found = run.differences.iter().find(|difference| difference.metric == metric);
            fields
                .insert(format!("{}_difference", metric.key), json!(found.map(|found| found.mean)));
            fields.insert(
                format!("{}_difference_interval", metric.key),
                json!(found.and_then(|found| found.interval)),
            );
            fields.insert(
                format!("{}_shows", metric.key),
                json!(found.map(|found| found.verdict().to_string())),
            );
        }
        let count = |verdict: Verdict| {
            run.differences.iter().filter(|difference| difference.verdict() == verdict).count()
        };
        fields.insert("better".to_owned(), json!(count(Verdict::Better)));
        fields.insert("worse".to_owned(), json!(count(Verdict::Worse)));
        with_former_percentages(Value::Object(fields), &FORMER)
    }
}
