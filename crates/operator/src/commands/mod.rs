//! The commands of the program.

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
use homeostat_operator::api::MultidimPodAutoscaler;

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run the controllers and the webhook.
    Run(Box<run::RunArguments>),
    /// Print the definitions of the objects, to be applied before anything else.
    Crd,
    /// Print everything that is installed in a cluster, for `kubectl apply`.
    Manifests(manifests::ManifestsArguments),
    /// Say why an object is as it is: recommendation, reasons, what HPA and VPA would do, inputs.
    Explain(explain::ExplainArguments),
    /// Show the last decisions about an object.
    History(explain::ExplainArguments),
    /// Say once what workloads should have, without anything installed: a table, JSON or patches.
    Recommend(Box<recommend::RecommendArguments>),
    /// Play the recorded history of a workload: what would have been, beside what was.
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

/// An object by its name. One that is not there, and a cluster without any, are told apart.
pub(crate) async fn object(
    client: &kube::Client,
    namespace: &str,
    name: &str,
) -> anyhow::Result<MultidimPodAutoscaler> {
    let api: kube::Api<MultidimPodAutoscaler> = kube::Api::namespaced(client.clone(), namespace);
    match api.get(name).await {
        Ok(object) => Ok(object),
        // The server says NotFound of an object, and less of a kind that it does not know.
        Err(kube::Error::Api(status)) if status.code == 404 && status.reason == "NotFound" => {
            anyhow::bail!(
                "there is no MultidimPodAutoscaler {name:?} in {namespace}; see kubectl get mpa -A"
            )
        }
        Err(kube::Error::Api(status)) if status.code == 404 => anyhow::bail!(
            "the cluster has no definition of MultidimPodAutoscaler: see homeostat operator crd"
        ),
        Err(error) => Err(error).context("failed to ask the cluster"),
    }
}

/// Whoever is in no pod wants to hear of the kubeconfig alone.
fn no_cluster(error: &kube::config::InferConfigError) -> anyhow::Error {
    let is_in_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    let why = match error.source() {
        Some(kubeconfig) if !is_in_pod => kubeconfig.to_string(),
        _ => error.to_string(),
    };
    anyhow::anyhow!("no cluster is configured, set KUBECONFIG or run inside a pod: {why}")
}

/// A client of the cluster that `KUBECONFIG`, the usual file or the pod itself names.
pub(crate) async fn client() -> anyhow::Result<kube::Client> {
    // Several parts bring TLS along; they shall agree on one way to do it.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    let mut config = kube::Config::infer().await.map_err(|error| no_cluster(&error))?;
    // A server that says no shall be heard at once: a disruption budget that refuses an eviction
    // would be asked again for minutes, and every loop here asks again by itself.
    config.default_retry = false;
    kube::Client::try_from(config).context("the configuration of the cluster cannot be used")
}
