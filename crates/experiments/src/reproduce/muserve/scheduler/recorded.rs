//! Recorded lengths of answers with predicted classes, and requests that arrive with them.

use std::io::BufRead;
use std::path::Path;

use homeostat_core::{SeedTree, SimTime};
use homeostat_lab::{Result, read_packed};
use homeostat_muserve::schedule::Job;

/// Both proxies' classes, three of one and five of the other, are joined.
pub(super) const CLASSES: usize = 15;

#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Recorded {
    pub(in super::super) tokens: u32,
    pub(super) class: usize,
}

pub(super) fn mean_tokens(rows: &[Recorded]) -> f64 {
    rows.iter().map(|row| f64::from(row.tokens)).sum::<f64>() / rows.len() as f64
}

/// The mean length of the requests of each class; that of all where a class is rare.
pub(in super::super) fn mean_tokens_of_classes(known: &[Recorded]) -> Vec<f64> {
    let of = |class: usize| -> f64 {
        let rows: Vec<Recorded> = known.iter().copied().filter(|row| row.class == class).collect();
        mean_tokens(if rows.len() < 20 { known } else { &rows })
    };
    (0..CLASSES).map(of).collect()
}

/// Requests at this load, where a token takes so long. The gaps are exponential, or of two exponentials
/// with balanced means where their coefficient of variation is above one.
pub(in super::super) fn arrivals(
    rows: &[Recorded],
    count: usize,
    load: f64,
    variation: f64,
    token_s: f64,
    seeds: &SeedTree,
) -> Vec<Job> {
    let (mut gaps, mut picks) = (seeds.stream("gaps"), seeds.stream("requests"));
    let mean_gap = mean_tokens(rows) * token_s / load;
    let square = variation * variation;
    let likely = 0.5 * (1.0 + ((square - 1.0) / (square + 1.0)).max(0.0).sqrt());
    let mut now = 0.0;
    let job = |_| {
        let share = if gaps.uniform() < likely { likely } else { 1.0 - likely };
        now -= mean_gap / (2.0 * share) * (1.0 - gaps.uniform()).ln();
        let Recorded { tokens, class } = rows[picks.below(rows.len())];
        let arrival = SimTime::from_nanos((now * 1e9) as u64);
        Job { arrival, tokens, class }
    };
    (0..count).map(job).collect()
}

/// The recorded lengths with their predicted classes.
pub(in super::super) fn read(data: &Path) -> Result<Vec<Recorded>> {
    let path = data.join("ssjf_output_length_predictions/predictions_cls_multicls.csv.zst");
    read_packed(&path, &["csv"], &mut |_| {}, |file| {
        let mut rows = Vec::new();
        for (index, line) in file.lines().enumerate() {
            let line = line.map_err(|error| error.to_string())?;
            if index == 0 {
                if !line.starts_with("output_token_length,pred_cls,pred_multi_cls") {
                    return Err(format!(
                        "its first line is `{line:.60}`; expected the columns output_token_length,pred_cls,pred_multi_cls"
                    ));
                }
                continue;
            }
            let mut fields = line.split(',').map(|field| field.parse::<u32>().ok());
            let mut next = || fields.next().flatten();
            match (next(), next(), next()) {
                (Some(tokens), Some(three @ 0..3), Some(five @ 0..5)) => {
                    rows.push(Recorded { tokens, class: (three * 5 + five) as usize });
                }
                _ => {
                    return Err(format!(
                        "line {} is not a length with classes 0 to 2 and 0 to 4: `{line:.60}`",
                        index + 1
                    ));
                }
            }
        }
        if rows.len() < 1000 {
            Err(format!("it has {} requests; at least 1000 are needed", rows.len()))
        } else {
            Ok(rows)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_have_the_load_and_the_variation_asked_for() {
        let rows = [Recorded { tokens: 100, class: 0 }];
        for variation in [1.0, 3.0] {
            let jobs = arrivals(&rows, 200_000, 0.5, variation, 0.025, &SeedTree::new(1));
            let gaps: Vec<f64> = jobs
                .windows(2)
                .map(|pair| pair[1].arrival.saturating_since(pair[0].arrival).seconds())
                .collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let square =
                gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
            assert!((mean / 5.0 - 1.0).abs() < 0.05, "{mean}");
            assert!((square.sqrt() / mean / variation - 1.0).abs() < 0.05);
        }
    }
}
