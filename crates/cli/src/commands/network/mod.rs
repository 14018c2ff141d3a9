//! Over a network: `homeostat coordinator`, `homeostat agent` and `homeostat env serve`.

mod agent;
mod coordinator;
mod environments;
mod events;

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::Subcommand;
use homeostat_lab::TOKEN_VARIABLE;
use homeostat_simppo::RefusalCounts;
use homeostat_wire::{ServerConfig, ServerIdentity, Token};
use serde_json::{Map, Value};

pub(crate) use environments::{ServeArguments, serve};

use crate::Ending;
use crate::options::duration;

/// Commands of the network.
#[derive(Subcommand)]
pub(crate) enum NetworkCommand {
    /// Host one shared platform for agents on this machine or others.
    Coordinator(Box<coordinator::CoordinatorArguments>),
    /// Run one agent of a team: it acts on the coordinator's platform and learns from the team's reward.
    Agent(Box<agent::AgentArguments>),
}

pub(crate) fn run(command: &NetworkCommand) -> anyhow::Result<Ending> {
    match command {
        NetworkCommand::Coordinator(arguments) => coordinator::run(arguments),
        NetworkCommand::Agent(arguments) => agent::run(arguments),
    }
}

/// Whether the user can mend it by calling differently.
pub(crate) fn is_usage(error: &anyhow::Error) -> bool {
    use homeostat_wire::Error;
    let is_connection = matches!(
        error.downcast_ref::<Error>(),
        Some(Error::Exposed { .. } | Error::Url { .. } | Error::Tls { .. } | Error::Token { .. })
    );
    is_connection
        || error.is::<homeostat_simppo::Error>()
        || error.is::<homeostat_simppo::Refusal>()
}

/// Refusals by kind.
fn counts(refusals: &RefusalCounts) -> Value {
    let counts = refusals.iter().map(|(kind, count)| (kind.name().to_owned(), count.into()));
    Value::Object(counts.collect::<Map<_, _>>())
}

/// How to listen, with the files of a certificate and its key, and that of a token.
fn server_config(
    listen: SocketAddr,
    pair: Option<(&Path, &Path)>,
    token_file: Option<&Path>,
) -> anyhow::Result<ServerConfig> {
    let identity = match pair {
        Some((certificate, key)) => Some(ServerIdentity::new(read(certificate)?, read(key)?)),
        None => None,
    };
    Ok(ServerConfig { identity, token: token(token_file)?, ..ServerConfig::new(listen) })
}

/// The token of a file, else of the environment.
fn token(file: Option<&Path>) -> anyhow::Result<Option<Token>> {
    if let Some(path) = file {
        let text = String::from_utf8_lossy(&read(path)?).into_owned();
        return Ok(Some(Token::new(&text)?));
    }
    match std::env::var(TOKEN_VARIABLE) {
        Ok(text) => Ok(Some(Token::new(&text)?)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => {
            Err(Token::new("").expect_err("nothing is no token").into())
        }
    }
}

/// A file that an option names.
fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("failed to read {}", path.display()))
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A length of time of a real clock.
fn real_duration(text: &str) -> Result<Duration, String> {
    duration(text).map(|time| Duration::from_nanos(time.nanos()))
}
