//! The critical component extractor (3.2.3, Alg. 3.2): which instances on critical paths are at fault.

use std::collections::BTreeMap;

use homeostat_core::Stream;

use crate::components::PathComponent;
use crate::{IncrementalSvm, RandomFourierFeatures, Result, SvmConfig};

/// What the classifier reads of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComponentFeatures {
    /// Relative importance and congestion intensity, as printed.
    Printed,
    /// The same, with growth of median and p99 over a time without anomalies.
    WithReference,
}

/// Times of components without anomalies, by root and instance.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ComponentReference {
    times_ms: BTreeMap<(String, String, String), [f64; 2]>,
}

/// Differences below this are no growth, in milliseconds.
const NOISE_MS: f64 = 0.1;

impl ComponentReference {
    /// Of the components of a time without anomalies.
    pub fn of(components: &[PathComponent]) -> Self {
        let times = |one: &PathComponent| (key(one), [one.median_ms, one.p99_ms]);
        Self { times_ms: components.iter().map(times).collect() }
    }

    /// Logarithm of p99 over that of the reference; zero for a component that it lacks.
    pub fn p99_growth(&self, component: &PathComponent) -> f64 {
        self.growth(component)[1]
    }

    /// Logarithms of median and p99 over those of the reference; zero for a component that it lacks.
    fn growth(&self, component: &PathComponent) -> [f64; 2] {
        let Some(before) = self.times_ms.get(&key(component)) else { return [0.0; 2] };
        let growth = |now: f64, before: f64| ((now + NOISE_MS) / (before + NOISE_MS)).ln();
        [growth(component.median_ms, before[0]), growth(component.p99_ms, before[1])]
    }
}

fn key(component: &PathComponent) -> (String, String, String) {
    let (service, operation) = component.root.clone();
    (service, operation, component.instance.clone())
}

/// Binary decisions on components by an incremental SVM.
#[derive(Debug, Clone, PartialEq)]
pub struct Extractor {
    features: ComponentFeatures,
    reference: ComponentReference,
    svm: IncrementalSvm,
}

/// Random waves that approximate the RBF kernel.
const WAVES: usize = 100;
/// Width of the kernel: features are of the order of one.
const GAMMA: f64 = 1.0;

impl Extractor {
    /// One that has learnt nothing.
    pub fn new(
        features: ComponentFeatures,
        reference: ComponentReference,
        rng: &mut Stream,
    ) -> Result<Self> {
        let inputs = match features {
            ComponentFeatures::Printed => 2,
            ComponentFeatures::WithReference => 4,
        };
        let waves = RandomFourierFeatures::draw(inputs, WAVES, GAMMA, rng)?;
        Ok(Self { features, reference, svm: IncrementalSvm::new(waves, SvmConfig::default())? })
    }

    /// The same classifier with the reference of another system.
    pub fn with_reference(self, reference: ComponentReference) -> Self {
        Self { reference, ..self }
    }

    /// Learns from a component whose truth is known; `weight` says how much it counts.
    pub fn learn(
        &mut self,
        component: &PathComponent,
        is_culprit: bool,
        weight: f64,
    ) -> Result<()> {
        self.svm.learn(&self.sample(component), is_culprit, weight)
    }

    /// How sure it is that a component is at fault; above zero, it is.
    pub fn score(&self, component: &PathComponent) -> Result<f64> {
        self.svm.decision(&self.sample(component))
    }

    /// The score of each instance: that of its worst component.
    pub fn instances(&self, components: &[PathComponent]) -> Result<BTreeMap<String, f64>> {
        let mut worst: BTreeMap<String, f64> = BTreeMap::new();
        for component in components {
            let score = self.score(component)?;
            let entry = worst.entry(component.instance.clone()).or_insert(score);
            *entry = entry.max(score);
        }
        Ok(worst)
    }

    /// Congestion intensity has no upper end: its logarithm is of the order of one, as a kernel of one width
    /// needs it.
    fn sample(&self, component: &PathComponent) -> Vec<f64> {
        let mut sample =
            vec![component.relative_importance, component.congestion_intensity.max(1.0).ln()];
        if self.features == ComponentFeatures::WithReference {
            sample.extend(self.reference.growth(component));
        }
        sample
    }
}

#[cfg(test)]
mod tests {
    use homeostat_core::SeedTree;

    use super::*;

    fn component(instance: &str, importance: f64, intensity: f64) -> PathComponent {
        PathComponent {
            root: ("front".to_owned(), "get".to_owned()),
            instance: instance.to_owned(),
            requests: 100,
            relative_importance: importance,
            congestion_intensity: intensity,
            median_ms: 1.0,
            p99_ms: intensity,
        }
    }

    #[test]
    fn components_that_vary_and_matter_are_learnt_to_be_culprits() {
        let seeds = SeedTree::new(3);
        let mut rng = seeds.stream("waves");
        let reference = ComponentReference::default();
        let printed = ComponentFeatures::Printed;
        let mut extractor = Extractor::new(printed, reference, &mut rng).unwrap();
        let mut rng = seeds.stream("samples");
        for _ in 0..500 {
            let (importance, intensity) = (rng.uniform(), 1.0 + 20.0 * rng.uniform());
            let is_culprit = importance > 0.5 && intensity > 8.0;
            extractor.learn(&component("x", importance, intensity), is_culprit, 1.0).unwrap();
        }
        let found = extractor
            .instances(&[
                component("text", 0.9, 15.0),
                component("compose", 0.9, 2.0),
                component("text", 0.1, 2.0),
            ])
            .unwrap();
        assert!(found["text"] > 0.0 && found["compose"] < 0.0, "{found:?}");
    }

    #[test]
    fn growth_over_the_reference_tells_what_the_printed_features_cannot() {
        let before = component("slow", 0.5, 2.0);
        let reference = ComponentReference::of(std::slice::from_ref(&before));
        let mut after = before.clone();
        (after.median_ms, after.p99_ms) = (10.0, 20.0);
        assert_eq!(reference.growth(&before), [0.0; 2]);
        assert!(reference.growth(&after)[0] > 2.0);
        let unknown = component("new", 0.5, 2.0);
        assert_eq!(reference.growth(&unknown), [0.0; 2]);
    }
}
