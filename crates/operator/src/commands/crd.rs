//! `crd`: prints the custom resource definitions.

use std::io::Write;

use homeostat_operator::install::definitions;

pub(super) fn run() -> anyhow::Result<()> {
    std::io::stdout().lock().write_all(definitions().as_bytes())?;
    Ok(())
}
