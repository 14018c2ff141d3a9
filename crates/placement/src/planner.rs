//! The search for a plan.

use homeostat_core::SeedTree;
use rayon::prelude::*;

use crate::catalogue::{Catalogue, Units};
use crate::clocks::{ClockChoice, least_power_clocks, raise_until_kept};
use crate::error::check_range;
use crate::layout::{Context, Layout};
use crate::partition::GroupShape;
use crate::plan::{Alternative, Expectation, Method, Plan, PlannedCopy, PlannedPartition};
use crate::power_aware::{PowerAwareConfig, SimilarityReason, place_by_similarity};
use crate::selection::{Preference, fill, random, round_robin, select_models};
use crate::simulation::{Outcome, RequestTrace};
use crate::{Cluster, Error, Result, SensitivityDatabase, Workload};

/// Settings of the planner.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannerConfig {
    /// Part of the requests that must be within their SLO.
    pub attainment: f64,
    /// Difference of sensitivity from which on neighbours are in different clusters (THRES of Alg. 6.1).
    pub cluster_threshold: f64,
    /// Difference of sensitivity up to which partitions may share devices (Alg. 6.2).
    pub similarity_threshold: f64,
    /// Most devices for the partitions of one copy (CT of Alg. 6.2); none to try all.
    pub max_devices_per_copy: Option<usize>,
    /// Most stages of a pipeline.
    pub max_stages: usize,
    /// Most devices that compute an operator together.
    pub max_degree: usize,
    /// Iterations simulated to compare two placements.
    pub search_iterations: f64,
    /// Iterations simulated for what the plan says to expect.
    pub evaluation_iterations: f64,
}

impl Default for PlannerConfig {
    fn default() -> Self {
        Self {
            attainment: 0.99,
            cluster_threshold: 0.3,
            similarity_threshold: 0.2,
            max_devices_per_copy: None,
            max_stages: 8,
            max_degree: 8,
            search_iterations: 150_000.0,
            evaluation_iterations: 600_000.0,
        }
    }
}

/// Placements of the first search that the second one starts from.
const STARTS: usize = 3;

/// Makes plans for one cluster and workload.
pub struct Planner {
    cluster: Cluster,
    workload: Workload,
    config: PlannerConfig,
    catalogue: Catalogue,
}

/// A placement with its outcome in the search.
#[derive(Debug, Clone)]
struct Candidate {
    what: String,
    layout: Layout,
    outcome: Outcome,
    similarity: Option<Vec<Vec<SimilarityReason>>>,
}

impl PlannerConfig {
    fn validate(&self) -> Result<()> {
        check_range("attainment", self.attainment, 0.0, 1.0)?;
        check_range("cluster_threshold", self.cluster_threshold, 0.0, 2.0)?;
        check_range("similarity_threshold", self.similarity_threshold, 0.0, 2.0)?;
        check_range("max_stages", self.max_stages as f64, 1.0, 64.0)?;
        check_range("max_degree", self.max_degree as f64, 1.0, 64.0)?;
        let most = self.max_devices_per_copy.unwrap_or(1);
        check_range("max_devices_per_copy", most as f64, 1.0, 4096.0)?;
        check_range("search_iterations", self.search_iterations, 100.0, 1e9)?;
        check_range("evaluation_iterations", self.evaluation_iterations, 100.0, 1e10)
    }
}

impl Planner {
    /// Divides every model for every group. Without a database, sensitivities are computed from the
    /// device types. Refuses models that fit into no group.
    pub fn new(
        cluster: Cluster,
        workload: Workload,
        database: Option<SensitivityDatabase>,
        config: PlannerConfig,
    ) -> Result<Self> {
        config.validate()?;
        let database =
            database.unwrap_or_else(|| SensitivityDatabase::computed(&cluster, &workload));
        let limits = (config.max_stages, config.max_degree);
        let threshold = config.cluster_threshold;
        let catalogue = Catalogue::build(&cluster, &workload, &database, threshold, limits)?;
        let planner = Self { cluster, workload, config, catalogue };
        planner.check_sizes()?;
        Ok(planner)
    }

    /// The workload.
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    fn check_sizes(&self) -> Result<()> {
        for (model, demand) in self.workload.models.iter().enumerate() {
            let fits_in = |pool: usize| {
                let shapes = self.catalogue.shapes(pool).iter();
                shapes.copied().any(|shape| self.fits(model, pool, shape))
            };
            if (0..self.cluster.pools().len()).any(fits_in) {
                continue;
            }
            let tokens = demand.longest_tokens();
            let need = demand.model.weight_bytes() + tokens * demand.model.cache_bytes_per_token();
            let largest = |(pool, devices): (usize, &crate::DevicePool)| {
                let shapes = self.catalogue.shapes(pool).iter();
                let count = shapes.map(|shape| shape.devices()).max().unwrap_or(0);
                count as f64 * devices.device.memory_gib
            };
            return Err(Error::DoesNotFit {
                model: demand.name.clone(),
                need_gib: need / 1024.0_f64.powi(3),
                has_gib: self.cluster.pools().iter().enumerate().map(largest).fold(0.0, f64::max),
            });
        }
        Ok(())
    }

    fn fits(&self, model: usize, pool: usize, shape: GroupShape) -> bool {
        self.catalogue.model(model, pool, shape, Units::Operators).is_some()
    }

    fn ctx(&self) -> Context<'_> {
        Context { cluster: &self.cluster, workload: &self.workload, catalogue: &self.catalogue }
    }

    /// Makes a plan. The same seeds give the same plan, for any number of threads.
    pub fn plan(
        &self,
        method: Method,
        seeds: &SeedTree,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Plan> {
        let config = &self.config;
        let search =
            RequestTrace::draw(&self.workload, config.search_iterations, &seeds.child("search"))?;
        let (chosen, clocks, alternatives) = match method {
            Method::AlpaServe => {
                let found = self.alpaserve(&search, progress)?;
                let alternatives = list(&found, 0);
                let best = found.into_iter().next().expect("one division is always tried");
                let clocks = self.clocks(&best, &search)?;
                (best, clocks, alternatives)
            }
            Method::MuServe => self.mu_serve(&search, progress)?,
            Method::RoundRobin | Method::Random => {
                let groups = self.smallest_groups();
                let empty = Layout::empty(&self.cluster, &groups);
                let layout = match method {
                    Method::Random => random(self.ctx(), empty, &mut seeds.stream("random")),
                    _ => round_robin(self.ctx(), empty),
                };
                let outcome = Outcome::simulate(layout.deployment(self.ctx()), &search, None)?;
                let what = method.name().to_owned();
                let candidate = Candidate { what, layout, outcome, similarity: None };
                let alternatives = list(std::slice::from_ref(&candidate), 0);
                let clocks = self.clocks(&candidate, &search)?;
                (candidate, clocks, alternatives)
            }
        };
        progress("simulating what to expect");
        self.finish(method, seeds, chosen, clocks, alternatives)
    }

    /// The placements of AlpaServe, best first: for every division of the cluster into groups, the greedy
    /// selection of models.
    fn alpaserve(
        &self,
        search: &RequestTrace,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Vec<Candidate>> {
        // Pools are divided one after the other, as all combinations would be too many.
        let mut groups = self.smallest_groups();
        let mut found: Vec<Candidate> = Vec::new();
        for pool in 0..self.cluster.pools().len() {
            let options: Vec<Vec<Vec<(GroupShape, usize)>>> = self
                .catalogue
                .shapes(pool)
                .iter()
                .map(|shape| {
                    let mut option = groups.clone();
                    option[pool] = self.divide(pool, *shape);
                    option
                })
                .collect();
            progress(&format!(
                "placing {} models on {} devices: {} divisions of the {} {} devices into groups",
                self.workload.models.len(),
                self.cluster.device_count(),
                options.len(),
                self.cluster.pools()[pool].count,
                self.cluster.pools()[pool].name,
            ));
            let candidates: Vec<Candidate> = options
                .par_iter()
                .map(|option| {
                    let least_busy = Preference::LeastBusy;
                    let selected = self.select(option, Units::Operators, least_busy, search)?;
                    let filled = self.filled(&selected, least_busy, search)?;
                    let is_better = filled.outcome.attainment() >= selected.outcome.attainment();
                    Ok(if is_better { filled } else { selected })
                })
                .collect::<Result<_>>()?;
            let mut best = 0;
            for (place, candidate) in candidates.iter().enumerate() {
                if candidate.outcome.attainment() > candidates[best].outcome.attainment() {
                    best = place;
                }
            }
            groups = options[best].clone();
            found.extend(candidates);
        }
        // The sort is stable: of equal attainment, the division that was tried first.
        found.sort_by(|a, b| b.outcome.attainment().total_cmp(&a.outcome.attainment()));
        found.dedup_by(|a, b| a.layout == b.layout);
        Ok(found)
    }

    fn select(
        &self,
        groups: &[Vec<(GroupShape, usize)>],
        units: Units,
        preference: Preference,
        search: &RequestTrace,
    ) -> Result<Candidate> {
        let mut empty = Layout::empty(&self.cluster, groups);
        empty.units = units;
        let (layout, outcome) = select_models(self.ctx(), empty, preference, search)?;
        let what = self.describe(groups, preference);
        Ok(Candidate { what, layout, outcome, similarity: None })
    }

    /// The candidate with its spare memory filled.
    fn filled(
        &self,
        candidate: &Candidate,
        preference: Preference,
        search: &RequestTrace,
    ) -> Result<Candidate> {
        let layout = fill(self.ctx(), candidate.layout.clone(), preference);
        let outcome = Outcome::simulate(layout.deployment(self.ctx()), search, None)?;
        let what = format!("{}; spare memory filled with copies", candidate.what);
        Ok(Candidate { what, layout, outcome, similarity: None })
    }

    /// The placement with the least power among those that keep the attainment of AlpaServe, or the one
    /// asked for if that is lower.
    fn mu_serve(
        &self,
        search: &RequestTrace,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(Candidate, ClockChoice, Vec<Alternative>)> {
        let starts = self.alpaserve(search, progress)?;
        let reference = starts.first().expect("one division is always tried").clone();
        let goal = self.config.attainment.min(reference.outcome.attainment());
        let mut candidates: Vec<Candidate> = starts
            .iter()
            .filter(|start| start.outcome.attainment() >= goal)
            .take(STARTS)
            .cloned()
            .collect();
        progress("placing partitions by sensitivity");
        let clustered: Vec<Candidate> = candidates
            .par_iter()
            .map(|start| {
                let groups = self.groups_of(&start.layout);
                [Preference::LeastBusy, Preference::LeastEnergy]
                    .into_iter()
                    .map(|preference| {
                        let selected = self.select(&groups, Units::Clusters, preference, search)?;
                        let filled = self.filled(&selected, preference, search)?;
                        Ok([selected, filled])
                    })
                    .collect::<Result<Vec<_>>>()
            })
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .flatten()
            .flatten()
            .collect();
        let mut variants: Vec<Candidate> =
            clustered.iter().flat_map(|candidate| self.by_similarity(candidate)).collect();
        variants.extend(clustered);
        candidates.extend(self.simulated(variants, search)?);
        candidates.retain(|candidate| candidate.outcome.attainment() >= goal);
        let mut unique: Vec<Candidate> = Vec::new();
        for candidate in candidates {
            if !unique.iter().any(|known| known.layout == candidate.layout) {
                unique.push(candidate);
            }
        }
        progress(&format!("searching for the clocks of {} placements", unique.len()));
        let clocks: Vec<ClockChoice> = unique
            .par_iter()
            .map(|candidate| self.clocks(candidate, search))
            .collect::<Result<_>>()?;
        let mut best = 0;
        for (place, choice) in clocks.iter().enumerate() {
            if choice.outcome.power_w() < clocks[best].outcome.power_w() {
                best = place;
            }
        }
        let mut alternatives = list(&unique, best);
        for (alternative, choice) in alternatives.iter_mut().zip(&clocks) {
            alternative.power_w = Some(choice.outcome.power_w());
        }
        Ok((unique.swap_remove(best), clocks[best].clone(), alternatives))
    }

    /// Alg. 6.2 with each CT, within groups and across groups of the same shape.
    fn by_similarity(&self, candidate: &Candidate) -> Vec<Candidate> {
        let stages = candidate.layout.groups.iter().map(|group| group.shape.stages).max();
        let most = stages.unwrap_or(1);
        let limits: Vec<usize> = match self.config.max_devices_per_copy {
            Some(limit) => vec![limit],
            None => (0..).map(|power| 1 << power).take_while(|limit| *limit <= most).collect(),
        };
        let mut found = Vec::new();
        for merges_groups in [false, true] {
            for max_sets in &limits {
                let config = PowerAwareConfig {
                    max_sets: *max_sets,
                    similarity_threshold: self.config.similarity_threshold,
                    merges_groups,
                };
                let placed = place_by_similarity(self.ctx(), &candidate.layout, &config);
                let Some((layout, similarity)) = placed else { continue };
                let scope = if merges_groups { "all groups" } else { "its group" };
                let what = format!(
                    "{}; partitions by sensitivity on at most {max_sets} of {scope}",
                    candidate.what
                );
                let similarity = Some(similarity);
                found.push(Candidate { what, layout, similarity, outcome: Outcome::default() });
            }
        }
        found
    }

    fn simulated(
        &self,
        candidates: Vec<Candidate>,
        search: &RequestTrace,
    ) -> Result<Vec<Candidate>> {
        let play = |mut candidate: Candidate| -> Result<Candidate> {
            let deployment = candidate.layout.deployment(self.ctx());
            candidate.outcome = Outcome::simulate(deployment, search, None)?;
            Ok(candidate)
        };
        candidates.into_par_iter().map(play).collect()
    }

    fn clocks(&self, candidate: &Candidate, search: &RequestTrace) -> Result<ClockChoice> {
        let goal = self.config.attainment.min(candidate.outcome.attainment());
        let deployment = candidate.layout.deployment(self.ctx());
        least_power_clocks(&deployment, search, goal, &candidate.outcome)
    }

    /// For each pool, the smallest groups.
    fn smallest_groups(&self) -> Vec<Vec<(GroupShape, usize)>> {
        let one = GroupShape { stages: 1, degree: 1 };
        (0..self.cluster.pools().len()).map(|pool| self.divide(pool, one)).collect()
    }

    /// Divides a pool into groups of a shape. Models that are too large for it get groups of the smallest
    /// shape that fits them, as many as their part of the load; what is left over is divided into
    /// single devices.
    fn divide(&self, pool: usize, shape: GroupShape) -> Vec<(GroupShape, usize)> {
        let mut left = self.cluster.pools()[pool].count;
        let mut groups = Vec::new();
        let models = 0..self.workload.models.len();
        let too_large: Vec<usize> =
            models.filter(|model| !self.fits(*model, pool, shape)).collect();
        let fits_all =
            |larger: &&GroupShape| too_large.iter().all(|model| self.fits(*model, pool, **larger));
        let larger = self.catalogue.shapes(pool).iter().find(fits_all).copied();
        if let Some(larger) = larger.filter(|_| !too_large.is_empty()) {
            let device = &self.cluster.pools()[pool].device;
            let load = |model: usize| {
                let demand = &self.workload.models[model];
                demand.rate * demand.alone_s(device)
            };
            let all: f64 = (0..self.workload.models.len()).map(load).sum();
            let part = too_large.iter().map(|model| load(*model)).sum::<f64>() / all;
            let most = left / larger.devices();
            let wanted = (part * left as f64 / larger.devices() as f64).round() as usize;
            let count = wanted.clamp(1, most);
            groups.push((larger, count));
            left -= count * larger.devices();
        }
        let count = left / shape.devices();
        if count > 0 {
            groups.push((shape, count));
            left -= count * shape.devices();
        }
        if left > 0 {
            groups.push((GroupShape { stages: 1, degree: 1 }, left));
        }
        groups
    }

    fn groups_of(&self, layout: &Layout) -> Vec<Vec<(GroupShape, usize)>> {
        let mut groups: Vec<Vec<(GroupShape, usize)>> =
            vec![Vec::new(); self.cluster.pools().len()];
        for group in &layout.groups {
            let of_pool = &mut groups[group.pool];
            match of_pool.last_mut().filter(|last| last.0 == group.shape) {
                Some(last) => last.1 += 1,
                None => of_pool.push((group.shape, 1)),
            }
        }
        groups
    }

    fn describe(&self, groups: &[Vec<(GroupShape, usize)>], preference: Preference) -> String {
        let mut parts = Vec::new();
        for (pool, of_pool) in groups.iter().enumerate() {
            let name = &self.cluster.pools()[pool].name;
            for (shape, count) in of_pool {
                parts.push(format!("{count} {name} groups with {shape}"));
            }
        }
        let preference = match preference {
            Preference::LeastBusy => "models on the least busy group",
            Preference::LeastEnergy => "models where a request takes the least energy",
        };
        format!("{}; {preference}", parts.join(", "))
    }

    fn finish(
        &self,
        method: Method,
        seeds: &SeedTree,
        chosen: Candidate,
        clocks: ClockChoice,
        alternatives: Vec<Alternative>,
    ) -> Result<Plan> {
        let iterations = self.config.evaluation_iterations;
        let unseen = RequestTrace::draw(&self.workload, iterations, &seeds.child("expected"))?;
        let deployment = chosen.layout.deployment(self.ctx());
        let highest = Outcome::simulate(deployment.clone(), &unseen, None)?;
        let goal = self.config.attainment;
        let kept = raise_until_kept(&deployment, &unseen, goal, &highest, clocks.clocks)?;
        let copies = self.planned_copies(&chosen);
        let unplaced = (0..self.workload.models.len())
            .filter(|model| copies.iter().all(|copy| copy.model != *model))
            .collect();
        Ok(Plan {
            method,
            model_names: self.workload.models.iter().map(|demand| demand.name.clone()).collect(),
            device_names: (0..self.cluster.device_count())
                .map(|device| self.cluster.device_name(device))
                .collect(),
            copies,
            unplaced,
            wanted_attainment: self.config.attainment,
            at_highest_clocks: expectation(highest),
            clocks: kept.clocks,
            at_planned_clocks: expectation(kept.outcome),
            alternatives,
            layout: chosen.layout,
            deployment,
        })
    }

    fn planned_copies(&self, chosen: &Candidate) -> Vec<PlannedCopy> {
        let gib = 1024.0_f64.powi(3);
        let copy = |(place, placed): (usize, &crate::Placed)| {
            let partitioned = chosen.layout.placed_partitions(self.ctx(), placed);
            let operators = &self.workload.models[placed.model].model.operators;
            let partitions = partitioned.partitions.iter().zip(&placed.sets).enumerate();
            let partitions = partitions.map(|(index, (partition, set))| PlannedPartition {
                operators: (
                    operators[partition.operators.start].name.clone(),
                    operators[partition.operators.end - 1].name.clone(),
                ),
                operator_count: partition.operators.len(),
                set: *set,
                score: partition.score,
                weights_gib: partition.weight_bytes / gib,
                reason: chosen.similarity.as_ref().map(|reasons| reasons[place][index]),
            });
            PlannedCopy {
                model: placed.model,
                group: placed.group,
                partitions: partitions.collect(),
            }
        };
        chosen.layout.placed.iter().enumerate().map(copy).collect()
    }
}

fn expectation(outcome: Outcome) -> Expectation {
    Expectation {
        attainment: outcome.attainment(),
        power_w: outcome.power_w(),
        models: outcome.models,
        set_w: outcome.executor_w,
        busy: outcome.busy,
    }
}

fn list(candidates: &[Candidate], chosen: usize) -> Vec<Alternative> {
    let alternative = |(place, candidate): (usize, &Candidate)| Alternative {
        what: candidate.what.clone(),
        attainment: candidate.outcome.attainment(),
        power_w: None,
        is_chosen: place == chosen,
    };
    candidates.iter().enumerate().map(alternative).collect()
}
