//! The recommender of one object, with its state.

mod advised;
mod config;
mod persist;

use std::collections::BTreeMap;

use homeostat_core::{
    Bounds, Bytes, Fraction, Millicores, Persist, SimDuration, SimTime, Snapshot, Stream,
};
use homeostat_decide::{
    Allocation, AllocationBounds, Decision, Features, GuardReason, Guards, GuardsConfig, Hpa,
    HpaConfig, HpaVpaConfig, MemberState, MetricsTrust, Observation, Policy, Proposal, Reason,
    ReplicaSample, ScalingBehavior, SloStatus, StepLimit, StepSize, TeamMember, TeamState, Vpa,
    decide,
};
use homeostat_rl::{LearnedPolicy, Sampling};

use self::advised::{Advised, Served};
use self::config::{container_history, hpa_metrics, joint, vpa_config};
use super::format::reason_text;
use super::inputs::{ContainerInputs, Inputs, Judged, PodInputs};
use super::split::{ContainerShare, Division};
use crate::api::{ConditionReason, ContainerPlan, Goal, Mode, Plan, Recommender};
use crate::guard::Pause;
use crate::learn::{Advice, LastAction, Transition};
use crate::measure::{Problems, Reading, SuddenZero, TrustConfig, Verdict};
use crate::update::{Sizes, TOLERANCE};
use crate::workload::ResourceLimits;

/// No step adds more than the larger of a doubling and four pods.
const STEP_UP: StepSize = StepSize { absolute: 4, relative: Fraction::ONE };
/// No step removes more than half of the pods.
const STEP_DOWN: StepSize = StepSize { absolute: 1, relative: Fraction::from_percent(50) };

/// A recommendation, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The decision about the number and the size of pods, with typed reasons.
    pub decision: Decision,
    /// Every reason as text: those of the recommender, of the guards, then of the engine.
    pub reasons: Vec<String>,
    /// The recommended requests of each container.
    pub containers: BTreeMap<String, (Millicores, Bytes)>,
    /// The recommended requests without bounds.
    pub uncapped_containers: BTreeMap<String, (Millicores, Bytes)>,
    /// How far the metrics are trusted, and their problems.
    pub verdict: Verdict,
    /// Whether the measured latency or throughput meets the SLO; none if it is not known.
    pub is_reached: Option<bool>,
    /// Whether the pods meet the SLO; none if that is not known, such as when a throughput is not
    /// reached and they are idle.
    pub is_slo_met: Option<bool>,
    /// The number of pods that HPA alone would recommend.
    pub hpa_replicas: Option<u32>,
    /// The size of a pod that VPA alone would recommend.
    pub vpa_size: Option<(Millicores, Bytes)>,
    /// What the policy in shadow mode would do, before guards.
    pub shadow: Option<Allocation>,
    /// The reasons of HPA, VPA and the policy in shadow mode.
    pub alternative_reasons: Vec<String>,
    /// Whether a guard changed the proposal.
    pub is_limited: bool,
    /// Whether a change was rolled back.
    pub is_rolled_back: bool,
    /// Why `joint` recommends in place of the recommender of the spec, if it does.
    pub absence: Option<Absence>,
    /// What the other members of its team see of it; none while its metrics are not trusted.
    pub member: Option<MemberState>,
}

/// Why `joint` recommends in place of the recommender of the spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absence {
    /// The reason of the condition `Ready`.
    pub reason: ConditionReason,
    /// Its message.
    pub message: String,
}

/// The recommender of one object.
pub struct Engine {
    plan: Plan,
    /// What the LimitRanges of the namespace allow, by container.
    limits: BTreeMap<String, ResourceLimits>,
    trust: TrustConfig,
    policy: Box<dyn Policy>,
    guards: Guards,
    sudden_zero: SuddenZero,
    hpa: Hpa,
    vpa: Vpa,
    /// The usage history of each container, by which a pod is divided.
    containers: BTreeMap<String, Vpa>,
    /// The last recommended requests; empty before the first, and in modes that apply none.
    target_sizes: Sizes,
    /// Out-of-memory kills while the metrics were not trusted: the recommender did not see them.
    unseen_oom_kills: u32,
    /// The policy file that is served.
    learned: Option<Served>,
    /// The state of the policy file that was served before a restart.
    restored: Option<Snapshot>,
    /// Encodes the observations of an external learner.
    features: Option<Features>,
    /// The last action of an external learner.
    last_action: LastAction,
    /// Encodes what the other members of its team see.
    member: TeamMember,
    /// What it saw of its team last.
    team: Option<TeamState>,
    /// Whether that was before a restart: the other members are not known yet.
    is_team_restored: bool,
}

impl Engine {
    /// The engine of a plan. `joint` stands in for a recommender that learns while it is unavailable.
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
            Recommender::HpaVpa | Recommender::Aware(_) => {
                Box::new(HpaVpaConfig { hpa: hpa.clone(), vpa: vpa_config() }.build()?)
            }
            Recommender::Joint | Recommender::Policy(_) | Recommender::External(..) => {
                Box::new(joint(&plan, &metrics).build()?)
            }
        };
        // The bounds follow from the containers at every decision.
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
            target_sizes: Sizes::new(),
            unseen_oom_kills: 0,
            learned: None,
            restored: None,
            features: None,
            last_action: LastAction::default(),
            member: TeamMember::new(anything),
            team: None,
            is_team_restored: false,
            limits: BTreeMap::new(),
            plan,
        })
    }

    /// The plan that it was made for.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Sets what the LimitRanges of the namespace allow, by container.
    pub fn set_limits(&mut self, limits: BTreeMap<String, ResourceLimits>) {
        self.limits = limits;
    }

    /// The bounds of a container: those of the spec, within the limits of the namespace.
    fn container(&self, name: &str) -> ContainerPlan {
        let plan = self.plan.container(name);
        let Some(limits) = self.limits.get(name) else { return plan };
        ContainerPlan {
            cpu: plan.cpu.map(|cpu| cpu.inside(&limits.cpu)),
            memory: plan.memory.map(|memory| memory.inside(&limits.memory)),
        }
    }

    /// The transition that an external learner answers, once for every reconcile: it advances the
    /// learner's features. None while there are no pods.
    pub fn show(&mut self, inputs: &Inputs) -> Option<Transition> {
        let (from, sizes) = self.current(inputs)?;
        let judged = inputs.judge(&self.plan, &self.trust);
        let obs = judged.observation(inputs, &self.plan, from);
        let bounds = self.bounds(&sizes);
        let features = self.features.get_or_insert_with(|| Features::new(bounds));
        features.set_bounds(bounds);
        let state = features.observe(&obs);
        let reward = self.last_action.reward(&state, &obs, &bounds);
        let Problems { usage, other } = &judged.problems;
        let is_measured = usage.is_empty() && other.is_empty();
        Some(Transition { state, reward, is_measured, bounds })
    }

    /// The recommendation for the workload; none while it has no pods. The advice of a learner
    /// takes precedence over the engine's own policy.
    pub fn recommend(
        &mut self,
        inputs: &Inputs,
        pause: Option<Pause>,
        advice: Option<&Advice>,
    ) -> Option<Outcome> {
        let (from, sizes) = self.current(inputs)?;
        let mut judged = inputs.judge(&self.plan, &self.trust);
        let zero = self.sudden_zero.judge(inputs.now, self.trust.hold, judged.uses_no_cpu());
        judged.problems.usage.extend(zero.map(|problem| ("cpu".to_owned(), problem)));
        let mut obs = judged.observation(inputs, &self.plan, from);
        let is_reached = judged.objective.map(|figure| match self.plan.goal {
            Some(Goal::Throughput { threshold, .. }) => figure >= threshold,
            _ => obs.latency.is_some_and(|latency| latency <= obs.slo.threshold()),
        });
        let is_slo_met = is_reached.filter(|&reached| reached || self.may_be_cause(&obs));
        obs.team = self.see_team(inputs.team);
        obs.slo_status = Some(match is_slo_met {
            Some(true) => SloStatus::Met,
            Some(false) => SloStatus::Violated,
            None => SloStatus::Unknown,
        });
        let (hpa_replicas, vpa_size, mut alternative_reasons) = self.alternatives(&obs);
        self.learn_containers(inputs, &judged);

        obs.oom_kills = obs.oom_kills.saturating_add(self.unseen_oom_kills);
        let config = self.guards_config(&sizes, pause);
        self.guards.reconfigure(config).expect("bounds above zero and steps above zero");
        let refused = self.serve(advice).or_else(|| {
            let served = self.learned.as_ref().filter(|served| served.policy.needs_load())?;
            let missing = judged.missing_for_load(&self.plan)?;
            Some(format!("{}: {missing}", served.version))
        });
        let unserved = refused.map(|why| Advice::Unavailable { why });
        let advice = match (advice, &unserved) {
            // A policy that does not act is not missed.
            (Some(Advice::Shadow(_)), Some(why)) => {
                alternative_reasons.push(format!("policy: {why}"));
                None
            }
            (advice, unserved) => unserved.as_ref().or(advice),
        };
        self.member.set_bounds(*self.guards.bounds());
        let member = self.member.observe(&obs);
        let learned = self.learned.as_mut().map(|served| &mut served.policy);
        let inner = self.policy.as_mut();
        let mut advised = Advised { inner, learned, advice, shadow: None };
        let decision = decide(&mut advised, &mut self.guards, &obs);
        let shadow = advised.shadow.as_ref().and_then(|proposal| {
            let reasons = proposal.reasons.iter().map(|reason| format!("policy: {reason}"));
            alternative_reasons.extend(reasons);
            allocation_of(proposal)
        });
        let trust = self.guards.metrics_trust();
        let is_asked = matches!(trust, MetricsTrust::Full | MetricsTrust::UtilizationOnly);
        self.unseen_oom_kills = if is_asked { 0 } else { obs.oom_kills };
        if is_asked {
            self.last_action.note(advice, decision.from(), decision.applied());
        }
        let text = |reason: &Reason| reason_text(reason, &self.plan, judged.objective);
        let mut reasons: Vec<String> = decision.reasons().iter().map(text).collect();
        let absence = advice.and_then(|advice| {
            let message = format!("{advice}; {} recommends in its place", self.policy.name());
            advice.absence().map(|reason| Absence { reason, message })
        });
        reasons.extend(absence.iter().map(|absence| absence.message.clone()));
        if matches!(advice, Some(Advice::Serve(_))) && !judged.knows_request_rate() {
            let change = "the request rate is not known, so its change (AC) counts as 0: set \
                          spec.load.requestRateQuery";
            reasons.push(change.to_owned());
        }
        let Problems { usage, other } = judged.problems;
        let verdict = Verdict { trust, problems: usage.into_iter().chain(other).collect() };
        for (name, problem) in &verdict.problems {
            reasons.push(format!("{name}: {problem}"));
        }
        let is_rolled_back = decision
            .reasons()
            .iter()
            .any(|reason| matches!(reason, Reason::Guard(GuardReason::RolledBack { .. })));
        let acts = self.acts();
        let shares = self.shares(&sizes, inputs.now);
        let plans = &sizes.keys().map(|name| (name.clone(), self.container(name))).collect();
        let may_shrink = is_slo_met != Some(false) && !self.guards.holds_after_rollback();
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
        self.target_sizes = if acts { containers.clone() } else { Sizes::new() };
        Some(Outcome {
            is_limited: decision.is_limited(),
            decision,
            reasons,
            containers,
            uncapped_containers,
            verdict,
            is_reached,
            is_slo_met,
            hpa_replicas,
            vpa_size,
            shadow,
            alternative_reasons,
            is_rolled_back,
            absence,
            member: (trust == MetricsTrust::Full).then_some(member),
        })
    }

    /// The current size of a pod and of its containers; none without pods. During a rollout pods
    /// differ: the target size counts as current once a pod has it, and the largest size before
    /// that. With the mean, a decision would be near enough to its target half-way, and pods that
    /// have changed already would change again.
    fn current(&self, inputs: &Inputs) -> Option<(Allocation, Sizes)> {
        let mean = inputs.allocation()?;
        let first = inputs.sizes().next()?;
        if inputs.sizes().all(|sizes| are_near(&sizes, &first)) {
            return Some((mean, first));
        }
        let sizes = if inputs.sizes().any(|sizes| are_near(&sizes, &self.target_sizes)) {
            self.target_sizes.clone()
        } else {
            largest(inputs.sizes())
        };
        let cpu = sizes.values().map(|(cpu, _)| cpu.millicores()).sum();
        let memory = sizes.values().map(|(_, memory)| memory.bytes()).sum();
        let (cpu, memory) = (Millicores::new(cpu), Bytes::new(memory));
        Some((Allocation { cpu, memory, ..mean }, sizes))
    }

    /// What it knows of the other members of its team. After a restart no member is known before the
    /// first resync has ended, and a policy must not take that for a team of one.
    fn see_team(&mut self, observed: Option<TeamState>) -> Option<TeamState> {
        if observed.is_some() {
            (self.team, self.is_team_restored) = (observed, false);
        }
        observed.or(self.team.filter(|_| self.is_team_restored))
    }

    /// Whether the pods may be the cause of an SLO violation. A throughput also falls when fewer
    /// requests arrive, and then the pods are idle.
    fn may_be_cause(&self, obs: &Observation) -> bool {
        const BUSY: f64 = 0.5;
        let is_throughput = matches!(self.plan.goal, Some(Goal::Throughput { .. }));
        !is_throughput || obs.mean_cpu_use().is_some_and(|used| used >= BUSY)
    }

    /// What HPA and VPA would recommend, each alone.
    fn alternatives(
        &mut self,
        obs: &Observation,
    ) -> (Option<u32>, Option<(Millicores, Bytes)>, Vec<String>) {
        let horizontal = self.hpa.propose(obs);
        let vertical = self.vpa.propose(obs);
        let reasons = horizontal.reasons.iter().map(|reason| format!("hpa: {reason}"));
        let reasons = reasons.chain(vertical.reasons.iter().map(|reason| format!("vpa: {reason}")));
        let is_known = !horizontal
            .reasons
            .iter()
            .any(|reason| matches!(reason, Reason::MetricUnavailable { .. }));
        let size = Millicores::from_cores(vertical.cpu_cores).ok();
        let size = size.map(|cpu| (cpu, Bytes::new(vertical.memory_bytes as u64)));
        (is_known.then_some(horizontal.replicas as u32), size, reasons.collect())
    }

    /// The bounds of a pod: the sum over its containers, with the current requests where a resource is
    /// not controlled.
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
        // A recommendation that is not applied cannot cause a violation.
        let auto_rollback = Some(plan.auto_rollback)
            .filter(|config| self.acts() && config.watch > SimDuration::ZERO);
        let size_step = plan.changes.size_step;
        let replicas = StepLimit { up: Some(STEP_UP), down: Some(STEP_DOWN) };
        GuardsConfig {
            stale_metrics_hold: self.trust.hold,
            cool_down: plan.changes.cool_down,
            rate_limit: plan.changes.rate_limit,
            hold_while_violated: true,
            auto_rollback,
            steps: vec![replicas, size_step, size_step],
            canary: (plan.mode == Mode::Canary).then_some(plan.canary),
            pause,
            ..GuardsConfig::bounds_only(self.bounds(sizes))
        }
    }

    /// Loads the policy file of the advice, if it is a new one. Returns why it cannot be served.
    fn serve(&mut self, advice: Option<&Advice>) -> Option<String> {
        let Some(Advice::Serve(served) | Advice::Shadow(served)) = advice else {
            self.learned = None;
            return None;
        };
        let bounds = *self.guards.bounds();
        if let Some(known) = self.learned.as_mut().filter(|known| known.version == served.version) {
            known.policy.set_bounds(bounds);
            return None;
        }
        // Greedy actions draw nothing.
        let stream = Stream::from_seed(0);
        let policy =
            LearnedPolicy::new(&served.version, &served.policy, bounds, Sampling::Greedy, stream);
        match policy {
            Ok(policy) => {
                let mut policy = policy.explaining();
                // The state of another policy does not fit, and is not needed.
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

    /// Whether decisions are applied.
    fn acts(&self) -> bool {
        matches!(self.plan.mode, Mode::Auto | Mode::Canary)
    }

    /// Adds the usage of each container to its history.
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
            let was_oom_killed = history.is_some_and(|history| history.kills_lately(now) > 0);
            let share = ContainerShare {
                cpu_request,
                memory_request,
                cpu_need,
                memory_need,
                is_outside,
                was_oom_killed,
            };
            (name.clone(), share)
        };
        sizes.iter().map(share).collect()
    }
}

/// A proposal as an allocation; none if it is not a number of everything.
fn allocation_of(proposal: &Proposal) -> Option<Allocation> {
    let Proposal { replicas, cpu_cores, memory_bytes, .. } = proposal;
    let is_amount = |amount: &f64| amount.is_finite() && *amount >= 0.0;
    if !is_amount(replicas) || !is_amount(memory_bytes) {
        return None;
    }
    let (cpu, memory) =
        (Millicores::from_cores(*cpu_cores).ok()?, Bytes::new(*memory_bytes as u64));
    Some(Allocation { replicas: replicas.round() as u32, cpu, memory })
}

/// The largest requests of each container over all pods.
fn largest(pods: impl Iterator<Item = Sizes>) -> Sizes {
    let mut largest = Sizes::new();
    for (name, (cpu, memory)) in pods.flatten() {
        let known = largest.entry(name).or_insert((cpu, memory));
        *known = (known.0.max(cpu), known.1.max(memory));
    }
    largest
}

/// Whether two sizes are equal within the tolerance of the updater.
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

/// Bounds above zero: a pod without CPU or memory would never answer.
fn at_least_one<T: Copy + PartialOrd + std::fmt::Display>(
    (low, high): (u64, u64),
    unit: fn(u64) -> T,
) -> Bounds<T> {
    Bounds::try_new(unit(low.max(1)), unit(high.max(low).max(1))).expect("low is not above high")
}

#[cfg(test)]
mod closed_loop;
#[cfg(test)]
mod learner;
#[cfg(test)]
mod policy_files;
#[cfg(test)]
mod tests;
