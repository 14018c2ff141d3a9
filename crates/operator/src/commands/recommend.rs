//! `recommend`: recommends once for workloads.

use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use homeostat_autoscaler::history::{Recording, Sample, advise};
use homeostat_autoscaler::measure::{PodUse, Source};
use homeostat_autoscaler::recommend::PodInputs;
use homeostat_autoscaler::workload::{PodRecord, pods_of_workload};
use homeostat_core::SimDuration;
use homeostat_operator::cli_output::{Advised, advice_json, advice_patches, advice_table, json};
use homeostat_operator::controllers::now;
use homeostat_operator::history::{Past, Queries, fetch};
use homeostat_operator::measure::{Prometheus, pod_metrics};

use super::named::{Cluster, Named};
use super::progress::Progress;
use super::prometheus::{PrometheusArguments, QueryArguments, time};
use super::wanted::WantedArguments;

/// Arguments of `recommend`.
#[derive(Args)]
#[command(
    after_long_help = "Nothing needs to be installed in the cluster, and nothing is changed \
there. Without --prometheus the metrics server is used, which knows only the current usage; with it, \
days of history are replayed through the engine of the operator, and the recommended number of pods is \
the one that was enough in 99% of the samples.

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
    /// SLO and bounds of an object; every workload by default.
    #[arg(value_name = "WORKLOAD")]
    workload: Option<String>,
    /// Its namespace; that of the current context by default.
    #[arg(long, short)]
    namespace: Option<String>,
    /// Every workload of every namespace.
    #[arg(long, short = 'A', conflicts_with_all = ["namespace", "workload"])]
    all_namespaces: bool,
    /// How much history is read from Prometheus.
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
    let spec = arguments.wanted.workload_spec();
    anyhow::ensure!(
        prometheus.is_some() || spec.goal.is_none(),
        "an SLO is measured by Prometheus: give --prometheus URL as well"
    );
    let cluster = Cluster::of(&client, namespace.as_deref()).await?;
    let all = match &arguments.workload {
        Some(name) => vec![cluster.named(name, &spec).await?],
        None => cluster.all(&spec)?,
    };
    if all.is_empty() {
        let place = namespace.as_deref().unwrap_or("any namespace");
        anyhow::bail!(
            "there is no Deployment, StatefulSet or ReplicaSet in {place}; see -n and -A"
        );
    }
    let sources = match &prometheus {
        Some(prometheus) => Sources::Prometheus(prometheus, arguments.queries.queries(), arguments),
        None => {
            let metrics = pod_metrics(&client, namespace.as_deref()).await;
            Sources::MetricsApi(metrics.map_err(|problem| anyhow::anyhow!("{problem}")).context(
                "the usage of pods is not known: install the metrics server, or use a Prometheus \
                 with --prometheus URL",
            )?)
        }
    };
    let mut progress = Progress::new("workloads", all.len() as u64);
    let mut advised = Vec::new();
    for named in all {
        let pods = pods_of_workload(&named.workload, &cluster.pods);
        let advice = advise_one(&sources, &named, &pods).await?;
        progress.step();
        advised.push(Advised { workload: named.workload, hpa: named.hpa, advice });
    }
    let text = match arguments.output {
        Output::Table => advice_table(&advised),
        Output::Json => json(&advice_json(&advised, &sources.name()))? + "\n",
        Output::Patches => advice_patches(&advised),
    };
    print!("{text}");
    if matches!(sources, Sources::MetricsApi(_)) {
        eprintln!(
            "note: metrics.k8s.io knows only the current usage, so this is a guess: sizes are not \
             reduced, and peaks at other times are not known; --prometheus URL uses days of history"
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

/// The recommendation for one workload. A problem of the workload is its result; a server that does
/// not answer is an error of the command.
async fn advise_one(
    sources: &Sources<'_>,
    named: &Named,
    pods: &[PodRecord],
) -> anyhow::Result<Result<homeostat_autoscaler::history::Advice, String>> {
    use homeostat_operator::history::FetchError;
    let workload = &named.workload;
    if workload.replicas == 0 {
        return Ok(Err("it is scaled to 0: there are no pods to measure".to_owned()));
    }
    let mut recording = match sources {
        Sources::MetricsApi(metrics) => one_sample(workload.namespace.as_str(), pods, metrics),
        Sources::Prometheus(prometheus, queries, arguments) => {
            let to = now();
            let from = homeostat_core::SimTime::from_nanos(
                to.nanos().saturating_sub(arguments.history.nanos()),
            );
            let step = arguments.queries.step;
            let past = Past { prometheus, queries, from, to, step };
            match fetch(&past, &named.plan, workload, pods, |_, _| ()).await {
                Ok(recording) => recording,
                Err(error @ FetchError::NoData { .. }) => return Ok(Err(error.to_string())),
                Err(error) => return Err(error.into()),
            }
        }
    };
    let advice = advise(&named.plan, &mut recording, workload.replicas, &workload.containers)?;
    Ok(advice.ok_or_else(|| "it has no pods to measure".to_owned()))
}

/// A recording of the current usage, from the metrics API.
fn one_sample(namespace: &str, pods: &[PodRecord], metrics: &[PodUse]) -> Recording {
    let pod = |pod: &PodRecord| {
        let used = metrics.iter().find(|used| used.namespace == namespace && used.name == pod.name);
        PodInputs::measured(pod, used)
    };
    let pods = pods.iter().map(pod).collect();
    let sample = Sample { at: now(), pods, objective: None, queries: Vec::new(), load: Vec::new() };
    Recording { step: SimDuration::from_secs(15), samples: vec![sample], assumed: Vec::new() }
}
