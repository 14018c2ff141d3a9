//! A task of the operator that fails makes the process unhealthy and ends it.

use std::time::Duration;

use super::operator::{Operator, OperatorConfig, eventually, eventually_within};
use super::shop::{Shop, spec};

/// Longer than the deadline of the task that stalls.
const PATIENCE: Duration = Duration::from_secs(60);

/// Injects a fault, and compares what `/healthz` answers before the process ends with exit code 1.
async fn check(name: &str, fault: &str, expect: &str) {
    let Some(shop) = Shop::open(name).await else { return };
    let arguments = ["--no-webhook", "--inject-fault", fault];
    let config = OperatorConfig { arguments: &arguments, copy: "" };
    let mut operator = Operator::start(shop.cluster, &shop.namespace, &config);
    eventually("it to be healthy", async || {
        operator.get_status("/healthz").filter(|(status, _)| *status == 200)
    })
    .await;
    let (_, reason) = eventually_within(PATIENCE, "it to be unhealthy", async || {
        operator.get_status("/healthz").filter(|(status, _)| *status == 503)
    })
    .await;
    assert_eq!(reason, format!("{expect}\n"));
    let code = eventually("the process to end", async || operator.exit_code()).await;
    assert_eq!(code, 1);
    let log = operator.log();
    assert!(log.contains(&format!("error: {expect}")), "{log}");
    // It released the lease, unless that task was the one that failed.
    if !fault.starts_with("leader_elector") {
        assert_eq!(shop.leader().await.unwrap_or_default(), "", "{log}");
    }
}

#[tokio::test]
async fn a_task_that_ends_ends_the_process() {
    let expect = "task recommender ended although the process was not asked to stop";
    check("task-ends", "recommender=end", expect).await;
}

#[tokio::test]
async fn a_task_that_panics_ends_the_process() {
    check("task-panics", "updater=panic", "task updater panicked: injected by --inject-fault")
        .await;
}

#[tokio::test]
async fn a_task_that_stalls_ends_the_process_after_its_deadline() {
    check("task-stalls", "leader_elector=stall", "task leader_elector made no progress for 20 s")
        .await;
}

#[tokio::test]
async fn every_task_reports_progress_and_a_shutdown_is_no_failure() {
    let Some(shop) = Shop::open("task-progress").await else { return };
    shop.deployment("checkout", 1).await;
    shop.uses("checkout-0", "200m", "100Mi").await;
    shop.autoscaler("checkout", spec("checkout", "Recommend")).await.expect("taken");
    let config = OperatorConfig { arguments: &["--no-webhook"], copy: "" };
    let operator = Operator::start(shop.cluster, &shop.namespace, &config);
    shop.condition("checkout", "Ready", "AsPlanned").await;
    let metric = "homeostat_operator_task_last_progress_timestamp_seconds";
    for task in ["recommender", "updater", "object_watch", "pod_watch", "leader_elector"] {
        let label = format!("task=\"{task}\"");
        let first = operator.metric(metric, &label);
        assert!(first > 1.5e9, "{task}: {first}");
        eventually_within(PATIENCE, "a later progress", async || {
            (operator.metric(metric, &label) > first).then_some(())
        })
        .await;
    }
    assert_eq!(operator.get_status("/healthz"), Some((200, "ok\n".to_owned())));
    operator.terminate();
}
