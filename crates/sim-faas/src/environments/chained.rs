//! Tenants that are stages of chains: they see the SLO of their chain.

use homeostat_core::{SeedTree, SimDuration, Snapshot};
use homeostat_decide::{EndToEnd, Features, StageFeatures};
use homeostat_load::Arrivals;

use super::config::FaasPlan;
use super::tenants::Tenants;
use crate::Result;
use crate::config::{ChainSetup, Source};
use crate::platform::{ChainId, ChainWindow, FunctionId};

/// One chain over the tenants.
#[derive(Debug, Clone)]
pub(super) struct ChainInView {
    id: ChainId,
    /// Places of its stages among the tenants.
    stages: std::ops::Range<usize>,
    /// What its stages are shown.
    obs: Vec<[f32; StageFeatures::COUNT]>,
    /// The last window as it was.
    window: Option<ChainWindow>,
}

impl Tenants {
    /// A platform with the chains of the settings, every stage a tenant, in the order of
    /// [`FaasPlan::chains`].
    pub fn with_chains(plan: &FaasPlan, seed: u64) -> Result<Self> {
        let plan = if plan.chains().is_empty() { plan.chained()? } else { plan };
        let mut tenants = Self::new(plan, seed);
        for stage in 0..plan.profiles.len() {
            tenants.join(stage);
        }
        tenants.lay_chains();
        Ok(tenants)
    }

    /// The chains, in the order of the settings.
    pub fn chains(&self) -> impl Iterator<Item = ChainId> {
        self.chains.iter().map(|chain| chain.id)
    }

    /// The last window of a chain, from end to end, as it truly was.
    pub fn chain_window(&self, chain: usize) -> Option<&ChainWindow> {
        self.chains[chain].window.as_ref()
    }

    /// What the stage at this place is shown.
    pub fn stage_features(&self, place: usize) -> &[f32; StageFeatures::COUNT] {
        let chain = self.chains.partition_point(|chain| chain.stages.end <= place);
        let chain = &self.chains[chain];
        &chain.obs[place - chain.stages.start]
    }

    /// Connects the stages that have joined; nothing, where they are none.
    pub(super) fn lay_chains(&mut self) {
        let plan = self.plan.clone();
        for (number, chain) in plan.chains().iter().enumerate() {
            let seeds = SeedTree::new(self.seed).child(&format!("load/chain/{number}"));
            let shape = plan.config.load_at(chain.per_second);
            let arrivals = Arrivals::new(&shape, seeds.stream("arrivals"));
            let arrivals = Source::Shape(arrivals.expect("the plan was validated"));
            let stages = chain.first_function..chain.first_function + chain.graph.len();
            let setup = ChainSetup {
                name: chain.name.clone(),
                graph: chain.graph.clone(),
                functions: stages.clone().map(FunctionId).collect(),
                slo: chain.objective.slo,
                isolated_latency: chain.objective.isolated_latency,
                arrivals: Some(arrivals),
            };
            let id = self.platform.add_chain(setup).expect("the plan was validated");
            // Before its first window a chain is seen as it was made: nothing late.
            let whole = EndToEnd { slo: chain.objective.slo, latency: None };
            let made = self.present[stages.clone()].iter();
            let obs = made.map(|stage| StageFeatures::of(stage.obs, None, &whole)).collect();
            self.chains.push(ChainInView { id, stages, obs, window: None });
        }
    }

    /// Shows the stages what monitoring saw of their chains, with an error of its own for each
    /// chain.
    pub(super) fn observe_chains(&mut self) {
        for chain in &mut self.chains {
            let window = self.platform.close_chain_window(chain.id);
            let noise = self.plan.noise;
            let error =
                if noise == 0.0 { 1.0 } else { (1.0 + noise * self.noise.normal()).max(0.0) };
            let blurred = |latency: SimDuration| {
                SimDuration::from_nanos((latency.nanos() as f64 * error) as u64)
            };
            let whole = EndToEnd { slo: window.slo, latency: window.latency.map(blurred) };
            let stages = &mut self.present[chain.stages.clone()];
            for (stage, obs) in stages.iter_mut().zip(&mut chain.obs) {
                *obs = StageFeatures::of(stage.obs, stage.seen.latency, &whole);
                // Rewards are of the chain's SLO.
                stage.obs.copy_from_slice(&obs[..Features::COUNT]);
                stage.seen.chain = Some(whole);
            }
            chain.window = Some(window);
        }
    }

    pub(super) fn save_chains(&self, name: &str, out: &mut Snapshot) {
        for (number, chain) in self.chains.iter().enumerate() {
            out.put_f32(&format!("{name}/chain/{number}/obs"), chain.obs.concat());
        }
    }

    pub(super) fn load_chains(
        &mut self,
        name: &str,
        from: &Snapshot,
    ) -> homeostat_core::Result<()> {
        for (number, chain) in self.chains.iter_mut().enumerate() {
            let obs = chain.obs.as_flattened_mut();
            from.copy_f32s(&format!("{name}/chain/{number}/obs"), obs)?;
        }
        Ok(())
    }
}
