//! `homeostat env`.

use clap::Subcommand;
use homeostat_env::{check_env, check_multi_agent_env};
use homeostat_lab::{EnvFactory, Error};
use serde_json::json;

#[cfg(feature = "network")]
use super::network::{ServeArguments, serve};
use crate::Ending;
use crate::options::environments;
use crate::output::{Output, print, print_records};

/// List, describe, check and serve environments.
#[derive(Subcommand)]
pub(crate) enum EnvCommand {
    /// List every environment with its spaces.
    List {
        /// Output format.
        #[arg(long, value_enum, default_value_t)]
        output: Output,
    },
    /// Describe observation, actions and reward of one environment.
    Card {
        /// Id of the environment, for example classic/cartpole-v1.
        id: String,
    },
    /// Serve environments to learners in any language, over gRPC.
    #[cfg(feature = "network")]
    Serve(ServeArguments),
    /// Check an environment against its contract and report violations.
    Check {
        /// Id of the environment, for example classic/cartpole-v1.
        id: String,
    },
}

pub(crate) fn run(command: &EnvCommand) -> anyhow::Result<Ending> {
    match command {
        EnvCommand::List { output } => {
            let factory = EnvFactory::with_defaults(&environments())?;
            let records: Vec<_> = factory
                .specs()
                .iter()
                .map(|spec| {
                    json!({
                        "id": spec.id.to_string(),
                        "observation": describe_space(&spec.observation),
                        "action": describe_space(&spec.action),
                        "agents": if factory.is_shared(&spec.id.to_string()) { "many" } else { "one" },
                        "steps": spec.time_limit,
                        "summary": spec.card.summary,
                    })
                })
                .collect();
            print_records(*output, &records);
        }
        EnvCommand::Card { id } => {
            let factory = EnvFactory::with_defaults(&environments())?;
            print(&factory.spec(id).map_err(Error::from)?.describe());
        }
        #[cfg(feature = "network")]
        EnvCommand::Serve(arguments) => return serve(arguments),
        EnvCommand::Check { id } => {
            let factory = EnvFactory::with_defaults(&environments())?;
            let findings = if factory.is_shared(id) {
                factory.make_multi_agent(id).map_err(Error::from)?;
                check_multi_agent_env(&|| factory.make_multi_agent(id).expect("made above"))
            } else {
                factory.make(id, 0).map_err(Error::from)?;
                check_env(&|| factory.make(id, 0).expect("made above"))
            };
            if !findings.is_empty() {
                let lines: Vec<_> = findings
                    .iter()
                    .map(|finding| format!("  {}: {}", finding.rule, finding.explanation))
                    .collect();
                anyhow::bail!("{id} violates its contract:\n{}", lines.join("\n"));
            }
            print(&format!("{id} keeps its contract\n"));
        }
    }
    Ok(Ending::Done)
}

/// A space in few words: a table has no room for every bound.
fn describe_space(space: &homeostat_env::Space) -> String {
    match space {
        homeostat_env::Space::Box { low, .. } => format!("Box({})", low.len()),
        other => other.to_string(),
    }
}
