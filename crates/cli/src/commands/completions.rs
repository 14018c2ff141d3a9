//! `homeostat completions`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::output::print;
use crate::{Arguments, Ending};

/// Print the completion script of a shell.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  homeostat completions bash > ~/.local/share/bash-completion/completions/homeostat\n  homeostat completions zsh > \"${fpath[1]}/_homeostat\"\n  homeostat completions fish > ~/.config/fish/completions/homeostat.fish"
)]
pub(crate) struct CompletionsArguments {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(arguments: &CompletionsArguments) -> anyhow::Result<Ending> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "homeostat", &mut script);
    print(&String::from_utf8(script)?);
    Ok(Ending::Done)
}
