//! One object's recommender with everything that it remembers.

use std::collections::{BTreeMap, BTreeSet};

use homeostat_core::{
    Bounds, Bytes, Fraction, Millicores, Persist, Result as CoreResult, SimDuration, SimTime,
    Snapshot, Stream,
};
use homeostat_decide::{
    Allocation, AllocationBounds, Decision, Features, GuardReason, Guards, GuardsConfig, Hpa,
    HpaConfig, HpaMetric, HpaVpaConfig, JointConfig, MetricsTrust, ObjectiveKind, Observation,
    Policy, Proposal, Reason, ReplicaSample, ScalingBehavior, SloStatus, StepLimit, StepSize, Vpa,
    VpaConfig, decide,
};
use homeostat_rl::{LearnedPolicy, Sampling};

use super::format::in_words;
use super::inputs::{ContainerInputs, Inputs, Judged, PodInputs};
use super::split::{ContainerShare, Division};
use crate::api::{ConditionReason, ContainerPlan, Goal, Mode, Plan, Recommender};
use crate::cluster::ResourceLimits;
use crate::guard::Pause;
use crate::learn::{Advice, LastAction, Transition, propose};
use crate::measure::{Problems, Reading, SuddenZero, TrustConfig, Verdict};
use crate::update::{Sizes, TOLERANCE};

/// A pod that was killed for want of memory is replaced by a larger one, however little larger: for
/// so long, as pods are changed one by one.
const OOM_MEMORY: SimDuration = SimDuration::from_secs(600);
/// No step adds more than the larger of a doubling and four pods.
const STEP_UP: StepSize = StepSize { absolute: 4, relative: Fraction::ONE };
/// No step removes more than half of the pods.
const STEP_DOWN: StepSize = StepSize { absolute: 1, relative: Fraction::from_percent(50) };

/// What an object should have, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The decision for a pod and their number, with every reason.
    pub decision: Decision,
    /// Every reason in words: the recommender's, the guardrails', then ours.
    pub reasons: Vec<String>,
    /// What each container should request.
    pub containers: BTreeMap<String, (Millicores, Bytes)>,
    /// What it would be if nothing had a bound.
    pub uncapped_containers: BTreeMap<String, (Millicores, Bytes)>,
    /// Whether the numbers are believed.
    pub verdict: Verdict,
    /// Whether the objective's figure is what it should be; none if it is not known.
    pub is_reached: Option<bool>,
    /// Whether the pods keep the objective; none if that is not known, as when a throughput is not
    /// reached and they have little to do.
    pub is_kept: Option<bool>,
    /// Pods that the horizontal autoscaler would ask for by itself.
    pub hpa_replicas: Option<u32>,
    /// CPU and memory that the vertical autoscaler would give a pod by itself.
    pub vpa_size: Option<(Millicores, Bytes)>,
    /// Why those two.
    pub alternative_reasons: Vec<String>,
    /// Whether a guardrail stands between recommendation and outcome.
    pub is_limited: bool,
    /// Whether a change was taken back.
    pub is_reverted: bool,
    /// Why another recommender stands in for the one that was asked for, if so.
    pub absence: Option<Absence>,
}

/// Why another recommender stands in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absence {
    /// For programs.
    pub reason: ConditionReason,
    /// For people.
    pub words: String,
}

/// One object's recommender.
pub struct Engine {
    plan: Plan,
    /// What the namespace lets containers request, by their names.
    confines: BTreeMap<String, ResourceLimits>,
    trust: TrustConfig,
    policy: Box<dyn Policy>,
    guards: Guards,
    sudden_zero: SuddenZero,
    hpa: Hpa,
    vpa: Vpa,
    /// The history of each container, to divide a pod by.
    containers: BTreeMap<String, Vpa>,
    /// What containers were last told to have; empty before that, and where nothing is done.
    heading: Sizes,
    /// Kills for want of memory that the recommender has not heard of: it was not asked.
    unheard_kills: u32,
    /// A policy file that is served.
    learned: Option<Served>,
    /// What the policy file that was served before a restart remembered.
    restored: Option<Snapshot>,
    /// What a learner is shown.
    features: Option<Features>,
    /// What a learner did last.
    last_action: LastAction,
}

impl Engine {
    /// The engine of a plan. For recommenders that learn, `joint` is there to stand in.
    pub fn new(plan: Plan, trust: TrustConfig) -> homeostat_decide::Result<Self> {
        let metrics = hpa_metrics(&plan);
        let (min_replicas, max_replicas) = (plan.replicas.low(), plan.replicas.high());
        let behavior = plan.behavior(ScalingBehavior::default());
        let hpa = HpaConfig {
            metrics: if metrics.is_empty() {
                HpaConfig::default().metrics
            } else {
                metrics.clone()
            },
            min_replicas,
            max_replicas,
            behavior,
            ..HpaConfig::default()
        };
        let policy: Box<dyn Policy> = match &plan.recommender {
            Recommender::HpaVpa => {
                Box::new(HpaVpaConfig { hpa: hpa.clone(), vpa: vpa_config() }.build()?)
            }
            Recommender::Joint | Recommender::Policy(_) | Recommender::External(..) => {
                Box::new(joint(&plan, &metrics).build()?)
            }
        };
        // Bounds follow from the containers at every decision.
        let anything = AllocationBounds {
            replicas: plan.replicas,
            cpu: at_least_one((1, u64::MAX), Millicores::new),
            memory: at_least_one((1, u64::MAX), Bytes::new),
        };
        Ok(Self {
            trust,
            policy,
            guards: Guards::bounds_only(anything)?,
            sudden_zero: SuddenZero::default(),
            hpa: hpa.build()?,
            vpa: vpa_config().build()?,
            containers: BTreeMap::new(),
            heading: Sizes::new(),
            unheard_kills: 0,
            learned: None,
            restored: None,
            features: None,
            last_action: LastAction::default(),
            confines: BTreeMap::new(),
            plan,
        })
    }

    /// The plan that it was made for.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What the namespace lets containers request from now on, by their names.
    pub fn confine(&mut self, confines: BTreeMap<String, ResourceLimits>) {
        self.confines = confines;
    }

    /// Bounds of a container: what people wrote, inside of what the namespace allows.
    fn container(&self, name: &str) -> ContainerPlan {
        let plan = self.plan.container(name);
        let Some(confines) = self.confines.get(name) else { return plan };
        ContainerPlan {
            cpu: plan.cpu.map(|cpu| cpu.inside(&confines.cpu)),
            memory: plan.memory.map(|memory| memory.inside(&confines.memory)),
        }
    }

    /// What a learner is shown before it advises; none while there are no pods to learn from.
    pub fn show(&mut self, inputs: &Inputs) -> Option<Transition> {
        let (from, sizes) = self.present(inputs)?;
        let judged = inputs.judge(&self.plan, &self.trust);
        let obs = judged.observation(inputs, &self.plan, from);
        let bounds = self.bounds(&sizes);
        let features = self.features.get_or_insert_with(|| Features::new(bounds));
        features.set_bounds(bounds);
        let state = features.observe(&obs);
        Some(Transition { state, reward: self.last_action.reward(&state, &obs, &bounds), bounds })
    }

    /// What the workload should have now; none while it has no pods to learn from. A learner's
    /// advice counts before what the recommender itself says.
    pub fn recommend(
        &mut self,
        inputs: &Inputs,
        pause: Option<Pause>,
        advice: Option<&Advice>,
    ) -> Option<Outcome> {
        let (from, sizes) = self.present(inputs)?;
        let mut judged = inputs.judge(&self.plan, &self.trust);
        let zero = self.sudden_zero.judge(inputs.now, self.trust.hold, judged.uses_no_cpu());
        judged.problems.usage.extend(zero.map(|problem| ("cpu".to_owned(), problem)));
        let mut obs = judged.observation(inputs, &self.plan, from);
        let is_reached = judged.objective.map(|figure| match self.plan.goal {
            Some(Goal::Throughput { threshold, .. }) => figure >= threshold,
            _ => obs.latency.is_some_and(|latency| latency <= obs.slo.threshold()),
        });
        let is_kept = is_reached.filter(|&reached| reached || self.may_be_why(&obs));
        obs.slo_status = Some(match is_kept {
            Some(true) => SloStatus::Met,
            Some(false) => SloStatus::Violated,
            None => SloStatus::Unknown,
        });
        let (hpa_replicas, vpa_size, alternative_reasons) = self.alternatives(&obs);
        self.learn_containers(inputs, &judged);

        obs.oom_kills = obs.oom_kills.saturating_add(self.unheard_kills);
        let config = self.guards_config(&sizes, pause);
        self.guards.reconfigure(config).expect("bounds above zero and steps above zero");
        let refused = self.serve(advice);
        let unserved = refused.map(|why| Advice::Unavailable { why });
        let advice = unserved.as_ref().or(advice);
        let learned = self.learned.as_mut().map(|served| &mut served.policy);
        let mut advised = Advised { inner: self.policy.as_mut(), learned, advice };
        let decision = decide(&mut advised, &mut self.guards, &obs);
        let trust = self.guards.metrics_trust();
        let is_asked = matches!(trust, MetricsTrust::Full | MetricsTrust::UtilizationOnly);
        self.unheard_kills = if is_asked { 0 } else { obs.oom_kills };
        if is_asked {
            self.last_action.note(advice, decision.from(), decision.applied());
        }
        let spoken = |reason: &Reason| in_words(reason, &self.plan, judged.objective);
        let mut reasons: Vec<String> = decision.reasons().iter().map(spoken).collect();
        let absence = advice.and_then(|advice| {
            let words = format!("{advice}; {} recommends in its place", self.policy.name());
            advice.absence().map(|reason| Absence { reason, words })
        });
        reasons.extend(absence.iter().map(|absence| absence.words.clone()));
        let Problems { usage, other } = judged.problems;
        let verdict = Verdict { trust, problems: usage.into_iter().chain(other).collect() };
        for (name, problem) in &verdict.problems {
            reasons.push(format!("{name}: {problem}"));
        }
        let is_reverted = decision
            .reasons()
            .iter()
            .any(|reason| matches!(reason, Reason::Guard(GuardReason::RolledBack { .. })));
        let acts = self.acts();
        let shares = self.shares(&sizes, inputs.now);
        let plans = &sizes.keys().map(|name| (name.clone(), self.container(name))).collect();
        let may_shrink = is_kept != Some(false) && !self.guards.holds_after_rollback();
        let may_move = trust == MetricsTrust::Full && pause.is_none() && may_shrink;
        let (from, to) = (&from, decision.applied());
        let (may_grow, is_bounded) = (is_asked, true);
        let division =
            Division { plans, from, to, may_move, may_shrink, may_grow, pause, is_bounded };
        let containers = division.split(&shares);
        let uncapped = Division {
            to: decision.proposed(),
            may_move: true,
            may_shrink: true,
            pause: None,
            is_bounded: false,
            ..division
        };
        let uncapped_containers = uncapped.split(&shares);
        self.heading = if acts { containers.clone() } else { Sizes::new() };
        Some(Outcome {
            is_limited: decision.is_limited(),
            decision,
            reasons,
            containers,
            uncapped_containers,
            verdict,
            is_reached,
            is_kept,
            hpa_replicas,
            vpa_size,
            alternative_reasons,
            is_reverted,
            absence,
        })
    }

    /// What a pod and its containers have; none without pods. Pods are changed one by one: while
    /// they differ and some have what they were told to have, that is what counts. A decision that
    /// went by their mean would find it near enough half-way, and change those again that have
    /// changed already. If none has it yet, the largest counts: to keep that takes nothing from
    /// anybody.
    fn present(&self, inputs: &Inputs) -> Option<(Allocation, Sizes)> {
        let mean = inputs.allocation()?;
        let first = inputs.sizes().next()?;
        if inputs.sizes().all(|sizes| are_near(&sizes, &first)) {
            return Some((mean, first));
        }
        let sizes = if inputs.sizes().any(|sizes| are_near(&sizes, &self.heading)) {
            self.heading.clone()
        } else {
            largest(inputs.sizes())
        };
        let cpu = sizes.values().map(|(cpu, _)| cpu.millicores()).sum();
        let memory = sizes.values().map(|(_, memory)| memory.bytes()).sum();
        let (cpu, memory) = (Millicores::new(cpu), Bytes::new(memory));
        Some((Allocation { cpu, memory, ..mean }, sizes))
    }

    /// Whether pods may be why the objective is broken. A throughput falls as well when fewer
    /// requests come, and then pods have little to do.
    fn may_be_why(&self, obs: &Observation) -> bool {
        const BUSY: f64 = 0.5;
        let is_throughput = matches!(self.plan.goal, Some(Goal::Throughput { .. }));
        !is_throughput || obs.mean_cpu_use().is_some_and(|used| used >= BUSY)
    }

    /// What Kubernetes' two autoscalers would do, each by itself.
    fn alternatives(
        &mut self,
        obs: &Observation,
    ) -> (Option<u32>, Option<(Millicores, Bytes)>, Vec<String>) {
        let horizontal = self.hpa.propose(obs);
        let vertical = self.vpa.propose(obs);
        let words = horizontal.reasons.iter().map(|reason| format!("hpa: {reason}"));
        let words = words.chain(vertical.reasons.iter().map(|reason| format!("vpa: {reason}")));
        let is_known = !horizontal
            .reasons
            .iter()
            .any(|reason| matches!(reason, Reason::MetricUnavailable { .. }));
        let size = Millicores::from_cores(vertical.cpu_cores).ok();
        let size = size.map(|cpu| (cpu, Bytes::new(vertical.memory_bytes as u64)));
        (is_known.then_some(horizontal.replicas as u32), size, words.collect())
    }

    /// Bounds of a pod: the sum of those of its containers, and what is not sized as it is.
    fn bounds(&self, sizes: &Sizes) -> AllocationBounds {
        let (mut cpu, mut memory) = ((0, 0), (0, 0));
        for (name, (cpu_request, memory_request)) in sizes {
            let plan = self.container(name);
            let request = cpu_request.millicores();
            let (low, high) = plan.cpu.map_or((request, request), |cpu| {
                (cpu.low().millicores(), cpu.high().millicores())
            });
            cpu = (cpu.0 + low, cpu.1 + high);
            let request = memory_request.bytes();
            let (low, high) = plan
                .memory
                .map_or((request, request), |memory| (memory.low().bytes(), memory.high().bytes()));
            memory = (memory.0 + low, memory.1 + high);
        }
        AllocationBounds {
            replicas: self.plan.replicas,
            cpu: at_least_one(cpu, Millicores::new),
            memory: at_least_one(memory, Bytes::new),
        }
    }

    fn guards_config(&self, sizes: &Sizes, pause: Option<Pause>) -> GuardsConfig {
        let plan = &self.plan;
        // What is only recommended cannot have violated anything.
        let auto_rollback = Some(plan.auto_rollback)
            .filter(|config| self.acts() && config.watch > SimDuration::ZERO);
        GuardsConfig {
            stale_metrics_hold: self.trust.hold,
            hold_while_violated: true,
            auto_rollback,
            steps: vec![StepLimit { up: Some(STEP_UP), down: Some(STEP_DOWN) }],
            canary: (plan.mode == Mode::Canary).then_some(plan.canary),
            pause,
            ..GuardsConfig::bounds_only(self.bounds(sizes))
        }
    }

    /// Takes up the policy file that is to be served, if it is another one. Says why it cannot be.
    fn serve(&mut self, advice: Option<&Advice>) -> Option<String> {
        let Some(Advice::Serve(served)) = advice else {
            self.learned = None;
            return None;
        };
        let bounds = *self.guards.bounds();
        if let Some(known) = self.learned.as_mut().filter(|known| known.version == served.version) {
            known.policy.set_bounds(bounds);
            return None;
        }
        let nothing_is_drawn = Stream::from_seed(0);
        let policy = LearnedPolicy::new(
            &served.version,
            &served.policy,
            bounds,
            Sampling::Greedy,
            nothing_is_drawn,
        );
        match policy {
            Ok(policy) => {
                let mut policy = policy.explaining();
                // What another policy remembered does not fit, and is not needed.
                if let Some(restored) = self.restored.take() {
                    let _ = policy.load("learned", &restored);
                }
                self.learned = Some(Served { version: served.version.clone(), policy });
                None
            }
            Err(error) => {
                self.learned = None;
                Some(format!("{}: {error}", served.version))
            }
        }
    }

    /// Whether decisions are carried out.
    fn acts(&self) -> bool {
        matches!(self.plan.mode, Mode::Auto | Mode::Canary)
    }

    /// Feeds each container's own history.
    fn learn_containers(&mut self, inputs: &Inputs, judged: &Judged) {
        let mut seen: BTreeMap<&str, Vec<(&PodInputs, &ContainerInputs)>> = BTreeMap::new();
        for pod in &judged.pods {
            for container in &pod.containers {
                seen.entry(&container.name).or_default().push((pod, container));
            }
        }
        self.containers.retain(|name, _| seen.contains_key(name.as_str()));
        for (name, replicas) in seen {
            let history = self.containers.entry(name.to_owned()).or_insert_with(container_history);
            let first = replicas[0].1;
            let allocation = Allocation {
                replicas: replicas.len() as u32,
                cpu: first.cpu_request,
                memory: first.memory_request,
            };
            let value = |reading: Option<Reading>| reading.map(|reading| reading.value);
            let sample = |(pod, container): &(&PodInputs, &ContainerInputs)| ReplicaSample {
                started: pod.started,
                is_ready: pod.is_ready,
                served_throughout: pod.served_throughout,
                cpu_request: None,
                cpu_cores: value(container.cpu),
                memory: value(container.memory).map(|bytes| Bytes::new(bytes as u64)),
            };
            let samples: Vec<_> = replicas.iter().map(sample).collect();
            let kills = inputs.oom_kills.get(name).copied().unwrap_or(0);
            history.observe_use(inputs.now, &allocation, kills, &samples);
        }
    }

    fn shares(&self, sizes: &Sizes, now: SimTime) -> BTreeMap<String, ContainerShare> {
        let share = |(name, &(cpu_request, memory_request)): (&String, &(Millicores, Bytes))| {
            let history = self.containers.get(name);
            let (cpu_need, memory_need) = history.map_or((None, None), Vpa::need);
            let is_outside = history
                .map_or((false, false), |history| history.is_outside(cpu_request, memory_request));
            let was_killed = history.is_some_and(|history| history.kills_lately(now) > 0);
            let share = ContainerShare {
                cpu_request,
                memory_request,
                cpu_need,
                memory_need,
                is_outside,
                was_killed,
            };
            (name.clone(), share)
        };
        sizes.iter().map(share).collect()
    }
}

/// A policy file that is served.
struct Served {
    version: String,
    policy: LearnedPolicy,
}

/// A policy that a learner's advice counts before. It is asked all the same, so that it knows
/// the workload when it has to stand in.
struct Advised<'a> {
    inner: &'a mut dyn Policy,
    learned: Option<&'a mut LearnedPolicy>,
    advice: Option<&'a Advice>,
}

impl Policy for Advised<'_> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn propose(&mut self, obs: &Observation) -> Proposal {
        let own = self.inner.propose(obs);
        match (self.advice, &mut self.learned) {
            (Some(Advice::Act(action)), _) => propose(action, &obs.allocation),
            (Some(Advice::Serve(_)), Some(learned)) => learned.propose(obs),
            _ => own,
        }
    }
}

impl Persist for Advised<'_> {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.inner.save(name, out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.inner.load(name, from)
    }
}

/// What an engine remembers, so that a restart loses nothing.
impl Persist for Engine {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.policy.save(&format!("{name}/policy"), out);
        self.guards.save(&format!("{name}/guards"), out);
        self.sudden_zero.save(&format!("{name}/zero"), out);
        self.hpa.save(&format!("{name}/hpa"), out);
        self.vpa.save(&format!("{name}/vpa"), out);
        for (container, history) in &self.containers {
            history.save(&format!("{name}/containers/{container}"), out);
        }
        out.put_u64(&format!("{name}/unheard_kills"), [u64::from(self.unheard_kills)]);
        self.last_action.save(&format!("{name}/last_action"), out);
        if let Some(served) = &self.learned {
            served.policy.save(&format!("{name}/learned"), out);
        }
        if let Some(features) = &self.features {
            features.save(&format!("{name}/features"), out);
        }
        for (container, (cpu, memory)) in &self.heading {
            out.put_u64(&format!("{name}/heading/{container}"), [cpu.millicores(), memory.bytes()]);
        }
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.policy.load(&format!("{name}/policy"), from)?;
        self.guards.load(&format!("{name}/guards"), from)?;
        self.sudden_zero.load(&format!("{name}/zero"), from)?;
        self.hpa.load(&format!("{name}/hpa"), from)?;
        self.vpa.load(&format!("{name}/vpa"), from)?;
        let names_below = |prefix: &str| -> BTreeSet<String> {
            let names = from.iter().filter_map(|(array, _)| array.strip_prefix(prefix));
            names.filter_map(|name| name.split('/').next()).map(str::to_owned).collect()
        };
        let prefix = format!("{name}/containers/");
        self.containers.clear();
        for container in names_below(&prefix) {
            let mut history = container_history();
            history.load(&format!("{prefix}{container}"), from)?;
            self.containers.insert(container, history);
        }
        let prefix = format!("{name}/");
        let learned = format!("{name}/learned/");
        let mut restored = Snapshot::default();
        for (array, items) in from.iter().filter(|(array, _)| array.starts_with(&learned)) {
            restored.put(&array[prefix.len()..], items.clone());
        }
        self.restored = Some(restored);
        // Both are missing in checkpoints of versions without learners.
        let last_action = self.last_action.load(&format!("{name}/last_action"), from);
        self.last_action = last_action.map_or(LastAction::default(), |()| self.last_action);
        let mut features = Features::new(*self.guards.bounds());
        let loaded = features.load(&format!("{name}/features"), from);
        self.features = loaded.ok().map(|()| features);
        let kills = from.u64s(&format!("{name}/unheard_kills"), 1)?[0];
        self.unheard_kills = u32::try_from(kills).unwrap_or(u32::MAX);
        let prefix = format!("{name}/heading/");
        self.heading.clear();
        for container in names_below(&prefix) {
            let size = from.u64s(&format!("{prefix}{container}"), 2)?;
            self.heading.insert(container, (Millicores::new(size[0]), Bytes::new(size[1])));
        }
        Ok(())
    }
}

/// The vertical autoscaler of a pod.
fn vpa_config() -> VpaConfig {
    VpaConfig { oom_memory: OOM_MEMORY, ..VpaConfig::default() }
}

/// A history of one container. The least that the vertical autoscaler gives a pod is no need of
/// a container: a small one would take its part away from a large one.
fn container_history() -> Vpa {
    let config = VpaConfig {
        pod_minimum_cpu: Millicores::ZERO,
        pod_minimum_memory: Bytes::ZERO,
        ..vpa_config()
    };
    config.build().expect("nothing of it makes no sense")
}

/// The plan's metrics, queries after use.
fn hpa_metrics(plan: &Plan) -> Vec<HpaMetric> {
    let queries = plan.query_metrics.iter().enumerate();
    let queries = queries.map(|(index, (_, target))| HpaMetric::Query { index, target: *target });
    plan.resource_metrics.iter().copied().chain(queries).collect()
}

/// The default recommender. A target of CPU use that somebody wrote down is kept; without one
/// the level is learnt from the objective.
fn joint(plan: &Plan, metrics: &[HpaMetric]) -> JointConfig {
    let fixed_fill = metrics.iter().find_map(|metric| match metric {
        HpaMetric::CpuUtilization { target_percent } => Some(*target_percent),
        _ => None,
    });
    let is_cpu = |metric: &&HpaMetric| matches!(metric, HpaMetric::CpuUtilization { .. });
    let default = JointConfig::default();
    JointConfig {
        fixed_fill,
        objective: match plan.goal {
            None => ObjectiveKind::None,
            Some(Goal::Latency { .. }) => ObjectiveKind::Latency,
            Some(Goal::Throughput { .. }) => ObjectiveKind::Throughput,
        },
        metrics: metrics.iter().filter(|metric| !is_cpu(metric)).copied().collect(),
        min_replicas: plan.replicas.low(),
        max_replicas: plan.replicas.high(),
        behavior: plan.behavior(default.behavior),
        vpa: vpa_config(),
        ..default
    }
}

/// The largest that a container of each name has.
fn largest(pods: impl Iterator<Item = Sizes>) -> Sizes {
    let mut largest = Sizes::new();
    for (name, (cpu, memory)) in pods.flatten() {
        let known = largest.entry(name).or_insert((cpu, memory));
        *known = (known.0.max(cpu), known.1.max(memory));
    }
    largest
}

/// Whether two pods have nearly the same, as the updater takes it.
fn are_near(a: &Sizes, b: &Sizes) -> bool {
    let is_near = |a: u64, b: u64| a.abs_diff(b) as f64 <= TOLERANCE * a.max(b) as f64;
    a.len() == b.len()
        && a.iter().all(|(name, (cpu, memory))| {
            b.get(name).is_some_and(|(other_cpu, other_memory)| {
                is_near(cpu.millicores(), other_cpu.millicores())
                    && is_near(memory.bytes(), other_memory.bytes())
            })
        })
}

/// Bounds without zero: a pod without CPU or memory would never answer.
fn at_least_one<T: Copy + PartialOrd + std::fmt::Display>(
    (low, high): (u64, u64),
    unit: fn(u64) -> T,
) -> Bounds<T> {
    Bounds::try_new(unit(low.max(1)), unit(high.max(low).max(1))).expect("low is not above high")
}

#[cfg(test)]
mod closed_loop;
#[cfg(test)]
mod tests;
