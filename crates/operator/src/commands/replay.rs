//! `replay`: replays the recorded history of workloads.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use homeostat_autoscaler::api::{PolicyFileRef, Recommender};
use homeostat_autoscaler::history::{WorkloadHistory, replay};
use homeostat_autoscaler::learn::{Advice, ServedPolicy};
use homeostat_autoscaler::workload::pods_of_workload;
use homeostat_core::{SimDuration, SimTime};
use homeostat_operator::cli_output::{json, replay_json, replay_text};
use homeostat_operator::controllers::now;
use homeostat_operator::history::{Past, fetch};
use homeostat_operator::learn::PolicyFile;
use homeostat_rl::Policy;
use kube::Client;

use super::named::{Cluster, Named};
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
  homeostat replay --prometheus http://localhost:9090 --policy agent-0.policy mpa/checkout mpa/cart

With a policy file (--policy, or that of an object with the recommender policy), the file recommends, \
and joint wherever it cannot, as in the operator. Workloads that are replayed together form teams as \
their objects say, all of them one team by default; a policy that reads its team sees the others as \
they were one sample before.

For a recorded simulation use homeostat replay RUN --policy POLICY.")]
pub(crate) struct ReplayArguments {
    /// The workloads, such as deploy/checkout, sts/db, rs/worker, or mpa/checkout for the target,
    /// SLO, bounds, load and recommender of an object.
    #[arg(value_name = "WORKLOAD", required = true)]
    workloads: Vec<String>,
    /// A policy file that recommends for all of them, such as runs/NAME/policies/agent-0.policy.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Their namespace; that of the current context by default.
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
    let policy = arguments.policy.as_deref().map(read_policy).transpose()?;
    let cluster = Cluster::of(&client, Some(&namespace)).await?;
    let queries = arguments.queries.queries();
    let to = now();
    let from = SimTime::from_nanos(to.nanos().saturating_sub(arguments.last.nanos()));
    let step = arguments.queries.step;
    let past = Past { prometheus: &prometheus, queries: &queries, from, to, step };
    let spec = arguments.wanted.workload_spec();
    let (mut workloads, mut histories) = (Vec::new(), Vec::new());
    for name in &arguments.workloads {
        let Named { workload, plan, .. } = cluster.named(name, &spec).await?;
        let policy = match (&policy, &plan.recommender) {
            (Some(policy), _) => Some(policy.clone()),
            (None, Recommender::Policy(at)) => Some(policy_of(&client, &namespace, at).await?),
            (None, _) => None,
        };
        let pods = pods_of_workload(&workload, &cluster.pods);
        let mut progress = Progress::new("parts of the history read", 0);
        let report = |done, parts| progress.set(done, parts);
        let mut recording = fetch(&past, &plan, &workload, &pods, report).await?;
        match policy {
            Some(_) => recording.assume_load(&plan),
            None => recording.assume_recommender(&plan),
        }
        recording.assume_missing_requests(&workload.containers);
        workloads.push(workload);
        histories.push(WorkloadHistory { plan, recording, policy });
    }
    let replays = replay(&histories)?;
    let all = workloads.iter().zip(&histories).zip(&replays);
    let all = all.map(|((workload, history), replay)| (workload, history, replay));
    let text = match arguments.output {
        Output::Table => all
            .map(|(workload, history, replay)| {
                replay_text(workload, history, replay, arguments.changes)
            })
            .collect::<Vec<_>>()
            .join("\n"),
        Output::Json => {
            let mut all: Vec<_> = all
                .map(|(workload, history, replay)| replay_json(workload, history, replay))
                .collect();
            let value = match all.len() {
                1 => all.remove(0),
                _ => serde_json::json!({ "workloads": all }),
            };
            json(&value)? + "\n"
        }
    };
    print!("{text}");
    Ok(())
}

fn read_policy(path: &Path) -> anyhow::Result<ServedPolicy> {
    let version = path.display().to_string();
    let bytes = std::fs::read(path).with_context(|| format!("failed to read {version}"))?;
    let policy = Policy::from_bytes(&bytes);
    let policy = policy.with_context(|| format!("{version} is not a policy file"))?;
    Ok(ServedPolicy { version, policy: Arc::new(policy) })
}

/// The policy file of an object.
async fn policy_of(
    client: &Client,
    namespace: &str,
    at: &PolicyFileRef,
) -> anyhow::Result<ServedPolicy> {
    let mut file = PolicyFile::new(at.clone());
    file.refresh(client, namespace, now()).await;
    match file.advice() {
        Advice::Serve(policy) => Ok(policy),
        other => anyhow::bail!("{other}; or give --policy FILE"),
    }
}
