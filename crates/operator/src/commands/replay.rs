//! `replay`: what would have been.

use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use homeostat_core::{SimDuration, SimTime};
use homeostat_operator::cluster::pods_of_workload;
use homeostat_operator::controllers::now;
use homeostat_operator::history::{Past, fetch, replay};
use homeostat_operator::people::{json, replay_json, replay_text};

use super::named::Cluster;
use super::progress::Progress;
use super::prometheus::{PrometheusArguments, QueryArguments, time};
use super::wanted::WantedArguments;

/// Arguments of `replay`.
#[derive(Args)]
#[command(after_long_help = "The replay is open loop. The CPU work that was recorded is spread \
over the pods that would have been there; nobody observed the latency that this would have had. \
The objective counts as kept where it was kept with no more CPU than would have been there, as \
broken where it was broken with no less, and as unknown elsewhere. The moments at which recorded \
use exceeds the requests are counted instead: CPU of all pods together, memory of the largest pod.

Beside what happened stand what this autoscaler would have done, what HPA alone would have done \
with the recorded sizes, and what VPA alone would have done with the recorded number.

Examples:
  homeostat replay --prometheus http://localhost:9090 --last 7d deploy/checkout -n shop
  homeostat replay --prometheus http://localhost:9090 --last 7d mpa/checkout     an object's own
  homeostat replay --prometheus http://localhost:9090 --last 2d --step 30s deploy/checkout \\
      --min-replicas 2 --max-replicas 20 --cpu-target 60 --output json

A recorded simulation is played again by homeostat replay RUN --policy POLICY.")]
pub(crate) struct ReplayArguments {
    /// The workload, such as deploy/checkout, sts/db, rs/worker, or mpa/checkout for the target,
    /// objective, bounds and recommender of an object.
    #[arg(value_name = "WORKLOAD")]
    workload: String,
    /// Its namespace; that of the current context if it is left out.
    #[arg(long, short)]
    namespace: Option<String>,
    /// How much of the past is played.
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = time)]
    last: SimDuration,
    #[command(flatten)]
    prometheus: PrometheusArguments,
    #[command(flatten)]
    queries: QueryArguments,
    /// How many of the changes are shown, the last ones. JSON has all of them.
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
    let prometheus = prometheus.context("history comes from Prometheus: give --prometheus URL")?;
    let client = super::client().await?;
    let namespace = arguments.namespace.clone();
    let namespace = namespace.unwrap_or_else(|| client.default_namespace().to_owned());
    let cluster = Cluster::of(&client, Some(&namespace)).await?;
    let named = cluster.named(&arguments.workload, &arguments.wanted.wishes()).await?;
    let pods = pods_of_workload(&named.workload, &cluster.pods);
    let queries = arguments.queries.queries();
    let to = now();
    let from = SimTime::from_nanos(to.nanos().saturating_sub(arguments.last.nanos()));
    let step = arguments.queries.step;
    let past = Past { prometheus: &prometheus, queries: &queries, from, to, step };
    let mut progress = Progress::new("parts of the history read", 0);
    let told = |done, parts| progress.set(done, parts);
    let mut recording = fetch(&past, &named.plan, &named.workload, &pods, told).await?;
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
