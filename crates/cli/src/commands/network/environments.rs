//! `homeostat env serve`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use homeostat_lab::EnvFactory;
use homeostat_wire::{EnvironmentServer, SimulatedEnvironments};

use super::server_config;
use crate::Ending;
use crate::options::environments;
use crate::output::print;
use crate::progress::interruption;

/// Serve simulated environments to learners in any language, over gRPC.
///
/// A learner calls Init with the id of an environment, Reset, and Step again and again. Every session
/// has an environment of its own. The operator speaks the same contract for workloads on Kubernetes
/// (`homeostat operator run --listen-learners`), so that a learner need not know which of them
/// it acts in. The messages are in crates/wire/proto/environment.proto.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  homeostat env serve                                  this machine only; needs no token\n  homeostat env serve --listen 0.0.0.0:7710 --tls-cert cert.pem --tls-key key.pem --token-file token\n\nThe token may also come from the environment: HOMEOSTAT_COORDINATOR_TOKEN.\nOther machines can connect only with TLS and a token. Ctrl-C ends."
)]
pub(crate) struct ServeArguments {
    /// Address to listen on; port 0 selects a free one. Other machines need TLS and a token.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7710")]
    listen: SocketAddr,
    /// Certificate chain in PEM, for TLS.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// File with the token that learners must present [default: HOMEOSTAT_COORDINATOR_TOKEN]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Maximum number of sessions; at the maximum, one idle for ten minutes is closed.
    #[arg(long, alias = "most-sessions", value_name = "N", default_value_t = 256)]
    max_sessions: usize,
}

pub(crate) fn serve(arguments: &ServeArguments) -> anyhow::Result<Ending> {
    let interrupted = interruption()?;
    let pair = arguments.tls_cert.as_deref().zip(arguments.tls_key.as_deref());
    let config = server_config(arguments.listen, pair, arguments.token_file.as_deref())?;
    // One factory for all sessions: what takes long is prepared once for each simulator.
    let factory = EnvFactory::with_defaults(&environments())?;
    let make = move |id: &str| factory.make(id, 0);
    let environments = SimulatedEnvironments::new(Box::new(make), arguments.max_sessions);
    let server = EnvironmentServer::start(Arc::new(environments), &config)?;
    let scheme = if config.identity.is_some() { "https" } else { "http" };
    print(&format!("listening on {scheme}://{}\n", server.address()));
    while !interrupted.load(Ordering::SeqCst) {
        anyhow::ensure!(server.is_listening(), "the network of this machine has failed");
        std::thread::sleep(Duration::from_millis(100));
    }
    server.stop();
    Ok(Ending::Done)
}
