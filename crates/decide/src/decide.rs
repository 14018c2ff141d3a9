//! The one path from an observation to a decision.

use crate::{Decision, GuardrailMemory, Guardrails, Observation, Policy, Reason};

/// Asks the policy, refuses what is not a number, bounds the rest, and says why.
///
/// A refused proposal keeps what the target has, moved inside the bounds if it lies outside,
/// and is counted in `memory`. The caller carries the decision out; the guardrails count it
/// as done.
pub fn decide(
    policy: &mut dyn Policy,
    guardrails: &Guardrails,
    memory: &mut GuardrailMemory,
    obs: &Observation,
) -> Decision {
    let proposal = policy.propose(obs);
    let from = obs.allocation;
    let proposed = proposal.allocation();
    let mut reasons = proposal.reasons;
    let proposed = proposed.unwrap_or_else(|refusal| {
        memory.count_refusal();
        reasons.push(refusal);
        from
    });
    if reasons.is_empty() {
        reasons.push(Reason::Unexplained);
    }
    let applied = guardrails.apply(memory, obs.now, &from, &proposed, &mut reasons);
    Decision { at: obs.now, from, proposed, applied, reasons }
}
