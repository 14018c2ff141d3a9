//! Targets that share machines: what one of them sees of the others, as the virtual agent of their
//! latest observations.

use std::collections::BTreeMap;

use homeostat_core::{
    Bytes, FeatureField, FeatureSchema, Millicores, Persist, Result as CoreResult, SimDuration,
    SimTime, Snapshot,
};

use crate::{
    Allocation, AllocationBounds, Contribution, Features, GlobalState, Observation, SetPoints,
    VirtualAgent,
};

/// What one member contributes to the picture that the others have of the team. A policy sees the
/// others in the terms that it was trained in, whatever scales them: so there is a contribution for
/// each interface of learned policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberState {
    utilization: Contribution,
    /// None while the load of the member is not known.
    set_points: Option<Contribution>,
}

/// Encodes the observations of one member for the others.
#[derive(Debug, Clone, PartialEq)]
pub struct TeamMember {
    features: Features,
    set_points: SetPoints,
    /// What it was given at the observation before.
    allocation: Option<Allocation>,
}

impl TeamMember {
    /// A member that was not observed yet, measured against its own bounds.
    pub fn new(bounds: AllocationBounds) -> Self {
        Self {
            features: Features::new(bounds),
            set_points: SetPoints::new(bounds),
            allocation: None,
        }
    }

    /// Measures against other bounds from now on.
    pub fn set_bounds(&mut self, bounds: AllocationBounds) {
        self.features.set_bounds(bounds);
        self.set_points.set_bounds(bounds);
    }

    /// What it contributes with an observation. Its action is how its allocation has changed since
    /// the observation before.
    pub fn observe(&mut self, obs: &Observation) -> MemberState {
        let before = self.allocation.replace(obs.allocation).unwrap_or(obs.allocation);
        let now = obs.allocation;
        let size = now.cpu.cmp(&before.cpu).then(now.memory.cmp(&before.memory));
        let (vertical, horizontal) = (size as i8, now.replicas.cmp(&before.replicas) as i8);
        let utilization = Contribution::of_utilization(
            &self.features.observe(obs),
            f32::from(vertical),
            f32::from(horizontal),
        );
        let set_points = self.set_points.observe(obs);
        MemberState {
            utilization,
            set_points: obs.knows_load().then(|| Contribution::of_set_points(&set_points)),
        }
    }
}

/// After a restart the others see the same member: the change of its load and its last step count.
impl Persist for TeamMember {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.features.save(&format!("{name}/features"), out);
        self.set_points.save(&format!("{name}/set_points"), out);
        let allocation = self.allocation.map(|before| {
            [u64::from(before.replicas), before.cpu.millicores(), before.memory.bytes()]
        });
        let allocation: Vec<u64> = allocation.into_iter().flatten().collect();
        out.put_u64(&format!("{name}/allocation"), allocation);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.features.load(&format!("{name}/features"), from)?;
        self.set_points.load(&format!("{name}/set_points"), from)?;
        self.allocation = match *from.any_u64s(&format!("{name}/allocation"))? {
            [replicas, cpu, memory] => Some(Allocation {
                replicas: u32::try_from(replicas).unwrap_or(u32::MAX),
                cpu: Millicores::new(cpu),
                memory: Bytes::new(memory),
            }),
            _ => None,
        };
        Ok(())
    }
}

/// The members of all teams, by their keys, with the names of their teams and their latest states.
#[derive(Debug, Clone, PartialEq)]
pub struct Teams<K, T> {
    members: BTreeMap<K, Report<T>>,
}

#[derive(Debug, Clone, PartialEq)]
struct Report<T> {
    team: T,
    at: SimTime,
    state: MemberState,
}

impl<K, T> Default for Teams<K, T> {
    fn default() -> Self {
        Self { members: BTreeMap::new() }
    }
}

impl<K: Ord + Clone, T: Ord + Clone> Teams<K, T> {
    /// Takes note of the latest state of a member, which may have come from another team.
    pub fn report(&mut self, member: K, team: T, at: SimTime, state: MemberState) {
        self.members.insert(member, Report { team, at, state });
    }

    /// Removes the members for which this is not true.
    pub fn retain(&mut self, mut is_member: impl FnMut(&K) -> bool) {
        self.members.retain(|member, _| is_member(member));
    }

    /// All teams at one moment. A member whose state is older than `max_age` is not part of its
    /// team.
    pub fn snapshot(&self, now: SimTime, max_age: SimDuration) -> BTreeMap<T, TeamSnapshot<K>> {
        let mut teams: BTreeMap<T, BTreeMap<K, MemberState>> = BTreeMap::new();
        for (member, Report { team, at, state }) in &self.members {
            if now.saturating_since(*at) <= max_age {
                teams.entry(team.clone()).or_default().insert(member.clone(), *state);
            }
        }
        teams.into_iter().map(|(team, members)| (team, TeamSnapshot::new(members))).collect()
    }
}

/// A team at one moment: what its members see depends on their states alone, not on the order in
/// which they were reported or ask.
#[derive(Debug, Clone, PartialEq)]
pub struct TeamSnapshot<K> {
    members: BTreeMap<K, MemberState>,
    utilization: VirtualAgent,
    set_points: VirtualAgent,
}

impl<K: Ord> TeamSnapshot<K> {
    /// The team of these members.
    pub fn new(members: BTreeMap<K, MemberState>) -> Self {
        let (mut utilization, mut set_points) = (VirtualAgent::default(), VirtualAgent::default());
        for state in members.values() {
            utilization.add(&state.utilization);
            state.set_points.iter().for_each(|part| set_points.add(part));
        }
        Self { members, utilization, set_points }
    }

    /// What a member sees of the others. One that is not part of the team sees all members.
    pub fn others(&self, member: &K) -> TeamState {
        let own = self.members.get(member);
        let others = |all: &VirtualAgent, own: Option<&Contribution>| {
            own.map_or_else(|| all.of_all(), |own| all.of_others(own))
        };
        TeamState {
            utilization: others(&self.utilization, own.map(|own| &own.utilization)),
            set_points: others(&self.set_points, own.and_then(|own| own.set_points.as_ref())),
        }
    }
}

/// The other members of a team as one of them sees them, in the terms of each interface of learned
/// policies.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TeamState {
    /// In the terms of [`Features`].
    pub utilization: GlobalState,
    /// In the terms of [`SetPoints`]; members whose load is not known are left out.
    pub set_points: GlobalState,
}

impl Persist for TeamState {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.utilization.save(&format!("{name}/utilization"), out);
        self.set_points.save(&format!("{name}/set_points"), out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.utilization.load(&format!("{name}/utilization"), from)?;
        self.set_points.load(&format!("{name}/set_points"), from)
    }
}

/// A schema with the others behind its own features: the mean and the deviation of seven figures,
/// each with its name and range.
pub(crate) fn with_team(
    mut schema: FeatureSchema,
    figures: [(&str, (f32, f32)); Contribution::VARIABLES],
) -> FeatureSchema {
    schema.id.push_str("+team");
    let field = |name: String, meaning: String, range| FeatureField {
        needs_team: true,
        ..FeatureField::new(&name, &meaning, range)
    };
    let means = figures.map(|(name, range)| {
        field(format!("team {name}"), format!("mean of {name} over the other members"), range)
    });
    let deviations = figures.map(|(name, (low, high))| {
        let meaning = format!("standard deviation of {name} over the other members");
        field(format!("team {name} deviation"), meaning, (0.0, high - low.min(0.0)))
    });
    schema.features.extend(means.into_iter().chain(deviations));
    schema
}
