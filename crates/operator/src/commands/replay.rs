//! `replay`: replays the recorded history of a workload.

use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use homeostat_core::{SimDuration, SimTime};
use homeostat_operator::cli_output::{json, replay_json, replay_text};
use homeostat_operator::cluster::pods_of_workload;
use homeostat_operator::controllers::now;
use homeostat_operator::history::{Past, fetch, replay};

use super::named::Cluster;
use super::progress::Progress;
use super::prometheus::{PrometheusArguments, QueryArguments, time};
use super::wanted::WantedArguments;

/// Arguments of `replay`.
#[derive(Args)]
#[command(after_long_help = "The replay is open loop. The recorded CPU work is divided among the \
pods that there would have been; the latency that they would have had was not observed. The SLO counts \
as met where it was met with no more CPU than there would have been, as violated where it was violated \
with no less, and as unknown elsewhere. The samples in which the recorded usage exceeds the requests \
show the risk.

The table compares what happened with this autoscaler, with HPA alone at the recorded sizes, and with \
VPA alone at the recorded number of pods.

Examples:
  homeostat replay --prometheus http://localhost:9090 --last 7d deploy/checkout -n shop
  homeostat replay --prometheus http://localhost:9090 --last 7d mpa/checkout     SLO and bounds of an object
  homeostat replay --prometheus http://localhost:9090 --last 2d --step 30s deploy/checkout \\
      --min-replicas 2 --max-replicas 20 --cpu-target 60 --output json

For a recorded simulation use homeostat replay RUN --policy POLICY.")]
pub(crate) struct ReplayArguments {
    /// The workload, such as deploy/checkout, sts/db, rs/worker, or mpa/checkout for the target,
    /// SLO, bounds and recommender of an object.
    #[arg(value_name = "WORKLOAD")]
    workload: String,
    /// Its namespace; that of the current context by default.
    #[arg(long, short)]
    namespace: Option<String>,
    /// How much history is replayed.
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = time)]
    last: SimDuration,
    #[command(flatten)]
    prometheus: PrometheusArguments,
    #[command(flatten)]
    queries: QueryArguments,
    /// How many of the last changes are shown. JSON has all of them.
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    changes: usize,
    /// A table for people, or JSON for programs.
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    wanted: WantedArguments,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Json,
}

pub(super) async fn run(arguments: &ReplayArguments) -> anyhow::Result<()> {
    let prometheus = arguments.prometheus.server(Duration::from_secs(60), None)?;
    let prometheus =
        prometheus.context("the history comes from Prometheus: give --prometheus URL")?;
    let client = super::client().await?;
    let namespace = arguments.namespace.clone();
    let namespace = namespace.unwrap_or_else(|| client.default_namespace().to_owned());
    let cluster = Cluster::of(&client, Some(&namespace)).await?;
    let named = cluster.named(&arguments.workload, &arguments.wanted.workload_spec()).await?;
    let pods = pods_of_workload(&named.workload, &cluster.pods);
    let queries = arguments.queries.queries();
    let to = now();
    let from = SimTime::from_nanos(to.nanos().saturating_sub(arguments.last.nanos()));
    let step = arguments.queries.step;
    let past = Past { prometheus: &prometheus, queries: &queries, from, to, step };
    let mut progress = Progress::new("parts of the history read", 0);
    let report = |done, parts| progress.set(done, parts);
    let mut recording = fetch(&past, &named.plan, &named.workload, &pods, report).await?;
    recording.assume_recommender(&named.plan);
    recording.assume_missing_requests(&named.workload.containers);
    let played = replay(&named.plan, &recording)?;
    let text = match arguments.output {
        Output::Table => {
            replay_text(&named.workload, &named.plan, &recording, &played, arguments.changes)
        }
        Output::Json => {
            json(&replay_json(&named.workload, &named.plan, &recording, &played))? + "\n"
        }
    };
    print!("{text}");
    Ok(())
}
