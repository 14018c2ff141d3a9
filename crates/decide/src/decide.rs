//! The one path from an observation to a decision.

use crate::guards::{Admission, GuardContext};
use crate::{Decision, Domain, GuardReason, Guards, Observe, Policy, Propose};

/// Asks the policy, rejects numbers that are negative or not finite, and runs every guard.
///
/// The caller applies the result: nothing changes a decision afterwards, and a
/// [`Plant`](crate::Plant) accepts nothing else. If the proposal is rejected, or the policy is not
/// asked because metrics are stale, the target keeps its setting; guards still run, so that a
/// target outside its bounds moves inside.
///
/// ```
/// use homeostat_core::{Bounds, Bytes, Fraction, Millicores, SimDuration, SimTime, Slo};
/// use homeostat_decide::{
///     Allocation, AllocationBounds, Guards, Observation, PolicyConfig, ReplicaSample, decide,
/// };
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let allocation =
///     Allocation { replicas: 2, cpu: Millicores::new(500), memory: Bytes::from_mib(256) };
/// let busy = ReplicaSample { cpu_cores: Some(0.9), ..ReplicaSample::ready(SimTime::ZERO) };
/// let obs = Observation {
///     replicas: vec![busy.clone(), busy],
///     ..Observation::new(
///         SimTime::ZERO + SimDuration::from_secs(600),
///         allocation,
///         Slo::try_new(Fraction::from_percent(99), SimDuration::from_millis(250))?,
///     )
/// };
/// let bounds = AllocationBounds {
///     replicas: Bounds::try_new(1, 3)?,
///     cpu: Bounds::try_new(Millicores::new(100), Millicores::new(2000))?,
///     memory: Bounds::try_new(Bytes::from_mib(64), Bytes::from_mib(1024))?,
/// };
/// let mut hpa = PolicyConfig::by_name("hpa")?.build()?;
/// let mut guards = Guards::bounds_only(bounds)?;
/// let decision = decide(hpa.as_mut(), &mut guards, &obs);
/// assert_eq!((decision.proposed().replicas, decision.applied().replicas), (5, 3));
/// println!("{decision}");
/// # Ok(())
/// # }
/// ```
pub fn decide<D: Domain>(
    policy: &mut dyn Policy<D>,
    guards: &mut Guards<D>,
    obs: &D::Observation,
) -> Decision<D> {
    let from = obs.setting();
    let (proposed, mut reasons) = match guards.admit(obs) {
        Admission::Ask => {
            let proposal = policy.propose(obs);
            let proposed = proposal.setting();
            let mut reasons = proposal.into_reasons();
            let proposed = proposed.unwrap_or_else(|refusal| {
                guards.count_refusal();
                reasons.push(refusal.into());
                from
            });
            (proposed, reasons)
        }
        Admission::Hold(reason) => (from, vec![reason.into()]),
    };
    if reasons.is_empty() {
        reasons.push(GuardReason::Unexplained.into());
    }
    let bounds = guards.bounds().clone();
    let context = GuardContext::new(obs, proposed, &bounds);
    let applied = guards.apply(&context, &mut reasons);
    Decision::new(obs.now(), from, proposed, applied, reasons)
}
