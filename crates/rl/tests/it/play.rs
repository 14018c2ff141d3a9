//! A learner at play, driven as a trainer drives it: act, step, record, learn.

use homeostat_core::{AgentId, Persist, SeedTree, Snapshot};
use homeostat_env::{Action, AutoresetMode, Card, Env, EnvSpec, Space, VecEnv, make};
use homeostat_nn::Kernel;
use homeostat_rl::{
    AgentContext, AlgorithmConfig, Learner, Outcome, Policy, Result, Sampling, Workspace,
};

/// One agent and its vectorised environment.
pub(crate) struct Play {
    pub(crate) learner: Box<dyn Learner>,
    env: VecEnv,
    actions: Vec<Action>,
    rounds: u64,
}

/// Rounds after which every schedule has run out.
const BUDGET: f64 = 10_000.0;

/// Agent number `agent` of a run: its seeds depend on the run and its number only.
pub(crate) fn context(spec: &EnvSpec, agent: u32, seed: u64) -> AgentContext {
    let seeds = SeedTree::new(seed).child(&format!("agent/{agent}"));
    AgentContext { agent: AgentId::new(agent), spec: spec.clone(), seeds }
}

/// An environment of which nothing but the spaces is known.
pub(crate) fn spec(observation: Space, action: Space) -> EnvSpec {
    EnvSpec {
        control: None,
        id: "test/spaces-v1".parse().expect("the id is well-formed"),
        observation,
        action,
        time_limit: None,
        card: Card {
            summary: "A test.",
            observation: vec![],
            action: vec![],
            reward: "none",
            termination: "never",
            source: "here",
        },
    }
}

pub(crate) fn workspace() -> Workspace {
    Workspace::new(Kernel::best())
}

impl Play {
    pub(crate) fn new(
        make: impl Fn() -> homeostat_env::Result<Box<dyn Env>>,
        config: &AlgorithmConfig,
        agent: u32,
        seed: u64,
    ) -> Self {
        let spec = make().expect("the environment exists").spec().clone();
        let context = context(&spec, agent, seed);
        let learner = config.build(&context).expect("the environment suits it");
        let seeds = context.seeds.child("env");
        let env = VecEnv::new(make, learner.num_envs(), AutoresetMode::SameStep, &seeds)
            .expect("there is at least one environment");
        let actions = vec![Action::Discrete(0); learner.num_envs()];
        Self { learner, env, actions, rounds: 0 }
    }

    /// One step in every environment, and whatever the learner makes of it.
    pub(crate) fn round(&mut self, workspace: &mut Workspace) -> Result<()> {
        let Self { learner, env, actions, rounds } = self;
        learner.act(env.obs(), actions, workspace)?;
        let mut recorded = Ok(());
        env.step(actions, |index, step| {
            let outcome = Outcome {
                reward: step.reward,
                terminated: step.terminated,
                truncated: step.truncated,
                next_obs: step.final_obs,
            };
            if recorded.is_ok() {
                recorded = learner.record(index, outcome, workspace);
            }
        })
        .expect("learners act within their spaces");
        recorded?;
        *rounds += 1;
        learner.learn(*rounds as f64 / BUDGET, workspace)?;
        Ok(())
    }

    pub(crate) fn rounds(&mut self, count: usize, workspace: &mut Workspace) {
        for _ in 0..count {
            self.round(workspace).expect("finite numbers stay finite");
        }
    }

    /// Everything that decides how the play goes on.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        self.learner.save("learner", &mut snapshot);
        self.env.save("env", &mut snapshot);
        snapshot.put_u64("rounds", [self.rounds]);
        snapshot
    }

    pub(crate) fn restore(&mut self, snapshot: &Snapshot) -> homeostat_core::Result<()> {
        self.learner.load("learner", snapshot)?;
        self.env.load("env", snapshot)?;
        self.rounds = snapshot.u64s("rounds", 1)?[0];
        Ok(())
    }
}

/// Mean return of the policy's best actions, in episodes that were not trained on.
pub(crate) fn greedy_return(policy: &Policy, env_id: &str, workspace: &mut Workspace) -> f64 {
    const EPISODES: u64 = 5;
    let mut env = make(env_id).expect("the environment exists");
    let mut rng = SeedTree::new(0).stream("unused by greedy policies");
    let mut action = Action::Discrete(0);
    let mut sum = 0.0;
    for episode in 0..EPISODES {
        let mut obs = env.reset(Some(1_000_000 + episode)).expect("a reset needs no luck").to_vec();
        loop {
            policy.act(&obs, Sampling::Greedy, &mut rng, &mut action, workspace);
            let step = env.step(&action).expect("policies act within their spaces");
            sum += step.reward;
            if step.done() {
                break;
            }
            obs.copy_from_slice(step.obs);
        }
    }
    sum / EPISODES as f64
}
