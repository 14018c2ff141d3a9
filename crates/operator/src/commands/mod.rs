//! The commands of the program.

mod crd;
mod explain;
mod manifests;
mod run;

use clap::Subcommand;

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
}

impl Command {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Run(arguments) => run::run(&arguments).await,
            Self::Crd => crd::run(),
            Self::Manifests(arguments) => manifests::run(arguments),
            Self::Explain(arguments) => explain::run(&arguments, explain::Question::Explain).await,
            Self::History(arguments) => explain::run(&arguments, explain::Question::History).await,
        }
    }
}

/// A client of the cluster that `KUBECONFIG`, the usual file or the pod itself names.
pub(crate) async fn client() -> anyhow::Result<kube::Client> {
    use anyhow::Context;
    // Several parts bring TLS along; they shall agree on one way to do it.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    kube::Client::try_default()
        .await
        .context("no cluster is configured: set KUBECONFIG, or run inside a pod")
}
