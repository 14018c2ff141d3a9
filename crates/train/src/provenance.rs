//! What a policy file says of the run that it comes from.

use homeostat_lab::RunConfig;
use homeostat_rl::RunProvenance;
use sha2::{Digest, Sha256};

/// The provenance of a policy after so many steps of its agent.
pub(crate) fn provenance(config: &RunConfig, steps: u64) -> RunProvenance {
    let (seed, settings) = (config.seed, config.identity.clone());
    let digest = Sha256::digest(format!("{seed}\n{steps}\n{settings:?}"));
    let hash = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    RunProvenance { seed, steps, settings, hash }
}
