//! What is measured of a workload: usage from the metrics API, answers of Prometheus.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use homeostat_autoscaler::api::{Goal, Plan};
use homeostat_autoscaler::measure::{PodUse, Problem, Reading, Source, limited};
use homeostat_autoscaler::recommend::{Inputs, LoadInputs, PodInputs};
use homeostat_core::{SimDuration, SimTime};
use homeostat_decide::TeamState;

use super::context::Context;
use super::resolved_target::ResolvedTarget;
use crate::measure::pod_metrics;

/// Usage of pods from the metrics API, or why it could not be read.
#[derive(Debug, Default)]
pub(super) struct Usage {
    pods: BTreeMap<(String, String), PodUse>,
    problem: Option<Problem>,
}

/// With more namespaces than this, one request for the whole cluster is cheaper than one for each.
const MAX_SINGLE_NAMESPACES: usize = 4;

/// The metrics API counts as unreachable after this time.
const MAX_TIME: Duration = Duration::from_secs(15);

impl Usage {
    /// Reads the usage of the pods of some namespaces.
    pub(super) async fn of(ctx: &Context, namespaces: &BTreeSet<String>) -> Self {
        let mut usage = Self::default();
        let requests: Vec<Option<&str>> = if namespaces.len() > MAX_SINGLE_NAMESPACES {
            vec![None]
        } else {
            namespaces.iter().map(|namespace| Some(namespace.as_str())).collect()
        };
        for namespace in requests {
            let request = tokio::time::timeout(MAX_TIME, pod_metrics(&ctx.client, namespace));
            let unreachable = |_| {
                let why = format!("no answer within {} s", MAX_TIME.as_secs());
                Err(Problem::Unreachable { source: Source::MetricsApi, why })
            };
            match request.await.unwrap_or_else(unreachable) {
                Ok(pods) => {
                    let key = |pod: &PodUse| (pod.namespace.clone(), pod.name.clone());
                    usage.pods.extend(pods.into_iter().map(|pod| (key(&pod), pod)));
                }
                Err(problem) => usage.problem = Some(problem),
            }
        }
        usage
    }
}

/// Everything that is measured of one workload.
pub(super) struct Measurements<'a> {
    pub(super) namespace: &'a str,
    pub(super) target: &'a ResolvedTarget,
    pub(super) usage: &'a Usage,
    pub(super) answers: Answers,
    /// The other members of its team.
    pub(super) team: Option<TeamState>,
    /// New out-of-memory kills, by container name.
    pub(super) oom_kills: BTreeMap<String, u32>,
    pub(super) now: SimTime,
}

impl Measurements<'_> {
    /// The inputs of a recommender with this interval.
    pub(super) fn inputs(self, interval: Duration) -> Inputs {
        let pods = self.target.pods.iter().filter(|pod| !pod.is_leaving).map(|pod| {
            let key = (self.namespace.to_owned(), pod.name.clone());
            PodInputs::measured(pod, self.usage.pods.get(&key))
        });
        Inputs {
            now: self.now,
            window: SimDuration::from_secs(interval.as_secs().max(1)),
            replicas: self.target.scaled.replicas,
            pods: pods.collect(),
            oom_kills: self.oom_kills,
            use_problem: self.usage.problem.clone(),
            objective: self.answers.objective,
            queries: self.answers.queries,
            load: self.answers.load,
            team: self.team,
        }
    }
}

/// Answers of the Prometheus server.
#[derive(Default)]
pub(super) struct Answers {
    objective: Option<Result<Reading, Problem>>,
    queries: Vec<Result<Reading, Problem>>,
    load: LoadInputs,
}

/// Sends all queries of an object's plan concurrently.
pub(super) async fn ask_all(ctx: &Context, namespace: &str, plan: &Plan) -> Answers {
    let goal = plan.goal.as_ref().map(|goal| match goal {
        Goal::Latency { query, .. } | Goal::Throughput { query, .. } => query.as_str(),
    });
    let queries = plan.query_metrics.iter().map(|(query, _)| &query[..]);
    let queries = goal.into_iter().chain(queries).chain(plan.load.queries());
    let answers = queries.map(|query| ask_one(ctx, namespace, query));
    let mut answers = futures::future::join_all(answers).await.into_iter();
    let objective = goal.and_then(|_| answers.next());
    let queries = answers.by_ref().take(plan.query_metrics.len()).collect();
    Answers { objective, queries, load: LoadInputs::of_answers(&plan.load, answers) }
}

/// Sends one query of an object in this namespace, when a permit is free.
pub(super) async fn ask_one(
    ctx: &Context,
    namespace: &str,
    query: &str,
) -> Result<Reading, Problem> {
    let Some(prometheus) = &ctx.options.prometheus else {
        return Err(Problem::Unreachable {
            source: Source::Prometheus,
            why: "no server is known: start the operator with --prometheus URL".to_owned(),
        });
    };
    let query = match &ctx.options.namespace_label {
        Some(label) => limited(query, label, namespace).map_err(|why| Problem::Unreachable {
            source: Source::Prometheus,
            why: why.to_string(),
        })?,
        None => query.to_owned(),
    };
    let _permit = ctx.prometheus_permit().await;
    prometheus.instant(&query).await
}
