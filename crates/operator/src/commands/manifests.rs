//! `manifests`: prints everything to install, for users without Helm.

use std::io::Write;

use anyhow::Context;
use clap::Args;
use homeostat_operator::install::{Installation, manifests};
use homeostat_operator::measure::{Prometheus, PrometheusAddress};

/// Arguments of `manifests`.
#[derive(Args)]
pub(crate) struct ManifestsArguments {
    /// The image, built from deploy/image/Containerfile and pushed to a registry that your nodes use.
    #[arg(long, value_name = "IMAGE")]
    image: String,
    /// Namespace of the operator. The manifests create it, and `kubectl delete -f` deletes it with
    /// everything in it.
    #[arg(long, default_value = "homeostat", value_parser = namespace)]
    namespace: String,
    /// Prometheus server for SLOs and queries, such as http://prometheus.monitoring:9090.
    #[arg(long, value_name = "URL")]
    prometheus: Option<String>,
    /// Scale workloads of this namespace only, with rights in this namespace only.
    #[arg(long, value_name = "NAMESPACE", value_parser = namespace)]
    only_namespace: Option<String>,
    /// Leave the webhook out: pods start with the size of their template.
    #[arg(long)]
    no_webhook: bool,
    /// Version of the cluster: 1.20 needs an older version of the PodDisruptionBudget.
    #[arg(long, value_name = "VERSION", default_value = "1.21", value_parser = minor_version)]
    kubernetes: u32,
}

pub(super) fn run(arguments: ManifestsArguments) -> anyhow::Result<()> {
    let ManifestsArguments { image, namespace, prometheus, only_namespace, no_webhook, kubernetes } =
        arguments;
    if let Some(url) = &prometheus {
        // Refused here rather than by a pod that does not start.
        Prometheus::check(&PrometheusAddress { url: url.clone(), ..PrometheusAddress::default() })?;
    }
    let installation = Installation {
        namespace,
        image,
        prometheus,
        only_namespace,
        has_webhook: !no_webhook,
        has_policy_v1: kubernetes >= 21,
    };
    let text = manifests(&installation);
    std::io::stdout().lock().write_all(text.as_bytes()).context("failed to print")
}

fn namespace(text: &str) -> Result<String, String> {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_name = !text.is_empty() && text.len() <= 63 && text.chars().all(is_allowed);
    if is_name && !text.starts_with('-') && !text.ends_with('-') {
        Ok(text.to_owned())
    } else {
        Err("a namespace has at most 63 lowercase letters, digits and inner dashes".to_owned())
    }
}

/// The second number of a version such as 1.33 or v1.33.1.
fn minor_version(text: &str) -> Result<u32, String> {
    let refused = || "use a version such as 1.20 or 1.33, from 1.20 on".to_owned();
    let rest = text.trim_start_matches('v').strip_prefix("1.").ok_or_else(refused)?;
    let minor = rest.split('.').next().and_then(|minor| minor.parse().ok()).ok_or_else(refused)?;
    if minor >= 20 { Ok(minor) } else { Err(refused()) }
}
