//! Controlled systems.

use crate::{Decision, Domain, PodScaling};

/// A system with controlled targets: a simulator, a recording, or a cluster.
///
/// [`Plant::apply`] is the only way to change a setting, and it takes a [`Decision`], which only
/// [`decide`](crate::decide()) makes. So training, simulation and serving use the same path.
///
/// A service whose CPU use does not depend on its allocation, controlled by the horizontal pod
/// autoscaler:
///
/// ```
/// use homeostat_core::{Bounds, Bytes, Fraction, Millicores, SimDuration, SimTime, Slo};
/// use homeostat_decide::{
///     Allocation, AllocationBounds, Decision, Guards, Observation, Plant, PolicyConfig,
///     ReplicaSample, decide,
/// };
///
/// struct Service(Observation);
///
/// impl Plant for Service {
///     type Error = homeostat_decide::Error;
///
///     fn targets(&self) -> usize {
///         1
///     }
///
///     fn advance(&mut self) -> Result<(), Self::Error> {
///         let replicas = self.0.allocation.replicas;
///         let cpu_cores = Some(2.0 / f64::from(replicas));
///         let replica = ReplicaSample { cpu_cores, ..ReplicaSample::ready(SimTime::ZERO) };
///         self.0.replicas = vec![replica; replicas as usize];
///         self.0.now += SimDuration::from_secs(60);
///         Ok(())
///     }
///
///     fn observe(&self, _target: usize) -> &Observation {
///         &self.0
///     }
///
///     fn apply(&mut self, _: usize, decision: &Decision) -> Result<Allocation, Self::Error> {
///         self.0.allocation = *decision.applied();
///         Ok(self.0.allocation)
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (cpu, memory) = (Millicores::new(500), Bytes::from_mib(256));
/// let slo = Slo::try_new(Fraction::from_percent(99), SimDuration::from_millis(250))?;
/// let start = Allocation { replicas: 1, cpu, memory };
/// let mut service = Service(Observation::new(SimTime::ZERO, start, slo));
/// let bounds = AllocationBounds {
///     replicas: Bounds::try_new(1, 20)?,
///     cpu: Bounds::try_new(cpu, cpu)?,
///     memory: Bounds::try_new(memory, memory)?,
/// };
/// let mut hpa = PolicyConfig::by_name("hpa")?.build()?;
/// let mut guards = Guards::bounds_only(bounds)?;
/// for _ in 0..10 {
///     service.advance()?;
///     let decision = decide(hpa.as_mut(), &mut guards, service.observe(0));
///     service.apply(0, &decision)?;
/// }
/// let utilisation = 2.0 / (f64::from(service.0.allocation.replicas) * cpu.cores());
/// assert!((0.4..=0.85).contains(&utilisation), "{utilisation}");
/// # Ok(())
/// # }
/// ```
pub trait Plant<D: Domain = PodScaling> {
    /// The error type.
    type Error;

    /// Number of targets, numbered from zero.
    fn targets(&self) -> usize;

    /// Advances by one window.
    fn advance(&mut self) -> Result<(), Self::Error>;

    /// The telemetry of a target in the last window; that of an idle target before the first.
    fn observe(&self, target: usize) -> &D::Observation;

    /// Applies a decision. Returns the setting that the target got: a system without free capacity
    /// grants less.
    fn apply(&mut self, target: usize, decision: &Decision<D>) -> Result<D::Setting, Self::Error>;
}
