//! Everything that is known of a workload at one moment, from the caches and the servers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use homeostat_core::{SimDuration, SimTime};

use super::context::Context;
use crate::api::{Goal, Plan};
use crate::cluster::{PodRecord, Scaled};
use crate::measure::{PodUse, Problem, Reading, Source, pod_metrics};
use crate::recommend::{Inputs, PodInputs};

/// Use of pods at one moment: what the metrics API said, or why it did not.
#[derive(Debug, Default)]
pub(super) struct Usage {
    pods: BTreeMap<(String, String), PodUse>,
    problem: Option<Problem>,
}

/// From how many namespaces on one question for all of them is cheaper than one for each.
const NAMESPACES_ONE_BY_ONE: usize = 4;

/// What the metrics API does not answer in this time is silence.
const MOST_TIME: Duration = Duration::from_secs(15);

impl Usage {
    /// Asks for the use of the pods of some namespaces.
    pub(super) async fn of(ctx: &Context, namespaces: &BTreeSet<String>) -> Self {
        let mut usage = Self::default();
        let questions: Vec<Option<&str>> = if namespaces.len() > NAMESPACES_ONE_BY_ONE {
            vec![None]
        } else {
            namespaces.iter().map(|namespace| Some(namespace.as_str())).collect()
        };
        for namespace in questions {
            let asked = tokio::time::timeout(MOST_TIME, pod_metrics(&ctx.client, namespace));
            let silent = |_| {
                let why = format!("no answer within {} s", MOST_TIME.as_secs());
                Err(Problem::Unreachable { source: Source::MetricsApi, why })
            };
            match asked.await.unwrap_or_else(silent) {
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

/// Everything that is known of a workload now.
pub(super) fn gather(
    ctx: &Context,
    (namespace, scaled): (&str, &Scaled),
    pods: &[PodRecord],
    usage: &Usage,
    Answers { objective, queries }: Answers,
    (oom_kills, now): (BTreeMap<String, u32>, SimTime),
) -> Inputs {
    let pods = pods.iter().filter(|pod| !pod.is_leaving).map(|pod| {
        let key = (namespace.to_owned(), pod.name.clone());
        PodInputs::measured(pod, usage.pods.get(&key))
    });
    Inputs {
        now,
        window: SimDuration::from_secs(ctx.options.interval.as_secs().max(1)),
        replicas: scaled.replicas,
        pods: pods.collect(),
        oom_kills,
        use_problem: usage.problem.clone(),
        objective,
        queries,
    }
}

/// Answers of the Prometheus server.
#[derive(Default)]
pub(super) struct Answers {
    objective: Option<Result<Reading, Problem>>,
    queries: Vec<Result<Reading, Problem>>,
}

/// The answers to the plan's questions, all asked at once.
pub(super) async fn ask(ctx: &Context, plan: &Plan) -> Answers {
    let goal = plan.goal.as_ref().map(|goal| match goal {
        Goal::Latency { query, .. } | Goal::Throughput { query, .. } => query.as_str(),
    });
    let questions = goal.into_iter().chain(plan.query_metrics.iter().map(|(query, _)| &query[..]));
    let answers = questions.map(|query| ask_one(ctx, query));
    let mut answers = futures::future::join_all(answers).await;
    let objective = goal.is_some().then(|| answers.remove(0));
    Answers { objective, queries: answers }
}

/// Asks one question, in turn.
pub(super) async fn ask_one(ctx: &Context, query: &str) -> Result<Reading, Problem> {
    let Some(prometheus) = &ctx.options.prometheus else {
        return Err(Problem::Unreachable {
            source: Source::Prometheus,
            why: "no server is known: start the operator with --prometheus URL".to_owned(),
        });
    };
    let _turn = ctx.questions.acquire().await.expect("it is never closed");
    prometheus.instant(query).await
}
