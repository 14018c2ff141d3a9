//! Localisation of the instance at fault (figure 3.5): an SVM on two features of each component on the
//! critical paths, trained and tested on injected anomalies of the four simulated applications.

use std::collections::BTreeMap;

use homeostat_anomalies::AnomalyKind;
use homeostat_core::SeedTree;
use homeostat_firm::{ComponentFeatures, ComponentReference, Extractor, PathComponent};
use homeostat_lab::Result;
use homeostat_report::{Cell, Finding, Spread, Table};
use homeostat_sim_mesh::{MeshPlan, Topology};
use rayon::prelude::*;
use serde_json::json;

use super::traced_windows::{Injected, TracedMesh, TracedWindow, several, single};
use super::{FirmOptions, plan_of, refused};

/// The published accuracy with several anomalies at once (3.3.2).
const PAPER_ACCURACY: f64 = 0.93;

/// The classifier of this application is trained on it as well.
const TRAINED_ON: &str = "train-ticket";

/// What is compared, with the scores that it gives to the instances of a window.
const ARMS: [&str; 6] = [
    "FIRM as printed",
    "FIRM with reference",
    "FIRM with reference, trained on train-ticket",
    "longest",
    "most variable",
    "largest growth",
];

/// One instance in one window.
#[derive(Debug, Clone, Copy)]
struct Scored {
    score: f64,
    /// Whether it is called a culprit.
    is_called: bool,
    /// The intensity of what was injected; none if it is no culprit.
    intensity: Option<f64>,
}

impl Scored {
    fn is_culprit(&self) -> bool {
        self.intensity.is_some()
    }
}

/// One application with one seed.
struct Played {
    reference: Vec<PathComponent>,
    training: Vec<TracedWindow>,
    several: Vec<TracedWindow>,
    /// By type of anomaly.
    single: Vec<Vec<TracedWindow>>,
}

/// Rates of one arm.
#[derive(Debug, Clone, Copy, Default)]
struct Rates {
    accuracy: f64,
    true_positive: f64,
    false_positive: f64,
    /// Area under the ROC curve.
    area: f64,
    /// True positives where 15 % of the others are false positives.
    at_15: f64,
}

pub(super) fn localisation(
    options: &FirmOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Finding> {
    let (training, testing, each) = if options.is_quick { (60, 20, 6) } else { (120, 40, 12) };
    let mut plans = Vec::new();
    for name in Topology::names() {
        plans.push(plan_of(name)?);
    }
    let mut jobs = Vec::new();
    for seed in &options.seeds {
        jobs.extend(plans.iter().map(|plan| (*seed, plan)));
    }
    let played: Vec<Played> = jobs
        .par_iter()
        .map(|(seed, plan)| {
            let name = plan.topology().name();
            progress(&format!("seed {seed}, {name}: injecting"));
            let seeds = SeedTree::new(*seed).child("firm/localisation").child(name);
            play(plan, &seeds, [training, testing, each])
        })
        .collect::<Result<_>>()?;
    progress("training and testing");
    let mut by_arm = BTreeMap::new();
    let mut by_kind = BTreeMap::new();
    let mut by_seed: BTreeMap<(&str, u64), Vec<Scored>> = BTreeMap::new();
    for (played, seed) in played.chunks_exact(plans.len()).zip(&options.seeds) {
        for (arm, name) in ARMS.into_iter().enumerate() {
            for (place, plan) in plans.iter().enumerate() {
                let judge = judge_of(arm, played, place, &plans, *seed)?;
                let topology = plan.topology().name();
                let scored = judge(&played[place].several)?;
                let rates = rates(&scored);
                by_seed.entry((name, *seed)).or_default().extend(scored);
                by_arm.entry((name, topology)).or_insert_with(Vec::new).push(rates);
                for (kind, windows) in AnomalyKind::ALL.iter().zip(&played[place].single) {
                    let scored = judge(windows)?;
                    by_kind.entry((name, *kind)).or_insert_with(Vec::new).push((*seed, scored));
                }
            }
        }
    }
    let mut finding = report(&by_arm, &by_kind, &played);
    finding.tables.insert(1, by_intensity(&by_seed));
    Ok(finding)
}

/// Plays an application without anomalies, then with those of training, then with others.
fn play(plan: &MeshPlan, seeds: &SeedTree, counts: [usize; 3]) -> Result<Played> {
    let [training, testing, each] = counts;
    let services = plan.topology().services().len();
    let mut mesh = TracedMesh::new(plan, &seeds.child("mesh"))?;
    let reference = mesh.calm(60.0);
    let mut rng = seeds.stream("anomalies");
    let mut windows = |count: usize, draw: &mut dyn FnMut() -> Vec<Injected>| {
        // Where no SLO is violated, nothing looks for a culprit.
        let mut kept = Vec::new();
        for _ in 0..count {
            let window = mesh.window(&draw())?;
            kept.extend((!window.components.is_empty()).then_some(window));
        }
        Ok::<_, homeostat_lab::Error>(kept)
    };
    let mut number = 0;
    let training = windows(training, &mut || {
        // Half of them with one anomaly, half with several.
        number += 1;
        match number % 2 {
            0 => several(services, &mut rng),
            _ => single(AnomalyKind::ALL[number / 2 % 7], services, &mut rng),
        }
    })?;
    let several = windows(testing, &mut || several(services, &mut rng))?;
    let mut by_kind = Vec::new();
    for kind in AnomalyKind::ALL {
        by_kind.push(windows(each, &mut || single(kind, services, &mut rng))?);
    }
    Ok(Played { reference, training, several, single: by_kind })
}

/// An extractor with the printed features, trained on so many windows of an application.
pub(super) fn trained_extractor(
    plan: &MeshPlan,
    windows: usize,
    seeds: &SeedTree,
) -> Result<Extractor> {
    let Played { training, .. } = play(plan, seeds, [windows, 0, 0])?;
    let mut rng = seeds.stream("svm");
    let (printed, reference) = (ComponentFeatures::Printed, ComponentReference::default());
    let mut extractor = Extractor::new(printed, reference, &mut rng).map_err(refused)?;
    learn(&mut extractor, &training, &mut rng)?;
    Ok(extractor)
}

type Judge<'a> = Box<dyn Fn(&[TracedWindow]) -> Result<Vec<Scored>> + 'a>;

/// How an arm scores the instances of an application.
fn judge_of<'a>(
    arm: usize,
    played: &'a [Played],
    place: usize,
    plans: &[MeshPlan],
    seed: u64,
) -> Result<Judge<'a>> {
    let learnt = |features, from: usize| -> Result<Extractor> {
        let mut rng = SeedTree::new(seed).child("firm/localisation").stream("svm");
        let of = |place: usize| ComponentReference::of(&played[place].reference);
        let mut extractor = Extractor::new(features, of(from), &mut rng).map_err(refused)?;
        learn(&mut extractor, &played[from].training, &mut rng)?;
        Ok(extractor.with_reference(of(place)))
    };
    let of_svm = |extractor: Extractor| -> Judge<'a> {
        Box::new(move |windows| {
            let score =
                |window: &TracedWindow| extractor.instances(&window.components).map_err(refused);
            scored(windows, false, &score)
        })
    };
    let by = |score: fn(&PathComponent) -> f64| -> Judge<'a> {
        Box::new(move |windows| scored(windows, true, &|window| Ok(largest(window, &score))))
    };
    Ok(match arm {
        0 => of_svm(learnt(ComponentFeatures::Printed, place)?),
        1 => of_svm(learnt(ComponentFeatures::WithReference, place)?),
        2 => {
            let from = plans.iter().position(|plan| plan.topology().name() == TRAINED_ON);
            let from = from.expect("it is among the topologies");
            of_svm(learnt(ComponentFeatures::WithReference, from)?)
        }
        3 => by(|component| component.median_ms),
        4 => by(|component| component.congestion_intensity),
        _ => {
            let reference = ComponentReference::of(&played[place].reference);
            Box::new(move |windows| {
                let growth = |one: &PathComponent| reference.p99_growth(one);
                scored(windows, true, &|window| Ok(largest(window, &growth)))
            })
        }
    })
}

/// Times that the training windows are learnt from. They are few: after one pass, the last samples decide.
const EPOCHS: usize = 5;

/// Trains on the components of windows in a random order.
fn learn<'a>(
    extractor: &mut Extractor,
    windows: &'a [TracedWindow],
    rng: &mut homeostat_core::Stream,
) -> Result<()> {
    let mut samples: Vec<(&'a PathComponent, bool)> = Vec::new();
    for window in windows {
        let of = |one: &'a PathComponent| (one, window.culprits.contains_key(&one.instance));
        samples.extend(window.components.iter().map(of));
    }
    for _ in 0..EPOCHS {
        rng.shuffle(&mut samples);
        for (component, is_culprit) in &samples {
            extractor.learn(component, *is_culprit, 1.0).map_err(refused)?;
        }
    }
    Ok(())
}

/// The largest figure of the components of each instance.
fn largest(window: &TracedWindow, figure: &dyn Fn(&PathComponent) -> f64) -> BTreeMap<String, f64> {
    let mut largest: BTreeMap<String, f64> = BTreeMap::new();
    for component in &window.components {
        let figure = figure(component);
        let entry = largest.entry(component.instance.clone()).or_insert(figure);
        *entry = entry.max(figure);
    }
    largest
}

/// A classifier calls culprits those with a score above zero, a heuristic the first of each window.
fn scored(
    windows: &[TracedWindow],
    names_first: bool,
    score: &dyn Fn(&TracedWindow) -> Result<BTreeMap<String, f64>>,
) -> Result<Vec<Scored>> {
    let mut all = Vec::new();
    for window in windows {
        let scores = score(window)?;
        let most = scores.values().copied().fold(f64::NEG_INFINITY, f64::max);
        for (name, intensity) in window.instances() {
            let score = scores[name];
            let is_called = if names_first { score >= most } else { score > 0.0 };
            all.push(Scored { score, is_called, intensity });
        }
    }
    Ok(all)
}

fn rates(scored: &[Scored]) -> Rates {
    let positives = scored.iter().filter(|one| one.is_culprit()).count() as f64;
    let negatives = scored.len() as f64 - positives;
    let called = |wanted: bool| {
        scored.iter().filter(|one| one.is_called && one.is_culprit() == wanted).count() as f64
    };
    let (hits, alarms) = (called(true), called(false));
    let mut sorted = scored.to_vec();
    sorted.sort_by(|a, b| b.score.total_cmp(&a.score));
    let (mut area, mut at_15, mut found, mut passed) = (0.0, 0.0, 0.0, 0.0);
    for tied in sorted.chunk_by(|a, b| a.score == b.score) {
        let more = tied.iter().filter(|one| one.is_culprit()).count() as f64;
        let others = tied.len() as f64 - more;
        // Ties count half.
        area += others * (found + more / 2.0);
        found += more;
        passed += others;
        if passed <= 0.15 * negatives {
            at_15 = found / positives;
        }
    }
    Rates {
        accuracy: (hits + negatives - alarms) / scored.len() as f64,
        true_positive: hits / positives,
        false_positive: alarms / negatives,
        area: area / (positives * negatives),
        at_15,
    }
}

type ByArm<'a> = BTreeMap<(&'static str, &'a str), Vec<Rates>>;
type ByKind = BTreeMap<(&'static str, AnomalyKind), Vec<(u64, Vec<Scored>)>>;

fn report(by_arm: &ByArm<'_>, by_kind: &ByKind, played: &[Played]) -> Finding {
    let mut finding = Finding::default();
    let over = |rates: &[Rates], of: fn(&Rates) -> f64| {
        Spread::of(&rates.iter().map(of).collect::<Vec<_>>())
    };
    let columns =
        ["method", "application", "accuracy", "found", "false alarms", "AUC", "paper's accuracy"];
    let mut table = Table::new("several anomalies at once", &columns);
    let mut facts = json!({});
    for arm in ARMS {
        let mut all: Vec<Vec<Rates>> = Vec::new();
        for ((name, topology), rates) in by_arm.iter().filter(|((name, _), _)| *name == arm) {
            let is_printed = *name == ARMS[0];
            table.push(vec![
                (*name).into(),
                (*topology).into(),
                over(rates, |rates| rates.accuracy).into(),
                over(rates, |rates| rates.true_positive).into(),
                over(rates, |rates| rates.false_positive).into(),
                over(rates, |rates| rates.area).into(),
                if is_printed { "0.92 to 0.94".into() } else { Cell::Nothing },
            ]);
            all.push(rates.clone());
        }
        let seeds = all.first().map_or(0, Vec::len);
        let mean = |of: fn(&Rates) -> f64| {
            let mean_of = |seed: usize| all.iter().map(|rates| of(&rates[seed])).sum::<f64>();
            let means: Vec<f64> = (0..seeds).map(|seed| mean_of(seed) / all.len() as f64).collect();
            Spread::of(&means)
        };
        let accuracy = mean(|rates| rates.accuracy);
        table.push(vec![
            arm.into(),
            "mean".into(),
            accuracy.into(),
            mean(|rates| rates.true_positive).into(),
            mean(|rates| rates.false_positive).into(),
            mean(|rates| rates.area).into(),
            if arm == ARMS[0] { PAPER_ACCURACY.into() } else { Cell::Nothing },
        ]);
        facts[arm] = json!({ "accuracy": accuracy, "auc": mean(|rates| rates.area) });
    }
    finding.tables.push(table);
    let columns = [
        "anomaly",
        "windows",
        ARMS[0],
        ARMS[1],
        ARMS[4],
        "accuracy as printed",
        "with reference",
        "paper",
    ];
    let mut single = Table::new(
        "one anomaly at a time, all applications: culprits found at 15 % false alarms, and accuracy",
        &columns,
    );
    for kind in AnomalyKind::ALL.into_iter().map(Some).chain([None]) {
        let is_kind = |known: AnomalyKind| kind.is_none_or(|kind| kind == known);
        let of_kind = AnomalyKind::ALL.into_iter().filter(|known| is_kind(*known));
        let windows =
            of_kind.flat_map(|known| played.iter().map(move |one| &one.single[known.index()]));
        let windows = windows.map(Vec::len).sum::<usize>();
        let of_arm = |arm: &str| -> Vec<Rates> {
            let mut by_seed: BTreeMap<u64, Vec<Scored>> = BTreeMap::new();
            let runs = by_kind.iter().filter(|((name, known), _)| *name == arm && is_kind(*known));
            for (seed, scored) in runs.flat_map(|(_, runs)| runs) {
                by_seed.entry(*seed).or_default().extend(scored);
            }
            by_seed.values().map(|scored| rates(scored)).collect()
        };
        let mut row: Vec<Cell> =
            vec![kind.map_or("all", AnomalyKind::name).into(), (windows as f64).into()];
        for arm in [ARMS[0], ARMS[1], ARMS[4]] {
            row.push(over(&of_arm(arm), |rates| rates.at_15).into());
        }
        for arm in [ARMS[0], ARMS[1]] {
            row.push(over(&of_arm(arm), |rates| rates.accuracy).into());
        }
        row.push("nearly 1".into());
        single.push(row);
        if kind.is_none() {
            for arm in [ARMS[0], ARMS[1]] {
                let found = over(&of_arm(arm), |rates| rates.at_15);
                let accuracy = over(&of_arm(arm), |rates| rates.accuracy);
                facts[arm]["single"] = json!({ "found_at_15_pct": found, "accuracy": accuracy });
            }
        }
    }
    finding.tables.push(single);
    let (mut positives, mut all) = (0.0, 0.0);
    for window in played.iter().flat_map(|played| &played.several) {
        let instances = window.instances();
        all += instances.len() as f64;
        positives += instances.values().flatten().count() as f64;
    }
    let never = 1.0 - positives / all;
    facts["always no"] = json!({ "accuracy": never });
    facts["paper"] = json!({ "accuracy": PAPER_ACCURACY });
    finding.facts.insert("localisation".to_owned(), facts);
    finding.notes = vec![
        format!(
            "Judged is every instance on the critical path of a type of requests that violates its SLO. To call none of \
             them a culprit has an accuracy of {never:.2}: read accuracy with the share of culprits found. The paper does \
             not print how many instances are culprits."
        ),
        "An anomaly of low intensity, or of a resource that its service hardly uses, counts as a culprit that has to be \
         found. Longest, most variable and largest growth name one instance in each window."
            .to_owned(),
    ];
    finding
}

/// Whether weak anomalies are the ones that are missed.
fn by_intensity(by_seed: &BTreeMap<(&str, u64), Vec<Scored>>) -> Table {
    let arms = [ARMS[0], ARMS[1]];
    let mut table = Table::new(
        "several anomalies at once, all applications: culprits found, by the largest intensity in them",
        &["intensity", arms[0], arms[1]],
    );
    for (name, low, high) in [
        ("below 1/3", 0.0, 1.0 / 3.0),
        ("1/3 to 2/3", 1.0 / 3.0, 2.0 / 3.0),
        ("above 2/3", 2.0 / 3.0, 1.1),
    ] {
        let mut row: Vec<Cell> = vec![name.into()];
        for arm in arms {
            let of_arm = by_seed.iter().filter(|((known, _), _)| *known == arm);
            let found = of_arm.map(|(_, scored)| {
                let inside =
                    |one: &&Scored| one.intensity.is_some_and(|is| (low..high).contains(&is));
                let culprits: Vec<&Scored> = scored.iter().filter(inside).collect();
                let found = culprits.iter().filter(|one| one.is_called).count();
                found as f64 / culprits.len() as f64
            });
            row.push(Spread::of(&found.collect::<Vec<_>>()).into());
        }
        table.push(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_a_hand_count() {
        let truth =
            [(0.9, true), (0.5, false), (0.4, true), (-0.2, false), (-0.5, true), (-0.6, false)];
        let scored = truth.map(|(score, is_culprit)| Scored {
            score,
            is_called: score > 0.0,
            intensity: is_culprit.then_some(0.5),
        });
        let rates = rates(&scored);
        assert!((rates.accuracy - 4.0 / 6.0).abs() < 1e-12);
        assert!((rates.true_positive - 2.0 / 3.0).abs() < 1e-12);
        assert!((rates.false_positive - 1.0 / 3.0).abs() < 1e-12);
        assert!((rates.area - 6.0 / 9.0).abs() < 1e-12);
        assert!((rates.at_15 - 1.0 / 3.0).abs() < 1e-12);
    }
}
