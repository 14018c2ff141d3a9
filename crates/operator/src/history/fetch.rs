//! Reads the recording of a workload from Prometheus.

use std::collections::BTreeMap;
use std::time::Duration;

use homeostat_autoscaler::api::{Goal, Plan};
use homeostat_autoscaler::history::{Recording, Sample};
use homeostat_autoscaler::measure::{Problem, Reading, Source};
use homeostat_autoscaler::recommend::{ContainerInputs, PodInputs};
use homeostat_autoscaler::workload::{ContainerRecord, PodRecord, Workload};
use homeostat_core::{Bytes, Millicores, SimDuration, SimTime};

use super::queries::{Queries, filled, names_pods, pods_pattern};
use crate::measure::{LabelledSeries, Prometheus};

/// Samples per query: servers refuse more than 11000, and smaller parts show progress.
const SAMPLES_PER_QUERY: u64 = 2880;

/// The minimum window of rates: it has to contain two scrapes at an interval of a minute.
const MIN_WINDOW: SimDuration = SimDuration::from_secs(180);

/// The part of the history to read.
pub struct Past<'a> {
    /// The server.
    pub prometheus: &'a Prometheus,
    /// The queries.
    pub queries: &'a Queries,
    /// Start.
    pub from: SimTime,
    /// End.
    pub to: SimTime,
    /// Time between two samples.
    pub step: SimDuration,
}

/// Why there is no recording.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FetchError {
    /// A query failed.
    #[error("{problem}; the query was {query}")]
    Problem {
        /// The query.
        query: String,
        /// What is wrong.
        problem: Problem,
    },
    /// There is no series of the CPU usage.
    #[error(
        "Prometheus has no CPU usage of the pods of {workload}; the query was {query}; is the \
         kubelets' /metrics/cadvisor scraped, with the labels namespace, pod and container?"
    )]
    NoData {
        /// The workload.
        workload: String,
        /// The query.
        query: String,
    },
}

/// Reads the recording of a workload. It calls `progress` with the number of finished parts and of all
/// parts.
pub async fn fetch(
    past: &Past<'_>,
    plan: &Plan,
    workload: &Workload,
    pods: &[PodRecord],
    mut progress: impl FnMut(u64, u64),
) -> Result<Recording, FetchError> {
    let Past { to, step, .. } = *past;
    // Aligned to steps, so that the same query gets the same answer a second later.
    let from = SimTime::from_nanos(past.from.nanos() / step.nanos().max(1) * step.nanos());
    let steps = to.saturating_since(from).nanos() / step.nanos().max(1);
    let parts = (steps + 1).div_ceil(SAMPLES_PER_QUERY);
    let names: Vec<String> = pods.iter().map(|pod| pod.name.clone()).collect();
    let queries = FilledQueries::new(past, plan, workload, &names);
    let mut table = Table { grid: Grid { from, step }, ..Table::default() };
    for part in 0..parts {
        let first = part * SAMPLES_PER_QUERY;
        let last = (first + SAMPLES_PER_QUERY - 1).min(steps);
        queries.read_part(past, &mut table, from + step * first, from + step * last).await?;
        progress(part + 1, parts);
    }
    if table.cpu.is_empty() {
        let workload = workload.to_string();
        return Err(FetchError::NoData { workload, query: queries.cpu });
    }
    Ok(table.recording(steps, workload, pods))
}

/// The queries of one workload, without placeholders.
struct FilledQueries {
    cpu: String,
    memory: String,
    cpu_requests: String,
    memory_requests: String,
    objective: Option<String>,
    queries: Vec<String>,
    load: Vec<String>,
}

impl FilledQueries {
    fn new(past: &Past<'_>, plan: &Plan, workload: &Workload, pods: &[String]) -> Self {
        let pattern = pods_pattern(&workload.target, pods);
        let window = format!("{}s", past.step.max(MIN_WINDOW).seconds().ceil());
        let places = [
            ("$namespace", &workload.namespace[..]),
            ("$workload", &workload.target.name[..]),
            ("$pods", &pattern[..]),
            ("$window", &window[..]),
        ];
        let fill = |query: &str| filled(query, &places);
        let goal = plan.goal.as_ref().map(|goal| match goal {
            Goal::Latency { query, .. } | Goal::Throughput { query, .. } => fill(query),
        });
        Self {
            cpu: fill(&past.queries.cpu),
            memory: fill(&past.queries.memory),
            cpu_requests: fill(&past.queries.cpu_requests),
            memory_requests: fill(&past.queries.memory_requests),
            objective: goal,
            queries: plan.query_metrics.iter().map(|(query, _)| fill(query)).collect(),
            load: plan.load.queries().map(fill).collect(),
        }
    }

    async fn read_part(
        &self,
        past: &Past<'_>,
        table: &mut Table,
        from: SimTime,
        to: SimTime,
    ) -> Result<(), FetchError> {
        let step = Duration::from_nanos(past.step.nanos());
        let ask = async |query: &str| {
            let answer = past.prometheus.range_by_labels(query, from, to, step).await;
            answer.map_err(|problem| FetchError::Problem { query: query.to_owned(), problem })
        };
        let grid = table.grid;
        grid.add_by_container(&mut table.cpu, ask(&self.cpu).await?);
        grid.add_by_container(&mut table.memory, ask(&self.memory).await?);
        grid.add_by_container(&mut table.cpu_requests, ask(&self.cpu_requests).await?);
        grid.add_by_container(&mut table.memory_requests, ask(&self.memory_requests).await?);
        let one = async |query: &str| match past.prometheus.range(query, from, to, step).await {
            // No data in one part is a gap.
            Err(Problem::Missing { .. }) => Ok(Vec::new()),
            answer => {
                answer.map_err(|problem| FetchError::Problem { query: query.to_owned(), problem })
            }
        };
        if let Some(query) = &self.objective {
            let figures = one(query).await?;
            table.objective.extend(figures.iter().filter_map(|point| grid.locate(point)));
        }
        for (queries, into) in [(&self.queries, &mut table.queries), (&self.load, &mut table.load)]
        {
            into.resize(queries.len(), BTreeMap::new());
            for (query, into) in queries.iter().zip(into) {
                let figures = one(query).await?;
                into.extend(figures.iter().filter_map(|point| grid.locate(point)));
            }
        }
        Ok(())
    }
}

/// Values by the index of their sample.
type Figures = BTreeMap<u64, f64>;
/// By pod and container.
type ByContainer = BTreeMap<(String, String), Figures>;

/// The times of the samples.
#[derive(Clone, Copy, Default)]
struct Grid {
    from: SimTime,
    step: SimDuration,
}

#[derive(Default)]
struct Table {
    grid: Grid,
    cpu: ByContainer,
    memory: ByContainer,
    cpu_requests: ByContainer,
    memory_requests: ByContainer,
    objective: Figures,
    queries: Vec<Figures>,
    load: Vec<Figures>,
}

impl Grid {
    /// The index of the sample that is nearest to a point, since times are returned as fractions of
    /// seconds; none if its value is not a valid amount.
    fn locate(self, (at, figure): &(SimTime, f64)) -> Option<(u64, f64)> {
        let elapsed = at.nanos() as f64 - self.from.nanos() as f64;
        let steps = elapsed / self.step.nanos().max(1) as f64;
        let is_amount = figure.is_finite() && *figure >= 0.0;
        (is_amount && steps > -0.5).then_some((steps.round() as u64, *figure))
    }

    fn add_by_container(self, into: &mut ByContainer, all: Vec<LabelledSeries>) {
        for LabelledSeries { mut labels, points } in all {
            let mut label = |name: &str| labels.remove(name).unwrap_or_default();
            let key = (label("pod"), label("container"));
            let figures = points.iter().filter_map(|point| self.locate(point));
            into.entry(key).or_default().extend(figures);
        }
    }
}

impl Table {
    fn at(&self, index: u64) -> SimTime {
        self.grid.from + self.grid.step * index
    }

    fn recording(&self, steps: u64, workload: &Workload, pods: &[PodRecord]) -> Recording {
        let mut names: Vec<&String> = self.cpu.keys().map(|(pod, _)| pod).collect();
        names.dedup();
        let started: BTreeMap<&str, SimTime> =
            names.iter().map(|name| (&name[..], self.started(name, pods))).collect();
        let containers: BTreeMap<&str, Vec<&ContainerRecord>> =
            names.iter().map(|name| (&name[..], self.containers(name, workload))).collect();
        let is_used = |requests: &ByContainer| {
            requests.keys().any(|(pod, _)| started.contains_key(pod.as_str()))
        };
        let mut assumed = Vec::new();
        if !is_used(&self.cpu_requests) {
            assumed.push(
                "Prometheus has no past requests (kube-state-metrics): the current requests are used"
                    .to_owned(),
            );
        }
        if !names_pods(&workload.target) {
            assumed.push(format!(
                "it is not known how a {} names its pods: only current pods are included, and there \
                 may have been more",
                workload.target.kind
            ));
        }
        let samples = (0..=steps).map(|index| {
            let pod =
                |name: &&String| self.pod(name, started[&name[..]], index, &containers[&name[..]]);
            let at_index = |figures: &Figures| figures.get(&index).copied();
            Sample {
                at: self.at(index),
                pods: names.iter().filter_map(pod).collect(),
                objective: self.objective.get(&index).copied(),
                queries: self.queries.iter().map(at_index).collect(),
                load: self.load.iter().map(at_index).collect(),
            }
        });
        Recording { step: self.grid.step, samples: samples.collect(), assumed }
    }

    /// When a pod started: according to the cluster, or at its first sample if that was earlier. In a
    /// StatefulSet, a new pod has the name of the one before it.
    fn started(&self, name: &str, pods: &[PodRecord]) -> SimTime {
        let known = pods.iter().find(|pod| pod.name == name).map(|pod| pod.started);
        let seen = self.cpu.iter().filter(|((pod, _), _)| pod == name);
        let seen = seen.filter_map(|(_, figures)| figures.keys().next().copied()).min();
        let seen = seen.map(|index| self.at(index));
        known.into_iter().chain(seen).min().unwrap_or(SimTime::ZERO)
    }

    /// The containers of a pod. Containers that were added to the template later are left out.
    fn containers<'a>(&self, name: &str, workload: &'a Workload) -> Vec<&'a ContainerRecord> {
        let had = |record: &&ContainerRecord| {
            let key = (name.to_owned(), record.name.clone());
            let all = [&self.cpu, &self.memory, &self.cpu_requests, &self.memory_requests];
            all.iter().any(|figures| figures.contains_key(&key))
        };
        workload.containers.iter().filter(had).collect()
    }

    /// A pod in a sample; none if it did not run then.
    fn pod(
        &self,
        name: &str,
        started: SimTime,
        index: u64,
        containers: &[&ContainerRecord],
    ) -> Option<PodInputs> {
        let at = self.at(index);
        let container = |record: &&ContainerRecord| {
            let key = (name.to_owned(), record.name.clone());
            let figure =
                |of: &ByContainer| of.get(&key).and_then(|figures| figures.get(&index)).copied();
            let reading = |value| Reading { value, at, source: Source::Prometheus };
            let cpu_request =
                figure(&self.cpu_requests).and_then(|cpu| Millicores::from_cores(cpu).ok());
            let memory_request =
                figure(&self.memory_requests).map(|bytes| Bytes::new(bytes as u64));
            ContainerInputs {
                name: record.name.clone(),
                cpu_request: cpu_request.or(record.cpu_request).unwrap_or_default(),
                memory_request: memory_request.or(record.memory_request).unwrap_or_default(),
                cpu: figure(&self.cpu).map(reading),
                memory: figure(&self.memory).map(reading),
            }
        };
        let containers: Vec<ContainerInputs> = containers.iter().map(container).collect();
        let runs = containers.iter().any(|container| container.cpu.is_some());
        runs.then(|| PodInputs {
            name: name.to_owned(),
            started,
            is_ready: true,
            served_throughout: None,
            containers,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use homeostat_autoscaler::api::ScaleTargetRef;
    use homeostat_autoscaler::workload::read_selector;

    #[test]
    fn a_pod_with_the_name_of_an_earlier_one_started_with_that_one() {
        let figures = (("db-0".to_owned(), "app".to_owned()), Figures::from([(0, 0.1)]));
        let table = Table { cpu: ByContainer::from([figures]), ..Table::default() };
        let now = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "db-0", "creationTimestamp": "2026-11-01T10:00:00Z"},
            "spec": {"containers": []}, "status": {"phase": "Running"},
        }));
        let now = homeostat_autoscaler::workload::record(&now.expect("valid")).expect("it runs");
        assert_eq!(table.started("db-0", std::slice::from_ref(&now)), table.at(0));
        assert_eq!(
            table.started("db-1", &[PodRecord { name: "db-1".to_owned(), ..now.clone() }]),
            now.started
        );
    }

    #[test]
    fn a_container_that_was_added_later_is_not_part_of_an_earlier_pod() {
        let figures = |pod: &str, container: &str| {
            ((pod.to_owned(), container.to_owned()), Figures::from([(0, 0.1)]))
        };
        let cpu = [figures("old", "app"), figures("new", "app"), figures("new", "proxy")];
        let step = SimDuration::from_secs(60);
        let grid = Grid { step, ..Grid::default() };
        let table = Table { grid, cpu: ByContainer::from(cpu), ..Table::default() };
        let container = |name: &str| ContainerRecord {
            name: name.to_owned(),
            cpu_request: Some(Millicores::new(100)),
            memory_request: None,
            cpu_limit: None,
            memory_limit: None,
            oom_killed_at: None,
        };
        let workload = Workload {
            namespace: "shop".to_owned(),
            target: ScaleTargetRef {
                api_version: "apps/v1".to_owned(),
                kind: "Deployment".to_owned(),
                name: "checkout".to_owned(),
            },
            replicas: 2,
            selector: read_selector("app=checkout").expect("a selector"),
            containers: vec![container("app"), container("proxy")],
        };
        let names = |pod: &str| {
            let containers = table.containers(pod, &workload);
            let pod = table.pod(pod, SimTime::ZERO, 0, &containers).expect("it ran");
            pod.containers.into_iter().map(|container| container.name).collect::<Vec<_>>()
        };
        assert_eq!(names("old"), ["app"]);
        assert_eq!(names("new"), ["app", "proxy"]);
    }
}
