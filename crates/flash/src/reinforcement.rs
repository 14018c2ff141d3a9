//! A reinforcement-learning base learner, conditioned on embeddings: PPO, DQN or DDPG that reads the embedding of the
//! pair it acts in behind its observation (Section 5.6.1).
//!
//! Pretraining visits pairs of a pool. At each visit the meta learner embeds what was observed of the pair before, the
//! base learner plays an episode with that embedding and learns from it, and the gradient of its losses by the
//! embedding trains the meta learner. Adaptation to a new pair does the same with a frozen meta learner; serving
//! changes no weights at all.

use homeostat_core::{AgentId, Persist, SeedTree, Snapshot, Stream};
use homeostat_env::{Action, Env, EnvSpec};
use homeostat_nn::Kernel;
use homeostat_rl::{
    AgentContext, AlgorithmConfig, EmbeddingTable, Outcome, Policy, RecurrentPpo, Sampling,
    Workspace,
};

use crate::base_learner::BaseLearner;
use crate::standardizer::RunningMoments;
use crate::{
    Adaptation, Bundle, Embedding, Error, MetaLearnerConfig, MetaTape, Pair, PairEnvironment,
    ReinforcementTask, Result, StepWidths, Trajectory,
};

/// Which trajectories of a pair the meta learner reads when the base learner comes back to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// Those of all visits (Section 5.6.1).
    AllVisits,
    /// Those of the present visit: each visit begins as adaptation to a new pair does, with nothing observed.
    PresentVisit,
}

/// Settings of a reinforcement-learning base learner.
#[derive(Debug, Clone, PartialEq)]
pub struct ReinforcementConfig {
    /// The algorithm. The number of environments and PPO's steps between updates follow from the visits.
    pub algorithm: AlgorithmConfig,
    /// Whether it reads nothing of a pair, its embedding, or its true parameters.
    pub adaptation: Adaptation,
    /// The meta learner of FLASH.
    pub meta: MetaLearnerConfig,
    /// Units of memory of a recurrent policy.
    pub memory_units: usize,
    /// Pairs that are visited at once.
    pub pairs_per_visit: usize,
    /// Episodes of each of them in a visit.
    pub episodes_per_visit: usize,
    /// What the meta learner remembers from visit to visit.
    pub memory: Memory,
}

/// What one visit led to.
#[derive(Debug, Clone, PartialEq)]
pub struct Visit {
    /// Visits so far, this one included.
    pub number: u64,
    /// Return of the last episode of each pair, by its place in the pool.
    pub returns: Vec<(usize, f64)>,
}

/// A base learner with its meta learner.
pub struct ReinforcementLearner {
    config: ReinforcementConfig,
    spec: EnvSpec,
    /// Steps of an episode.
    steps: usize,
    base: BaseLearner,
    task: ReinforcementTask,
    pairs: Vec<KnownPair>,
    /// Of the rows of trajectories; frozen with the meta learner.
    moments: RunningMoments,
    draws: Stream,
    order: Vec<u64>,
    visits: u64,
    seeds: SeedTree,
    workspace: Workspace,
    tape: MetaTape,
}

/// A pair that the learner keeps in mind. Its place is its row in the table of embeddings.
#[derive(Debug, Clone)]
struct KnownPair {
    name: Pair,
    parameters: Vec<f32>,
    episodes: u64,
    /// Sum and number of squared rewards: rewards are divided by their root mean square, so that pairs with large
    /// rewards do not outweigh the others.
    squares: f64,
    rewards: u64,
}

/// One episode of one environment.
struct Played {
    trajectories: Vec<Trajectory>,
    total: f64,
}

impl ReinforcementLearner {
    /// A learner with fresh weights for this pool.
    pub fn new(
        config: ReinforcementConfig,
        spec: &EnvSpec,
        pool: &[PairEnvironment],
        seeds: &SeedTree,
    ) -> Result<Self> {
        for (name, value) in [
            ("pool", pool.len()),
            ("pairs_per_visit", config.pairs_per_visit),
            ("episodes_per_visit", config.episodes_per_visit),
        ] {
            if value == 0 {
                return Err(Error::Setting { name, value: "0".to_owned(), expected: "at least 1" });
            }
        }
        let Some(steps) = spec.time_limit else {
            return Err(Error::Setting {
                name: "time limit",
                value: "absent".to_owned(),
                expected: "an environment whose episodes end",
            });
        };
        let parameters = pool[0].parameters.len();
        for pair in pool {
            let found = pair.parameters.len();
            if found != parameters {
                return Err(Error::Width { what: "a pair", found, expected: parameters });
            }
        }
        let width = match config.adaptation {
            Adaptation::Plain | Adaptation::Transfer | Adaptation::Rl2 => 0,
            Adaptation::Flash => config.meta.embedding,
            Adaptation::Oracle => parameters,
        };
        let agent = AgentId::new(0);
        let context = AgentContext { agent, spec: spec.clone(), seeds: seeds.child("base") };
        let table = EmbeddingTable::new(pool.len(), width, config.pairs_per_visit);
        let base = base_learner(&config, &context, table, steps as usize)?;
        let widths = StepWidths { state: spec.observation.len(), action: spec.action.len() };
        let mut task = ReinforcementTask::register_base_learner(
            "reinforcement",
            widths,
            config.meta,
            &seeds.child("meta"),
        )?;
        let known = |pair: &PairEnvironment| KnownPair {
            name: pair.pair.clone(),
            parameters: pair.parameters.clone(),
            episodes: 0,
            squares: 0.0,
            rewards: 0,
        };
        pool.iter().for_each(|pair| task.register_pair(pair.pair.clone()));
        Ok(Self {
            base,
            moments: RunningMoments::new(widths.state + widths.action + 1),
            pairs: pool.iter().map(known).collect(),
            spec: spec.clone(),
            steps: steps as usize,
            draws: seeds.stream("draws"),
            order: Vec::new(),
            visits: 0,
            seeds: seeds.clone(),
            workspace: Workspace::new(Kernel::best()),
            tape: MetaTape::default(),
            config,
            task,
        })
    }

    /// The settings.
    pub fn config(&self) -> &ReinforcementConfig {
        &self.config
    }

    /// Visits so far.
    pub fn visits(&self) -> u64 {
        self.visits
    }

    /// Switches updates of the meta learner on or off (`ToggleMetaModelUpdate`).
    pub fn set_meta_updates(&mut self, is_updating: bool) {
        self.task.set_meta_updates(is_updating);
    }

    /// Pretrains until `visits` visits were made since the beginning, and passes each to `each`. Pairs come in random
    /// order, each as often as the others.
    pub fn pretrain(
        &mut self,
        pool: &[PairEnvironment],
        visits: u64,
        each: &mut dyn FnMut(&Visit),
    ) -> Result<()> {
        if pool.len() != self.pairs.len() {
            let (found, expected) = (pool.len(), self.pairs.len());
            return Err(Error::Width { what: "the pool", found, expected });
        }
        while self.visits < visits {
            let chosen: Vec<usize> =
                (0..self.config.pairs_per_visit).map(|_| self.next_pair()).collect();
            let mut envs = chosen
                .iter()
                .map(|place| Ok(pool[*place].make()?))
                .collect::<Result<Vec<Box<dyn Env>>>>()?;
            if self.config.memory == Memory::PresentVisit {
                let names = chosen.iter().map(|place| self.pairs[*place].name.clone());
                names.for_each(|name| self.task.register_pair(name));
            }
            self.base.visit(&chosen);
            let progress = self.visits as f64 / visits as f64;
            let mut returns = Vec::new();
            for _ in 0..self.config.episodes_per_visit {
                returns = self.learn_from_episode(&mut envs, &chosen, progress)?;
            }
            self.visits += 1;
            let returns = chosen.into_iter().zip(returns).collect();
            each(&Visit { number: self.visits, returns });
        }
        Ok(())
    }

    /// A learner for one new pair that starts from the weights of this one, with its meta learner frozen. `algorithm`
    /// has the settings for adaptation.
    pub fn for_new_pair(
        &self,
        pair: &PairEnvironment,
        algorithm: AlgorithmConfig,
        seeds: &SeedTree,
    ) -> Result<Self> {
        let config = ReinforcementConfig { algorithm, ..self.config.clone() };
        let mut new = Self::new(config, &self.spec, std::slice::from_ref(pair), seeds)?;
        let mut networks = Snapshot::default();
        self.base.save_networks(&mut networks);
        new.base.load_networks(&networks)?;
        new.task.take_meta_learner(self.task.meta().clone());
        new.task.set_meta_updates(false);
        new.moments = self.moments.clone();
        Ok(new)
    }

    /// Trains the base learner on the only pair of this learner (fine-tuning), and returns the returns of all
    /// episodes, `pairs_per_visit` of them for each round.
    pub fn adapt(&mut self, pair: &PairEnvironment, rounds: u64) -> Result<Vec<f64>> {
        let slots = vec![0; self.config.pairs_per_visit];
        let mut returns = Vec::new();
        let mut envs =
            slots.iter().map(|_| Ok(pair.make()?)).collect::<Result<Vec<Box<dyn Env>>>>()?;
        if self.config.adaptation != Adaptation::Rl2 {
            self.base.visit(&slots);
        }
        for round in 0..rounds {
            let progress = round as f64 / rounds as f64;
            returns.extend(self.learn_from_episode(&mut envs, &slots, progress)?);
        }
        Ok(returns)
    }

    /// Plays episodes in the only pair of this learner without changing any weight, and returns their returns. Each
    /// begins with the embedding of all that was observed before.
    pub fn serve(
        &mut self,
        pair: &PairEnvironment,
        episodes: usize,
        sampling: Sampling,
    ) -> Result<Vec<f64>> {
        let mut env = pair.make()?;
        let mut returns = Vec::with_capacity(episodes);
        for _ in 0..episodes {
            let seed = self.next_seed(0);
            let played = self.play_served(&mut *env, seed, sampling)?;
            returns.push(played.total);
            self.observe(0, played)?;
        }
        Ok(returns)
    }

    /// Plays episodes in the only pair of this learner, and neither learns nor remembers anything of them: equal seeds
    /// judge different learners on the same episodes.
    pub fn judge(
        &mut self,
        pair: &PairEnvironment,
        episodes: usize,
        seeds: &SeedTree,
    ) -> Result<Vec<f64>> {
        let mut env = pair.make()?;
        let before = match &self.base {
            BaseLearner::Recurrent(learner) => Some(learner.remembered(0).clone()),
            BaseLearner::Conditioned(_) => None,
        };
        let (pairs, draws) = (self.pairs.clone(), self.draws.clone());
        let episode = |episode| {
            let seed = seeds.seed(&format!("episode/{episode}"));
            Ok(self.play_served(&mut *env, seed, Sampling::Greedy)?.total)
        };
        let returns = (0..episodes).map(episode).collect();
        if let (BaseLearner::Recurrent(learner), Some(before)) = (&mut self.base, before) {
            learner.recall(0, before);
        }
        (self.pairs, self.draws) = (pairs, draws);
        returns
    }

    /// The embedding of a pair after all that was observed of it.
    pub fn embedding(&mut self, place: usize) -> Result<Embedding> {
        let bundle = self.task.bundle(&self.pairs[place].name)?;
        let bundle = bundle.standardised(&self.moments.standardizer());
        let numbers =
            self.task.meta().embed(self.workspace.kernel(), &[&bundle], &mut self.tape)?;
        Ok(Embedding(numbers.to_vec()))
    }

    /// The policy for a pair, with its present embedding as a constant. A recurrent policy has no such form.
    pub fn policy(&mut self, place: usize) -> Result<Policy> {
        self.refresh_embedding(place)?;
        match &self.base {
            BaseLearner::Conditioned(learner) => Ok(learner.policy_of(place)),
            BaseLearner::Recurrent(_) => Err(Error::Setting {
                name: "adaptation",
                value: "rl2".to_owned(),
                expected: "another one: a recurrent policy is not a policy file",
            }),
        }
    }

    fn next_pair(&mut self) -> usize {
        if self.order.is_empty() {
            self.order = (0..self.pairs.len() as u64).collect();
            self.draws.shuffle(&mut self.order);
        }
        self.order.pop().expect("it was just filled") as usize
    }

    /// Embeds, plays and learns from one episode in each environment; the environment of each slot belongs to the pair
    /// at that place.
    fn learn_from_episode(
        &mut self,
        envs: &mut [Box<dyn Env>],
        places: &[usize],
        progress: f64,
    ) -> Result<Vec<f64>> {
        let embedded = self.embed_for_training(places)?;
        self.base.clear_gradients();
        let played = self.play(envs, places, progress)?;
        self.train_meta_learner(&embedded)?;
        let returns = played.iter().map(|played| played.total).collect();
        for (place, played) in places.iter().zip(played) {
            self.observe(*place, played)?;
        }
        Ok(returns)
    }

    /// Writes the embeddings of these pairs into the table, and returns those that the meta learner made.
    fn embed_for_training(&mut self, places: &[usize]) -> Result<Vec<usize>> {
        let mut embedded: Vec<usize> = Vec::new();
        let mut bundles: Vec<Bundle> = Vec::new();
        let standardizer = self.moments.standardizer();
        for place in places {
            if embedded.contains(place) {
                continue;
            }
            match self.config.adaptation {
                Adaptation::Plain | Adaptation::Transfer | Adaptation::Rl2 => {}
                Adaptation::Oracle => {
                    self.base.set_embedding(*place, &self.pairs[*place].parameters);
                }
                Adaptation::Flash => match self.task.bundle(&self.pairs[*place].name) {
                    Ok(bundle) => {
                        bundles.push(bundle.standardised(&standardizer));
                        embedded.push(*place);
                    }
                    // Of a pair that nothing was observed of, nothing is known.
                    Err(Error::NoSamples { .. }) => {
                        let zero = vec![0.0; self.config.meta.embedding];
                        self.base.set_embedding(*place, &zero);
                    }
                    Err(error) => return Err(error),
                },
            }
        }
        if embedded.is_empty() {
            return Ok(embedded);
        }
        let bundles: Vec<&Bundle> = bundles.iter().collect();
        let kernel = self.workspace.kernel();
        let embeddings =
            self.task.meta_mut().embed_in_training(kernel, &bundles, &mut self.tape)?;
        for (place, embedding) in
            embedded.iter().zip(embeddings.chunks_exact(self.config.meta.embedding))
        {
            self.base.set_embedding(*place, embedding);
        }
        Ok(embedded)
    }

    fn train_meta_learner(&mut self, embedded: &[usize]) -> Result<()> {
        if embedded.is_empty() || !self.task.meta().is_updating() {
            return Ok(());
        }
        let width = self.config.meta.embedding;
        let mut gradient = vec![0.0; embedded.len() * width];
        for (place, gradient) in embedded.iter().zip(gradient.chunks_exact_mut(width)) {
            self.base.gradient(*place, gradient);
        }
        let kernel = self.workspace.kernel();
        self.task.meta().backward(kernel, &gradient, &mut self.tape);
        self.task.meta_mut().step(kernel, &self.tape)
    }

    /// One episode in each environment, from which the base learner learns.
    fn play(
        &mut self,
        envs: &mut [Box<dyn Env>],
        places: &[usize],
        progress: f64,
    ) -> Result<Vec<Played>> {
        let mut recorders: Vec<Recorder> = Vec::with_capacity(envs.len());
        let width = self.spec.observation.len();
        let mut obs = vec![0.0; envs.len() * width];
        for ((env, place), row) in envs.iter_mut().zip(places).zip(obs.chunks_exact_mut(width)) {
            row.copy_from_slice(env.reset(Some(self.next_seed(*place)))?);
            recorders.push(Recorder::default());
        }
        let mut actions = vec![Action::Discrete(0); envs.len()];
        for _ in 0..self.steps {
            self.base.act(&obs, &mut actions, &mut self.workspace)?;
            for (slot, (env, place)) in envs.iter_mut().zip(places).enumerate() {
                let row = &mut obs[slot * width..][..width];
                let step = env.step(&actions[slot])?;
                recorders[slot].take(row, &actions[slot], step.reward);
                let outcome = Outcome {
                    reward: self.pairs[*place].scaled(step.reward),
                    terminated: step.terminated,
                    truncated: step.truncated,
                    next_obs: step.obs,
                };
                let (is_done, next) = (step.done(), step.obs.to_vec());
                let seen = as_read(step.reward);
                let action = &actions[slot];
                self.base.record(slot, action, seen, outcome, &mut self.workspace)?;
                row.copy_from_slice(&next);
                if is_done {
                    recorders[slot].end();
                    row.copy_from_slice(env.reset(None)?);
                }
            }
            self.base.learn(progress, &mut self.workspace)?;
        }
        Ok(recorders.into_iter().map(Recorder::finish).collect())
    }

    fn play_served(&mut self, env: &mut dyn Env, seed: u64, sampling: Sampling) -> Result<Played> {
        let policy = match self.base {
            BaseLearner::Conditioned(_) => Some(self.policy(0)?),
            BaseLearner::Recurrent(_) => None,
        };
        let mut obs = env.reset(Some(seed))?.to_vec();
        let mut recorder = Recorder::default();
        let mut action = Action::Discrete(0);
        let workspace = &mut self.workspace;
        for _ in 0..self.steps {
            match (&policy, &mut self.base) {
                (Some(policy), _) => {
                    policy.act(&obs, sampling, &mut self.draws, &mut action, workspace);
                }
                (None, BaseLearner::Recurrent(learner)) => {
                    learner.act_in(0, &obs, sampling, &mut action, workspace)?;
                }
                (None, BaseLearner::Conditioned(_)) => unreachable!("it has a policy"),
            }
            let step = env.step(&action)?;
            recorder.take(&obs, &action, step.reward);
            if let BaseLearner::Recurrent(learner) = &mut self.base {
                learner.remember(0, &action, as_read(step.reward), step.done());
            }
            let is_done = step.done();
            obs.copy_from_slice(step.obs);
            if is_done {
                recorder.end();
                obs.copy_from_slice(env.reset(None)?);
            }
        }
        Ok(recorder.finish())
    }

    fn observe(&mut self, place: usize, played: Played) -> Result<()> {
        if !self.config.adaptation.reads_embedding() {
            return Ok(());
        }
        for trajectory in played.trajectories {
            if self.task.meta().is_updating() {
                self.moments.add(&trajectory.rows);
            }
            self.task.insert(&self.pairs[place].name, trajectory)?;
        }
        Ok(())
    }

    fn refresh_embedding(&mut self, place: usize) -> Result<()> {
        match self.config.adaptation {
            Adaptation::Plain | Adaptation::Transfer | Adaptation::Rl2 => {}
            Adaptation::Oracle => self.base.set_embedding(place, &self.pairs[place].parameters),
            Adaptation::Flash => match self.embedding(place) {
                Ok(embedding) => self.base.set_embedding(place, &embedding.0),
                Err(Error::NoSamples { .. }) => {
                    let zero = vec![0.0; self.config.meta.embedding];
                    self.base.set_embedding(place, &zero);
                }
                Err(error) => return Err(error),
            },
        }
        Ok(())
    }

    /// Every episode of a pair has a seed of its own, whatever was played in between.
    fn next_seed(&mut self, place: usize) -> u64 {
        let pair = &mut self.pairs[place];
        pair.episodes += 1;
        self.seeds.seed(&format!("{}/{}", pair.name, pair.episodes))
    }
}

impl KnownPair {
    fn scaled(&mut self, reward: f64) -> f64 {
        self.squares += reward * reward;
        self.rewards += 1;
        reward / (self.squares / self.rewards as f64).sqrt().max(1e-6)
    }
}

/// Writes down what happens in one environment.
#[derive(Default)]
struct Recorder {
    rows: Vec<f32>,
    of_trajectory: f64,
    total: f64,
    trajectories: Vec<Trajectory>,
}

impl Recorder {
    fn take(&mut self, obs: &[f32], action: &Action, reward: f64) {
        self.rows.extend_from_slice(obs);
        match action {
            Action::Discrete(choice) => self.rows.push(*choice as f32),
            Action::MultiDiscrete(choices) => {
                self.rows.extend(choices.iter().map(|choice| *choice as f32));
            }
            Action::Continuous(values) => self.rows.extend_from_slice(values),
        }
        self.rows.push(as_read(reward));
        self.of_trajectory += reward;
        self.total += reward;
    }

    fn end(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        let total_reward = std::mem::take(&mut self.of_trajectory);
        if !rows.is_empty() {
            self.trajectories.push(Trajectory { rows, total_reward });
        }
    }

    fn finish(mut self) -> Played {
        self.end();
        Played { trajectories: self.trajectories, total: self.total }
    }
}

/// A reward as meta learners and recurrent policies read it: rewards of different pairs differ by orders of magnitude.
fn as_read(reward: f64) -> f32 {
    (reward.signum() * reward.abs().ln_1p()) as f32
}

fn base_learner(
    config: &ReinforcementConfig,
    context: &AgentContext,
    table: EmbeddingTable,
    steps: usize,
) -> Result<BaseLearner> {
    let envs = config.pairs_per_visit;
    if config.adaptation != Adaptation::Rl2 {
        let algorithm = with_visits(&config.algorithm, envs, steps);
        return Ok(BaseLearner::Conditioned(algorithm.build_conditioned(context, table)?));
    }
    // The gradient goes back through the whole visit: to explore in one episode pays in the next.
    let steps = steps * config.episodes_per_visit;
    let AlgorithmConfig::Ppo(ppo) = with_visits(&config.algorithm, envs, steps) else {
        return Err(Error::Setting {
            name: "algorithm",
            value: config.algorithm.algorithm().name().to_owned(),
            expected: "ppo, of which RL2 is a recurrent variant",
        });
    };
    let learner = RecurrentPpo::new(&ppo, config.memory_units, context)?;
    Ok(BaseLearner::Recurrent(Box::new(learner)))
}

/// The settings with one environment for each pair of a visit, and one update of PPO at its end.
fn with_visits(algorithm: &AlgorithmConfig, envs: usize, steps: usize) -> AlgorithmConfig {
    let mut algorithm = algorithm.clone();
    match &mut algorithm {
        AlgorithmConfig::Ppo(config) => {
            config.num_envs = envs;
            config.steps_per_update = steps;
        }
        AlgorithmConfig::Dqn(config) => config.num_envs = envs,
        AlgorithmConfig::Ddpg(config) => config.num_envs = envs,
        // These are refused when the learner is built.
        AlgorithmConfig::QLearning(_) | AlgorithmConfig::Reinforce(_) => {}
    }
    algorithm
}

impl Persist for ReinforcementLearner {
    /// Between two visits. Trajectories are saved where they outlive a visit.
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.base.save(&format!("{name}/base"), out);
        self.task.meta().save(&format!("{name}/meta"), out);
        self.moments.save(&format!("{name}/moments"), out);
        self.draws.save(&format!("{name}/draws"), out);
        out.put_u64(&format!("{name}/order"), self.order.clone());
        out.put_u64(&format!("{name}/progress"), [self.visits, self.order.len() as u64]);
        let episodes = self.pairs.iter().flat_map(|pair| [pair.episodes, pair.rewards]);
        out.put_u64(&format!("{name}/episodes"), episodes.collect::<Vec<_>>());
        let squares: Vec<u64> = self.pairs.iter().map(|pair| pair.squares.to_bits()).collect();
        out.put_u64(&format!("{name}/squares"), squares);
        if self.config.memory == Memory::AllVisits {
            self.task.save_buffers(&format!("{name}/buffers"), out);
        }
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.base.load(&format!("{name}/base"), from)?;
        self.task.meta_mut().load(&format!("{name}/meta"), from)?;
        self.moments.load(&format!("{name}/moments"), from)?;
        self.draws.load(&format!("{name}/draws"), from)?;
        let progress = from.u64s(&format!("{name}/progress"), 2)?;
        let (visits, left) = (progress[0], progress[1] as usize);
        self.order = from.u64s(&format!("{name}/order"), left)?.to_vec();
        self.visits = visits;
        let episodes = from.u64s(&format!("{name}/episodes"), 2 * self.pairs.len())?;
        let squares = from.u64s(&format!("{name}/squares"), self.pairs.len())?;
        for ((pair, counts), squares) in
            self.pairs.iter_mut().zip(episodes.chunks_exact(2)).zip(squares)
        {
            (pair.episodes, pair.rewards) = (counts[0], counts[1]);
            pair.squares = f64::from_bits(*squares);
        }
        if self.config.memory == Memory::AllVisits {
            self.task.load_buffers(&format!("{name}/buffers"), from)?;
        }
        Ok(())
    }
}
