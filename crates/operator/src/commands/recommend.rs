//! `recommend`: what workloads should have, in one shot.

use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use homeostat_core::SimDuration;
use homeostat_operator::cluster::{PodRecord, pods_of_workload};
use homeostat_operator::controllers::now;
use homeostat_operator::history::{Moment, Past, Queries, Recording, advise, fetch};
use homeostat_operator::measure::{PodUse, Prometheus, Source, pod_metrics};
use homeostat_operator::people::{Advised, advice_json, advice_patches, advice_table, json};
use homeostat_operator::recommend::PodInputs;

use super::named::{Cluster, Named};
use super::progress::Progress;
use super::prometheus::{PrometheusArguments, QueryArguments, time};
use super::wanted::WantedArguments;

/// Arguments of `recommend`.
#[derive(Args)]
#[command(
    after_long_help = "Nothing needs to be installed in the cluster, and nothing is changed \
there. Without --prometheus the metrics server is asked, which knows one moment only; with it \
days of history are played through the same engine that the operator runs, and the number of \
pods is the one that was enough at 99% of the moments.

Examples:
  homeostat recommend                                    every workload of the current namespace
  homeostat recommend -A --prometheus http://localhost:9090 --history 8d
  homeostat recommend deploy/checkout -n shop --prometheus http://localhost:9090 \\
      --latency 250ms --latency-query 'histogram_quantile(0.99, sum by (le) \\
      (rate(http_request_seconds_bucket{namespace=\"$namespace\",app=\"$workload\"}[1m])))'
  homeostat recommend -n shop --output patches > patches.yaml     for a repository; or
  kubectl patch deploy/checkout -n shop --patch-file checkout.yaml"
)]
pub(crate) struct RecommendArguments {
    /// The workload, such as deploy/checkout, sts/db, rs/worker, or mpa/checkout for the target,
    /// objective and bounds of an object; every workload if it is left out.
    #[arg(value_name = "WORKLOAD")]
    workload: Option<String>,
    /// Its namespace; that of the current context if it is left out.
    #[arg(long, short)]
    namespace: Option<String>,
    /// Every workload of every namespace.
    #[arg(long, short = 'A', conflicts_with_all = ["namespace", "workload"])]
    all_namespaces: bool,
    /// How far back Prometheus is asked.
    #[arg(long, value_name = "TIME", default_value = "8d", value_parser = time)]
    history: SimDuration,
    #[command(flatten)]
    prometheus: PrometheusArguments,
    #[command(flatten)]
    queries: QueryArguments,
    /// A table for people, JSON for programs, or strategic merge patches as YAML, one document
    /// for each workload that should change.
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    wanted: WantedArguments,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Json,
    Patches,
}

pub(super) async fn run(arguments: &RecommendArguments) -> anyhow::Result<()> {
    let client = super::client().await?;
    let namespace = match (&arguments.namespace, arguments.all_namespaces) {
        (_, true) => None,
        (Some(namespace), false) => Some(namespace.clone()),
        (None, false) => Some(client.default_namespace().to_owned()),
    };
    let prometheus = arguments.prometheus.server(Duration::from_secs(60), None)?;
    let wishes = arguments.wanted.wishes();
    anyhow::ensure!(
        prometheus.is_some() || wishes.goal.is_none(),
        "an objective is measured by Prometheus: give --prometheus URL as well"
    );
    let cluster = Cluster::of(&client, namespace.as_deref()).await?;
    let all = match &arguments.workload {
        Some(name) => vec![cluster.named(name, &wishes).await?],
        None => cluster.all(&wishes)?,
    };
    if all.is_empty() {
        let place = namespace.as_deref().unwrap_or("any namespace");
        anyhow::bail!(
            "there is no Deployment, StatefulSet or ReplicaSet in {place}; see -n and -A"
        );
    }
    let known = match &prometheus {
        Some(prometheus) => Sources::Prometheus(prometheus, arguments.queries.queries(), arguments),
        None => {
            let metrics = pod_metrics(&client, namespace.as_deref()).await;
            Sources::MetricsApi(metrics.map_err(|problem| anyhow::anyhow!("{problem}")).context(
                "no use of pods is known: is the metrics server installed? or ask a Prometheus \
                 with --prometheus URL",
            )?)
        }
    };
    let mut progress = Progress::new("workloads", all.len() as u64);
    let mut advised = Vec::new();
    for named in all {
        let pods = pods_of_workload(&named.workload, &cluster.pods);
        let advice = advise_one(&known, &named, &pods).await?;
        progress.step();
        advised.push(Advised { workload: named.workload, hpa: named.hpa, advice });
    }
    let text = match arguments.output {
        Output::Table => advice_table(&advised),
        Output::Json => json(&advice_json(&advised, &known.name()))? + "\n",
        Output::Patches => advice_patches(&advised),
    };
    print!("{text}");
    if matches!(known, Sources::MetricsApi(_)) {
        eprintln!(
            "note: metrics.k8s.io knows one moment only, so this is a guess: sizes are not taken \
             down on it, and a peak at another hour is not seen; --prometheus URL knows days"
        );
    }
    Ok(())
}

enum Sources<'a> {
    Prometheus(&'a Prometheus, Queries, &'a RecommendArguments),
    MetricsApi(Vec<PodUse>),
}

impl Sources<'_> {
    fn name(&self) -> String {
        match self {
            Self::Prometheus(..) => Source::Prometheus.to_string(),
            Self::MetricsApi(_) => Source::MetricsApi.to_string(),
        }
    }
}

/// What one workload should have. What is wrong with one workload is said of it; a server that
/// does not answer ends everything.
async fn advise_one(
    known: &Sources<'_>,
    named: &Named,
    pods: &[PodRecord],
) -> anyhow::Result<Result<homeostat_operator::history::Advice, String>> {
    use homeostat_operator::history::FetchError;
    let workload = &named.workload;
    if workload.replicas == 0 {
        return Ok(Err("it is scaled to 0: nothing runs that could be measured".to_owned()));
    }
    let mut recording = match known {
        Sources::MetricsApi(metrics) => one_moment(workload.namespace.as_str(), pods, metrics),
        Sources::Prometheus(prometheus, queries, arguments) => {
            let to = now();
            let from = homeostat_core::SimTime::from_nanos(
                to.nanos().saturating_sub(arguments.history.nanos()),
            );
            let step = arguments.queries.step;
            let past = Past { prometheus, queries, from, to, step };
            match fetch(&past, &named.plan, workload, pods, |_, _| ()).await {
                Ok(recording) => recording,
                Err(error @ FetchError::NothingKnown { .. }) => return Ok(Err(error.to_string())),
                Err(error) => return Err(error.into()),
            }
        }
    };
    let present = (workload.replicas, &workload.containers[..]);
    let advice = advise(&named.plan, &mut recording, present)?;
    Ok(advice.ok_or_else(|| "it has no pods that could be measured".to_owned()))
}

/// A recording of one moment: what the metrics API knows.
fn one_moment(namespace: &str, pods: &[PodRecord], metrics: &[PodUse]) -> Recording {
    let pod = |pod: &PodRecord| {
        let used = metrics.iter().find(|used| used.namespace == namespace && used.name == pod.name);
        PodInputs::measured(pod, used)
    };
    let pods = pods.iter().map(pod).collect();
    let moment = Moment { at: now(), pods, objective: None, queries: Vec::new() };
    Recording { step: SimDuration::from_secs(15), moments: vec![moment], assumed: Vec::new() }
}
