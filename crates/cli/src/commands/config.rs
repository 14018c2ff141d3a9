//! `homeostat config`.

use std::path::PathBuf;

use clap::Subcommand;
use homeostat_lab::Setting;
use homeostat_rl::presets;
use serde_json::{Value, json};

use crate::Ending;
use crate::options::{SettingOptions, environments};
use crate::output::{Output, print, print_records};

/// Show and check settings.
#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show every setting of a run, its value and its source.
    Show {
        #[command(flatten)]
        settings: SettingOptions,
        /// Include the settings of algorithms that this run does not use.
        #[arg(long)]
        all: bool,
        /// Output format.
        #[arg(long, value_enum, default_value_t)]
        output: Output,
    },
    /// Check a settings file without running anything.
    Check {
        /// Settings file.
        file: PathBuf,
    },
    /// List presets and the sources of their values.
    Presets {
        /// Output format.
        #[arg(long, value_enum, default_value_t)]
        output: Output,
    },
    /// List team methods and the settings they stand for.
    Teams {
        /// Output format.
        #[arg(long, value_enum, default_value_t)]
        output: Output,
    },
    /// Print the commented reference of every setting, a start for your own file.
    Default,
}

pub(crate) fn run(command: &ConfigCommand) -> anyhow::Result<Ending> {
    match command {
        ConfigCommand::Show { settings, all, output } => {
            let settings = settings.resolve()?;
            settings.validate()?;
            let shown: Vec<_> =
                if *all { settings.iter().collect() } else { settings.used().collect() };
            let records: Vec<_> = shown
                .into_iter()
                .map(|(key, Setting { value, source })| {
                    let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    json!({ "setting": key, "value": value, "from": source.to_string() })
                })
                .collect();
            print_records(*output, &records);
        }
        ConfigCommand::Check { file } => {
            let settings =
                SettingOptions { config: Some(file.clone()), ..SettingOptions::default() };
            settings.resolve()?.validate()?;
            print(&format!("{} is good\n", file.display()));
        }
        ConfigCommand::Presets { output } => {
            let records: Vec<_> = presets::all()
                .iter()
                .map(|preset| {
                    json!({
                        "preset": preset.name,
                        "algorithm": preset.config.algorithm().name(),
                        "task": preset.task,
                        "source": preset.source,
                    })
                })
                .collect();
            print_records(*output, &records);
        }
        ConfigCommand::Teams { output } => {
            print_records(*output, &teams().collect::<anyhow::Result<Vec<_>>>()?);
        }
        ConfigCommand::Default => print(&environments().reference()),
    }
    Ok(Ending::Done)
}

/// What `homeostat train NAME` trains, for each method of a team.
fn teams() -> impl Iterator<Item = anyhow::Result<Value>> {
    homeostat_simppo::Preset::all().into_iter().map(|preset| {
        let mut record = json!({ "team": preset.name });
        let settings = serde_json::to_value(&preset.method)?;
        if let (Some(record), Value::Object(settings)) = (record.as_object_mut(), settings) {
            record.extend(settings);
            record.insert("env".to_owned(), preset.env.into());
            record.insert("summary".to_owned(), preset.summary.into());
        }
        Ok(record)
    })
}
