//! The serverless platform of a run, for experiments that are about it alone.

use homeostat_lab::{Error, Result, RunConfig};
use homeostat_sim_faas::{ConfiguredFaas, FaasPlan};

/// The platform, functions and load that a run's settings describe.
pub fn faas_plan(config: &RunConfig) -> Result<FaasPlan> {
    let faas = config.env_factory.simulator::<ConfiguredFaas>();
    let faas = faas.ok_or_else(|| Error::OutOfRange {
        key: "run.env".to_owned(),
        value: config.env.clone(),
        source_text: "this run".to_owned(),
        expected: "this needs the serverless platform, and the program has none".to_owned(),
    })?;
    Ok(faas.plan()?.clone())
}
