//! `explain` and `history`: describe one object.

use clap::{Args, ValueEnum};
use homeostat_operator::cli_output::{explain, history, json};
use k8s_openapi::jiff::Timestamp;

/// Arguments of `explain` and `history`.
#[derive(Args)]
pub(crate) struct ExplainArguments {
    /// Name of the object.
    name: String,
    /// Its namespace; that of the current context by default.
    #[arg(long, short)]
    namespace: Option<String>,
    /// Text for people, or JSON for programs.
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// The output format.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    Text,
    /// For programs.
    Json,
}

#[derive(Clone, Copy)]
pub(crate) enum Question {
    Explain,
    History,
}

pub(super) async fn run(arguments: &ExplainArguments, question: Question) -> anyhow::Result<()> {
    let client = super::client().await?;
    let namespace = arguments.namespace.as_deref().unwrap_or(client.default_namespace());
    let object = super::object(&client, namespace, &arguments.name).await?;
    let now = Timestamp::now();
    match (arguments.output, question) {
        (Output::Text, Question::Explain) => print!("{}", explain(&object, now)),
        (Output::Text, Question::History) => print!("{}", history(&object, now)),
        (Output::Json, Question::Explain) => {
            println!("{}", json(&object.status)?);
        }
        (Output::Json, Question::History) => {
            let decisions = object.status.map(|status| status.decisions).unwrap_or_default();
            println!("{}", json(&decisions)?);
        }
    }
    Ok(())
}
