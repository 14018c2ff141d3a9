//! `homeostat env`.

use clap::Subcommand;
use homeostat_env::{check_env, make, specs};
use serde_json::json;

use crate::Ending;
use crate::output::{Output, print, print_records};

/// Look at environments.
#[derive(Subcommand)]
pub(crate) enum EnvCommand {
    /// Every environment with its spaces.
    List {
        /// Form of the result.
        #[arg(long, value_enum, default_value_t)]
        output: Output,
    },
    /// State, actions and reward of one environment in words.
    Card {
        /// Its id, for example classic/cartpole-v1.
        id: String,
    },
    /// Play an environment against its contract and explain what is wrong.
    Check {
        /// Its id, for example classic/cartpole-v1.
        id: String,
    },
}

pub(crate) fn run(command: &EnvCommand) -> anyhow::Result<Ending> {
    match command {
        EnvCommand::List { output } => {
            let records: Vec<_> = specs()
                .iter()
                .map(|spec| {
                    json!({
                        "id": spec.id.to_string(),
                        "observation": describe_space(&spec.observation),
                        "action": describe_space(&spec.action),
                        "steps": spec.time_limit,
                        "summary": spec.card.summary,
                    })
                })
                .collect();
            print_records(*output, &records);
        }
        EnvCommand::Card { id } => print(&make_known(id)?.spec().describe()),
        EnvCommand::Check { id } => {
            make_known(id)?;
            let findings = check_env(&|| make(id).expect("made above"));
            if !findings.is_empty() {
                let lines: Vec<_> = findings
                    .iter()
                    .map(|finding| format!("  {}: {}", finding.rule, finding.explanation))
                    .collect();
                anyhow::bail!("{id} breaks its contract:\n{}", lines.join("\n"));
            }
            print(&format!("{id} keeps its contract\n"));
        }
    }
    Ok(Ending::Done)
}

fn make_known(id: &str) -> anyhow::Result<Box<dyn homeostat_env::Env>> {
    Ok(make(id).map_err(homeostat_lab::Error::from)?)
}

/// A space in few words: a table has no room for every bound.
fn describe_space(space: &homeostat_env::Space) -> String {
    match space {
        homeostat_env::Space::Box { low, .. } => format!("Box({})", low.len()),
        other => other.to_string(),
    }
}
