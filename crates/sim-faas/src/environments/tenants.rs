//! A platform and the functions that controllers act on: the part that all environments share.

use homeostat_core::{Bytes, Persist, SeedTree, SimDuration, Snapshot, Stream};
use homeostat_decide::{
    Allocation, Decision, Features, Guards, Observation, Plant, Policy, PreparedProposal,
    ScalingAction, decide,
};
use homeostat_load::Arrivals;

use super::chained::ChainInView;
use super::config::FaasPlan;
use crate::Result;
use crate::config::{FunctionSetup, Source};
use crate::platform::{FunctionId, Platform, Window};

/// One function under control.
pub(crate) struct Tenant {
    pub(crate) id: FunctionId,
    guards: Guards,
    pub(crate) features: Features,
    pub(crate) last_action: ScalingAction,
    pub(crate) penalty: f64,
    pub(crate) obs: [f32; Features::COUNT],
    /// Requests per second that monitoring saw.
    pub(crate) rate: f64,
    /// What monitoring saw of the last window; as it was made, before the first.
    pub(crate) seen: Observation,
    /// The last window as it was.
    pub(crate) window: Option<Window>,
}

/// A platform with its tenants, played window by window: a controller is shown what monitoring saw
/// of a window, and decides at its end.
pub struct Tenants {
    pub(crate) plan: FaasPlan,
    pub(crate) platform: Platform,
    /// The tenants, in the order they joined.
    pub(crate) present: Vec<Tenant>,
    /// The chains over them, if they are stages.
    pub(super) chains: Vec<ChainInView>,
    /// The catalogue's place of every function that was ever added, by its number.
    added: Vec<usize>,
    pub(super) seed: u64,
    /// First allocations.
    rng: Stream,
    /// What monitoring adds.
    pub(super) noise: Stream,
}

impl Tenants {
    /// An empty platform; everything random follows from the seed.
    pub fn new(plan: &FaasPlan, seed: u64) -> Self {
        let seeds = SeedTree::new(seed);
        Self {
            platform: Platform::new(plan.platform.clone(), &seeds.child("platform"))
                .expect("the plan was validated"),
            plan: plan.clone(),
            present: Vec::new(),
            chains: Vec::new(),
            added: Vec::new(),
            rng: seeds.stream("first allocations"),
            noise: seeds.stream("monitoring"),
            seed,
        }
    }

    /// Adds a function of the plan with a first allocation.
    pub fn join(&mut self, function: usize) {
        let allocation = self.first_allocation(function);
        let setup = self.setup(function, allocation);
        self.add(function, setup);
    }

    /// Adds a function of the plan that scales itself, from nothing.
    pub(crate) fn join_on_demand(&mut self, function: usize, keep_alive: SimDuration) {
        let allocation = self.first_allocation(function);
        let most = self.plan.bounds.replicas.high();
        let setup = self.setup(function, allocation).on_demand(keep_alive, most);
        self.add(function, setup);
    }

    /// Adds a function that is none of the plan's. Such a platform cannot be restored.
    pub fn join_with(&mut self, setup: FunctionSetup) -> Result<()> {
        let id = self.platform.add_function(setup)?;
        self.welcome(id);
        Ok(())
    }

    fn welcome(&mut self, id: FunctionId) {
        // Before its first window a function is seen as it was made: no requests, nothing late.
        let made = self.platform.close_window(id).observation;
        self.present.push(Tenant {
            id,
            guards: self.guards(),
            features: Features::new(self.plan.bounds),
            last_action: ScalingAction::Hold,
            penalty: 0.0,
            obs: Features::new(self.plan.bounds).observe(&made),
            rate: 0.0,
            seen: made,
            window: None,
        });
    }

    fn guards(&self) -> Guards {
        Guards::bounds_only(self.plan.bounds).expect("the plan was validated")
    }

    /// Takes the tenant at this place away.
    pub(crate) fn leave(&mut self, place: usize) {
        let tenant = self.present.remove(place);
        self.platform.remove_function(tenant.id).expect("a tenant's function is there");
    }

    fn add(&mut self, function: usize, setup: FunctionSetup) {
        self.added.push(function);
        self.join_with(setup).expect("bounds keep allocations below the size of a node");
    }

    /// The next function to be added, with its load.
    fn setup(&self, function: usize, allocation: Allocation) -> FunctionSetup {
        let seeds = SeedTree::new(self.seed).child(&format!("load/{}", self.added.len()));
        let arrivals = Arrivals::new(&self.plan.load_of(function), seeds.stream("arrivals"))
            .expect("the plan was validated");
        let objective = self.plan.objectives[function];
        FunctionSetup {
            profile: self.plan.profiles[function].clone(),
            slo: objective.slo,
            isolated_latency: objective.isolated_latency,
            allocation,
            scaling: self.plan.scaling(),
            // The requests of stages are those of their chains.
            arrivals: self.plan.chains.is_empty().then_some(Source::Shape(arrivals)),
        }
    }

    /// Random, so that an agent meets every kind of allocation, or the same generous one.
    fn first_allocation(&mut self, function: usize) -> Allocation {
        let bounds = self.plan.bounds;
        let need = self.plan.profiles[function].memory;
        let steps = (2 * need.bytes()).div_ceil(ScalingAction::MEMORY_STEP.bytes());
        let (replicas, shares, less) = if self.plan.config.random_start {
            (2 + self.rng.below(7) as u32, 1 + self.rng.below(12) as u64, self.rng.below(3) as u64)
        } else {
            (6, 8, 0)
        };
        let memory = Bytes::new((steps - less) * ScalingAction::MEMORY_STEP.bytes());
        let cpu = homeostat_core::Millicores::new(shares * ScalingAction::CPU_STEP.millicores());
        bounds.clamp(&Allocation { replicas, cpu, memory })
    }

    /// Decides for the tenant at this place on what monitoring saw of the last window.
    pub fn decide(&mut self, place: usize, policy: &mut dyn Policy) -> Decision {
        let tenant = &mut self.present[place];
        decide(policy, &mut tenant.guards, &tenant.seen)
    }

    /// Decides for the tenant at this place and carries the decision out. Returns it with what the
    /// tenant has then.
    pub fn control(
        &mut self,
        place: usize,
        policy: &mut dyn Policy,
    ) -> Result<(Decision, Allocation)> {
        let decision = self.decide(place, policy);
        let granted = self.apply(place, &decision)?;
        Ok((decision, granted))
    }

    /// Takes an action of the learner at this place, and records its penalty.
    pub(crate) fn act(&mut self, place: usize, action: ScalingAction) {
        let from = self.platform.allocation(self.present[place].id);
        let mut chosen = PreparedProposal::new(action.propose(&from));
        let (_, granted) = self.control(place, &mut chosen).expect("bounds keep CPU above zero");
        let tenant = &mut self.present[place];
        tenant.penalty = action.penalty(tenant.last_action, &from, &granted);
        tenant.last_action = action;
    }

    /// Proposals of the tenant at this place that were refused so far.
    pub fn refusals(&self, place: usize) -> u64 {
        self.present[place].guards.refusals()
    }

    /// Runs one window and shows every tenant what monitoring saw of it.
    pub fn advance(&mut self) {
        let end = self.platform.now() + self.plan.window;
        self.platform.run_for(self.plan.window - self.plan.delay);
        for tenant in &mut self.present {
            let window = self.platform.close_window(tenant.id);
            let seen = blur(&window.observation, self.plan.noise, &mut self.noise);
            tenant.obs = tenant.features.observe(&seen);
            tenant.rate = seen.arrivals_per_s;
            tenant.window = Some(window);
            tenant.seen = seen;
        }
        self.observe_chains();
        self.platform.run_until(end);
    }

    /// The functions that are there, in the order they joined.
    pub fn ids(&self) -> impl Iterator<Item = FunctionId> {
        self.present.iter().map(|tenant| tenant.id)
    }

    /// What monitoring saw of the last window of the tenant at this place.
    pub fn seen(&self, place: usize) -> &Observation {
        &self.present[place].seen
    }

    /// The same as features.
    pub fn features(&self, place: usize) -> &[f32; Features::COUNT] {
        &self.present[place].obs
    }

    /// The last window of the tenant at this place as it truly was.
    pub fn window(&self, place: usize) -> Option<&Window> {
        self.present[place].window.as_ref()
    }

    /// The platform.
    pub fn platform(&mut self) -> &mut Platform {
        &mut self.platform
    }

    /// The reward of the tenant at this place for the last window and its last action.
    pub(crate) fn reward(&self, place: usize) -> f64 {
        let tenant = &self.present[place];
        self.plan.config.reward.of(&tenant.obs, &tenant.seen, &self.plan.bounds) - tenant.penalty
    }
}

impl Plant for Tenants {
    type Error = crate::Error;

    fn targets(&self) -> usize {
        self.present.len()
    }

    fn advance(&mut self) -> Result<()> {
        Tenants::advance(self);
        Ok(())
    }

    fn observe(&self, target: usize) -> &Observation {
        self.seen(target)
    }

    fn apply(&mut self, target: usize, decision: &Decision) -> Result<Allocation> {
        self.platform.apply(self.present[target].id, decision)
    }
}

/// Stands for a window without requests in what is saved.
const NO_LATENCY: u64 = u64::MAX;

/// What monitoring makes of a window: every measured figure is off by a little.
fn blur(truth: &Observation, noise: f64, rng: &mut Stream) -> Observation {
    let mut seen = truth.clone();
    if noise == 0.0 {
        return seen;
    }
    // As many draws for every window, whatever is in it.
    let [late, arrivals, concurrency, cpu, memory] =
        std::array::from_fn(|_| (1.0 + noise * rng.normal()).max(0.0));
    seen.latency = truth
        .latency
        .map(|latency| SimDuration::from_nanos((latency.nanos() as f64 * late) as u64));
    seen.arrivals_per_s *= arrivals;
    seen.concurrency *= concurrency;
    for replica in &mut seen.replicas {
        replica.cpu_cores = replica.cpu_cores.map(|cores| cores * cpu);
        replica.memory =
            replica.memory.map(|bytes| Bytes::new((bytes.bytes() as f64 * memory) as u64));
    }
    seen
}

impl Persist for Tenants {
    fn save(&self, name: &str, out: &mut Snapshot) {
        out.put_u64(&format!("{name}/seed"), [self.seed]);
        self.rng.save(&format!("{name}/rng"), out);
        self.noise.save(&format!("{name}/noise"), out);
        let added: Vec<u64> = self.added.iter().map(|function| *function as u64).collect();
        out.put_u64(&format!("{name}/added"), added);
        let present = self.present.iter().flat_map(|tenant| {
            [
                tenant.id.number() as u64,
                tenant.last_action.index() as u64,
                tenant.penalty.to_bits(),
                tenant.rate.to_bits(),
                tenant.seen.latency.map_or(NO_LATENCY, SimDuration::nanos),
            ]
        });
        out.put_u64(&format!("{name}/present"), present.collect::<Vec<_>>());
        for (place, tenant) in self.present.iter().enumerate() {
            tenant.features.save(&format!("{name}/tenant/{place}/features"), out);
            out.put_f32(&format!("{name}/tenant/{place}/obs"), tenant.obs);
            tenant.guards.save(&format!("{name}/tenant/{place}/guards"), out);
        }
        self.platform.save(&format!("{name}/platform"), out);
        self.save_chains(name, out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        let seed = from.u64s(&format!("{name}/seed"), 1)?[0];
        let mut fresh = Self::new(&self.plan, seed);
        let catalogue = self.plan.profiles.len();
        for function in from.any_u64s(&format!("{name}/added"))? {
            let function = *function as usize % catalogue;
            let nothing = Allocation { replicas: 0, ..fresh.first_allocation(function) };
            let setup = fresh.setup(function, nothing);
            fresh.add(function, setup);
        }
        fresh.lay_chains();
        // The saved tenants follow below.
        fresh.present.clear();
        fresh.rng.load(&format!("{name}/rng"), from)?;
        fresh.noise.load(&format!("{name}/noise"), from)?;
        fresh.platform.load(&format!("{name}/platform"), from)?;
        fresh.load_chains(name, from)?;
        let present = from.any_u64s(&format!("{name}/present"))?.chunks_exact(5);
        for (place, facts) in present.enumerate() {
            let number = (facts[0] as usize).min(fresh.added.len().saturating_sub(1));
            let mut features = Features::new(self.plan.bounds);
            features.load(&format!("{name}/tenant/{place}/features"), from)?;
            let mut obs = [0.0; Features::COUNT];
            from.copy_f32s(&format!("{name}/tenant/{place}/obs"), &mut obs)?;
            let mut guards = self.guards();
            guards.load(&format!("{name}/tenant/{place}/guards"), from)?;
            let id = FunctionId(number);
            // Guards look at the SLO and at what the function has; policies that look at more are
            // asked before anything is saved.
            let latency = (facts[4] != NO_LATENCY).then(|| SimDuration::from_nanos(facts[4]));
            let (allocation, slo) = (fresh.platform.allocation(id), fresh.platform.slo(id));
            let seen =
                Observation { latency, ..Observation::new(fresh.platform.now(), allocation, slo) };
            fresh.present.push(Tenant {
                id,
                guards,
                features,
                last_action: ScalingAction::from_index(facts[1] as usize)
                    .unwrap_or(ScalingAction::Hold),
                penalty: f64::from_bits(facts[2]),
                obs,
                rate: f64::from_bits(facts[3]),
                seen,
                // Known again after the next window; nothing looks back further.
                window: None,
            });
        }
        *self = fresh;
        Ok(())
    }
}
