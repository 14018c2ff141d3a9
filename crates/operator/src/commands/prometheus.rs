//! Options for the Prometheus server, shared by several commands.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use homeostat_autoscaler::api::duration;
use homeostat_core::SimDuration;
use homeostat_operator::history::Queries;
use homeostat_operator::measure::{Prometheus, PrometheusAddress};

/// Options for the Prometheus server.
#[derive(Args)]
pub(crate) struct PrometheusArguments {
    /// Prometheus server for SLOs, queries and history, such as
    /// http://prometheus.monitoring:9090 or https://example.com/prometheus.
    #[arg(long, value_name = "URL", env = "HOMEOSTAT_PROMETHEUS")]
    prometheus: Option<String>,
    /// File with a bearer token for the Prometheus server; it is read for every query, and sent only
    /// over TLS or to this machine.
    #[arg(long, value_name = "FILE", requires = "prometheus")]
    prometheus_token_file: Option<PathBuf>,
    /// Send the token without TLS as well: anyone on the way to the server can read it.
    #[arg(long, requires = "prometheus_token_file")]
    prometheus_allow_plain_token: bool,
    /// File with the certificate of the Prometheus server's authority, as PEM.
    #[arg(long, value_name = "FILE", requires = "prometheus")]
    prometheus_ca_file: Option<PathBuf>,
}

impl PrometheusArguments {
    /// The server, if one is given.
    pub(crate) fn server(
        &self,
        timeout: Duration,
        lookback: Option<Duration>,
    ) -> anyhow::Result<Option<Prometheus>> {
        let Some(url) = &self.prometheus else { return Ok(None) };
        let read = |path: &PathBuf| {
            std::fs::read_to_string(path)
                .with_context(|| format!("failed to read {}", path.display()))
        };
        // Refused here rather than at the first query.
        self.prometheus_token_file.as_ref().map(read).transpose()?;
        let authorities = match &self.prometheus_ca_file {
            Some(path) => certificates("--prometheus-ca-file", path)?,
            None => Vec::new(),
        };
        let address = PrometheusAddress {
            url: url.clone(),
            authorities,
            token_file: self.prometheus_token_file.clone(),
            allow_plain_token: self.prometheus_allow_plain_token,
            lookback,
            timeout,
        };
        Ok(Some(Prometheus::new(&address)?))
    }
}

/// The certificates of a file that an option names, as DER.
pub(super) fn certificates(option: &str, path: &Path) -> anyhow::Result<Vec<Vec<u8>>> {
    use tokio_rustls::rustls::pki_types::{CertificateDer, pem::PemObject};
    let pem = std::fs::read_to_string(path)
        .with_context(|| format!("failed to read {}", path.display()))?;
    let found = CertificateDer::pem_slice_iter(pem.as_bytes())
        .map(|certificate| certificate.map(|certificate| certificate.to_vec()))
        .collect::<Result<Vec<_>, _>>()
        .with_context(|| format!("{option} contains no certificate"))?;
    anyhow::ensure!(!found.is_empty(), "{option} contains no certificate");
    Ok(found)
}

/// Queries for the history. `$namespace`, `$workload`, `$pods` (a regular expression) and `$window` (a
/// duration for rates) are replaced by those of the workload.
#[derive(Args)]
pub(crate) struct QueryArguments {
    /// Time between two samples of the history.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = time)]
    pub(crate) step: SimDuration,
    /// Query for the cores that each container used, by pod and container. $namespace, $workload,
    /// $pods and $window are replaced. By default cadvisor's container_cpu_usage_seconds_total.
    #[arg(long, value_name = "QUERY")]
    cpu_query: Option<String>,
    /// Query for the bytes that each container used; by default cadvisor's
    /// container_memory_working_set_bytes.
    #[arg(long, value_name = "QUERY")]
    memory_query: Option<String>,
    /// Query for the cores that each container requested; by default kube-state-metrics'
    /// kube_pod_container_resource_requests, or the current requests without it.
    #[arg(long, value_name = "QUERY")]
    cpu_requests_query: Option<String>,
    /// Query for the bytes that each container requested.
    #[arg(long, value_name = "QUERY")]
    memory_requests_query: Option<String>,
}

impl QueryArguments {
    pub(crate) fn queries(&self) -> Queries {
        let default = Queries::default();
        let or = |given: &Option<String>, default: String| given.clone().unwrap_or(default);
        Queries {
            cpu: or(&self.cpu_query, default.cpu),
            memory: or(&self.memory_query, default.memory),
            cpu_requests: or(&self.cpu_requests_query, default.cpu_requests),
            memory_requests: or(&self.memory_requests_query, default.memory_requests),
        }
    }
}

/// Reads a duration above zero.
pub(crate) fn time(text: &str) -> Result<SimDuration, String> {
    match duration(text) {
        Ok(time) if time > SimDuration::ZERO => Ok(time),
        Ok(_) => Err("it must be above 0".to_owned()),
        Err(refused) => Err(refused.to_string()),
    }
}
