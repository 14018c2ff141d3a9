//! Settings of a system are chosen on all other systems.

use std::time::Instant;

use homeostat_firm::{Ranked, Resource};
use rayon::prelude::*;

use super::case::{Case, Design, Settings};

/// The cases of one data set. Sets of one system are left out together.
pub(super) struct DataSet {
    pub(super) name: &'static str,
    pub(super) system: &'static str,
    pub(super) cases: Vec<Case>,
}

/// What came out on one data set, over its cases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Accuracy {
    pub(super) cases: usize,
    /// Cases whose culprit is among the first 1, 2, ... 5.
    pub(super) found: [usize; 5],
    /// Share, of the faults of resources, where culprit and resource are both first.
    pub(super) resource_top1: Option<f64>,
    pub(super) ms_per_case: f64,
}

impl Accuracy {
    /// Share of cases whose culprit is among the first `k`, of one to five.
    pub(super) fn top(&self, k: usize) -> f64 {
        self.found[k - 1] as f64 / self.cases as f64
    }

    /// The mean of the five shares.
    pub(super) fn avg5(&self) -> f64 {
        self.found.iter().sum::<usize>() as f64 / (self.found.len() * self.cases) as f64
    }
}

impl DataSet {
    /// Localises every case with these settings. There is at least one case: readers see to it.
    pub(super) fn judge(&self, settings: &Settings, design: &Design) -> Accuracy {
        let started = Instant::now();
        let rankings: Vec<Vec<Ranked>> =
            self.cases.iter().map(|case| case.localise(settings, design)).collect();
        let preparation_s: f64 = self.cases.iter().map(|case| case.preparation_s).sum();
        let seconds = started.elapsed().as_secs_f64() + preparation_s;
        let cases = self.cases.len();
        let mut found = [0; 5];
        let (mut resources, mut right) = (0, 0);
        for (case, ranking) in self.cases.iter().zip(&rankings) {
            let place = place(&case.culprit, ranking);
            for (k, found) in found.iter_mut().enumerate() {
                *found += usize::from(place <= k);
            }
            if case.resource.is_some() {
                resources += 1;
                let named: Option<Resource> = ranking.first().and_then(|first| first.resource);
                right += usize::from(place == 0 && named == case.resource);
            }
        }
        let resource_top1 = (resources > 0).then(|| right as f64 / resources as f64);
        let ms_per_case = 1e3 * seconds / cases as f64;
        Accuracy { cases, found, resource_top1, ms_per_case }
    }
}

/// Place of the culprit, from zero. Where components are equally suspicious, the culprit counts as
/// the last of them: an order by name proves nothing.
fn place(culprit: &str, ranking: &[Ranked]) -> usize {
    let Some(found) = ranking.iter().find(|ranked| ranked.component == culprit) else {
        return usize::MAX;
    };
    ranking.iter().filter(|ranked| ranked.score >= found.score).count() - 1
}

/// For each data set, the settings with the greatest mean Avg@5 over the other systems (each
/// system counts once, the first of equal candidates wins).
pub(super) fn choose(sets: &[DataSet]) -> Vec<Settings> {
    let candidates = Settings::candidates();
    let scores: Vec<Vec<f64>> = candidates
        .par_iter()
        .map(|settings| sets.iter().map(|set| set.judge(settings, &Design::USED).avg5()).collect())
        .collect();
    let best_without = |system: &str| {
        let mean = |scores: &Vec<f64>| {
            let mut by_system = std::collections::BTreeMap::<&str, Vec<f64>>::new();
            for (set, score) in sets.iter().zip(scores).filter(|(set, _)| set.system != system) {
                by_system.entry(set.system).or_default().push(*score);
            }
            let means = by_system.values().map(|of| of.iter().sum::<f64>() / of.len() as f64);
            means.sum::<f64>() / by_system.len().max(1) as f64
        };
        let mut best = (f64::NEG_INFINITY, candidates[0]);
        for (settings, scores) in candidates.iter().zip(&scores) {
            let score = mean(scores);
            // Sums of the same shares in another order differ in their last bits.
            if score > best.0 + 1e-9 {
                best = (score, *settings);
            }
        }
        best.1
    };
    sets.iter().map(|set| best_without(set.system)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_scores_do_not_count_for_the_culprit() {
        let ranked = |component: &str, score| Ranked {
            component: component.to_owned(),
            score,
            resource: None,
        };
        let ranking = [ranked("a", 2.0), ranked("b", 1.0), ranked("c", 1.0)];
        assert_eq!(place("a", &ranking), 0);
        assert_eq!(place("b", &ranking), 2);
        assert_eq!(place("z", &ranking), usize::MAX);
    }
}
