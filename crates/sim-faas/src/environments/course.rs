//! `faas/course-v2`: the environment of the course, with its six numbers and its two-part
//! action: cpu.shares by 128 and containers by one, each up, down or not.

use homeostat_core::{Millicores, Persist, Snapshot, Stream};
use homeostat_decide::{PreparedProposal, Proposal, Reason, RewardPreset, ScalingAction};
use homeostat_env::{Action, Dynamics, EnvSpec, Info, Outcome, Picture};

use super::cards;
use super::config::FaasPlan;
use super::tenants::Tenants;
use super::{picture, text_view};

/// What the course divides its numbers by.
const MAX_SHARES: f64 = 20_480.0;
const MAX_CONTAINERS: f64 = 20.0;
const MAX_RATE: f64 = 10.0;

const SHARES_PER_MILLICORE: f64 = 1.024;

/// The course's function on a node of eight cores.
pub(crate) struct Course {
    plan: FaasPlan,
    tenants: Option<Tenants>,
    last_direction: i32,
}

impl Course {
    /// The plan must be the course's own.
    pub(crate) fn new(plan: FaasPlan) -> Self {
        Self { plan, tenants: None, last_direction: 0 }
    }

    /// Takes both parts of an action as one decision. Returns whether it was legal: whether the
    /// function gets what both ask for.
    fn act(&mut self, vertical: i32, horizontal: i32) -> bool {
        let part = |direction: i32, up, down| match direction {
            0 => ScalingAction::Hold,
            1 => up,
            _ => down,
        };
        let vertical = part(vertical, ScalingAction::CpuUp, ScalingAction::CpuDown);
        let horizontal = part(horizontal, ScalingAction::ReplicasUp, ScalingAction::ReplicasDown);
        let tenants = self.tenants.as_mut().expect("an episode resets the environment");
        let from = tenants.platform.allocation(tenants.present[0].id);
        let target = vertical.target(&from).and_then(|sized| horizontal.target(&sized));
        let proposal = Proposal::keep(&target.unwrap_or(from))
            .because(Reason::Action { action: vertical })
            .because(Reason::Action { action: horizontal });
        let controlled = tenants.control(0, &mut PreparedProposal::new(proposal));
        let (_, granted) = controlled.expect("bounds keep CPU above zero");
        target == Some(granted)
    }
}

impl Dynamics for Course {
    fn spec(&self) -> EnvSpec {
        cards::course(&self.plan.config)
    }

    fn reset(&mut self, rng: &mut Stream) {
        let mut tenants = Tenants::new(&self.plan, rng.next_u64());
        tenants.join(0);
        tenants.advance();
        self.tenants = Some(tenants);
        self.last_direction = 0;
    }

    fn step(&mut self, action: &Action, _rng: &mut Stream) -> Outcome {
        let parts = action.multi_discrete().expect("the action is of the space");
        let direction = |part: usize| part as i32 - 1;
        let (vertical, horizontal) = (direction(parts[0]), direction(parts[1]));
        let is_legal = self.act(vertical, horizontal);
        let is_reversed = horizontal != 0 && horizontal == -self.last_direction;
        self.last_direction = horizontal;
        let tenants = self.tenants.as_mut().expect("an episode resets the environment");
        tenants.advance();
        let tenant = &tenants.present[0];
        let seen = &tenant.seen;
        let is_deserted = seen.allocation.replicas == 0 && seen.arrivals_per_s > 0.0;
        let penalty =
            if !is_legal || is_reversed || is_deserted { RewardPreset::PENALTY } else { 0.0 };
        let [preservation, cpu] = [tenant.obs[0], tenant.obs[1]].map(f64::from);
        Outcome { reward: 0.3 * cpu + 0.7 * preservation - penalty, terminated: false }
    }

    fn observe(&self, obs: &mut [f32]) {
        let tenants = self.tenants.as_ref().expect("an episode resets the environment");
        let tenant = &tenants.present[0];
        let allocation = tenants.platform.allocation(tenant.id);
        let shares = |cpu: Millicores| cpu.millicores() as f64 * SHARES_PER_MILLICORE;
        let rate = tenant.rate;
        let numbers = [
            f64::from(tenant.obs[1]),
            f64::from(tenant.obs[0]),
            shares(allocation.cpu) * f64::from(allocation.replicas) / MAX_SHARES,
            // There is no other function on the node.
            0.0,
            f64::from(allocation.replicas) / MAX_CONTAINERS,
            rate / MAX_RATE,
        ];
        for (slot, number) in obs.iter_mut().zip(numbers) {
            *slot = number.clamp(0.0, 1.0) as f32;
        }
    }

    fn render(&self) -> String {
        self.tenants.as_ref().map_or(String::new(), text_view::draw)
    }

    fn picture(&self) -> Option<Picture> {
        self.tenants.as_ref().map(picture::draw)
    }

    fn info(&self) -> Info {
        let window = self.tenants.as_ref().and_then(|tenants| tenants.present[0].window.as_ref());
        window.map_or(Info::new(), super::info_of)
    }
}

impl Persist for Course {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let direction = (self.last_direction + 1) as u64;
        out.put_u64(&format!("{name}/facts"), [direction, u64::from(self.tenants.is_some())]);
        if let Some(tenants) = &self.tenants {
            tenants.save(&format!("{name}/tenants"), out);
        }
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        let facts = from.u64s(&format!("{name}/facts"), 2)?;
        self.last_direction = facts[0] as i32 - 1;
        self.tenants = None;
        if facts[1] != 0 {
            let mut tenants = Tenants::new(&self.plan, 0);
            tenants.load(&format!("{name}/tenants"), from)?;
            self.tenants = Some(tenants);
        }
        Ok(())
    }
}
