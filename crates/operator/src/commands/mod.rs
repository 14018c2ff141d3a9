//! The subcommands.

mod crd;
mod explain;
mod manifests;
mod named;
mod progress;
mod prometheus;
mod recommend;
mod replay;
mod run;
mod wanted;

use std::error::Error;

use anyhow::Context;
use clap::Subcommand;
use homeostat_autoscaler::api::MultidimPodAutoscaler;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run the controllers and the webhook.
    Run(Box<run::RunArguments>),
    /// Print the custom resource definitions, to be applied before anything else.
    Crd,
    /// Print everything to install in a cluster, for `kubectl apply`.
    Manifests(manifests::ManifestsArguments),
    /// Explain an object: recommendation, reasons, what HPA and VPA would do, metrics, conditions.
    Explain(explain::ExplainArguments),
    /// Show the last decisions about an object.
    History(explain::ExplainArguments),
    /// Recommend once for workloads, without an installed operator: as a table, JSON or patches.
    Recommend(Box<recommend::RecommendArguments>),
    /// Replay the recorded history of a workload, and compare autoscalers with what happened.
    Replay(Box<replay::ReplayArguments>),
}

impl Command {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Run(arguments) => run::run(&arguments).await,
            Self::Crd => crd::run(),
            Self::Manifests(arguments) => manifests::run(arguments),
            Self::Explain(arguments) => explain::run(&arguments, explain::Question::Explain).await,
            Self::History(arguments) => explain::run(&arguments, explain::Question::History).await,
            Self::Recommend(arguments) => recommend::run(&arguments).await,
            Self::Replay(arguments) => replay::run(&arguments).await,
        }
    }
}

/// Reads an object. The error tells a missing object from a missing definition.
pub(crate) async fn object(
    client: &kube::Client,
    namespace: &str,
    name: &str,
) -> anyhow::Result<MultidimPodAutoscaler> {
    let api: kube::Api<MultidimPodAutoscaler> = kube::Api::namespaced(client.clone(), namespace);
    match api.get(name).await {
        Ok(object) => Ok(object),
        // For a kind that it does not know, the server gives no reason.
        Err(kube::Error::Api(status)) if status.code == 404 && status.reason == "NotFound" => {
            anyhow::bail!(
                "there is no MultidimPodAutoscaler {name:?} in {namespace}; see kubectl get mpa -A"
            )
        }
        Err(kube::Error::Api(status)) if status.code == 404 => anyhow::bail!(
            "the cluster has no definition of MultidimPodAutoscaler: see homeostat operator crd"
        ),
        Err(error) => Err(error).context("failed to read the object"),
    }
}

/// Outside a pod, only the error about the kubeconfig matters.
fn no_cluster(error: &kube::config::InferConfigError) -> anyhow::Error {
    let is_in_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    let why = match error.source() {
        Some(kubeconfig) if !is_in_pod => kubeconfig.to_string(),
        _ => error.to_string(),
    };
    anyhow::anyhow!("no cluster is configured, set KUBECONFIG or run inside a pod: {why}")
}

/// A client of the cluster of `KUBECONFIG`, of the default kubeconfig, or of this pod.
pub(crate) async fn client() -> anyhow::Result<kube::Client> {
    // Several dependencies use rustls, and must use the same provider.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    let mut config = kube::Config::infer().await.map_err(|error| no_cluster(&error))?;
    // Without retries of the client: it would repeat an eviction against a disruption budget for
    // minutes, and the controllers retry by themselves.
    config.default_retry = false;
    kube::Client::try_from(config).context("the configuration of the cluster cannot be used")
}
