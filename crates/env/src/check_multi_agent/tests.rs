//! An environment with one fault at a time, and the rule that must report it.

use std::cell::Cell;
use std::collections::BTreeMap;

use homeostat_core::Persist;

use super::*;
use crate::envs::roll_call::RollCall;
use crate::phase::Phase;
use crate::{Card, Error, Field, MultiStep, Space};

/// A fault of an environment.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    EmptyActionSpace,
    CardLacksReward,
    NoAgentAtReset,
    Descending,
    MissingObservation,
    ObservationOutside,
    ObservationTooLong,
    ObservesAfterLeaving,
    Undeclared,
    LosesAStep,
    NanReward,
    EndedStay,
    LeavesSilently,
    StepsDisagree,
    JoinsSilently,
    AnnouncesTheAbsent,
    AnnouncesTheOld,
    ReusesNumbers,
    OverstaysLimit,
    Unseeded,
    Leftover,
    ForgetsToSave,
    SavesElsewhere,
    StepsBeforeReset,
    StepsAfterEnd,
    TakesAnyCount,
    TakesAnyAction,
    RefusalMoves,
    RefusesLegalStep,
}

const LIMIT: u32 = 12;
const LIFE: u64 = 5;

/// Two agents start, one joins every second step, each acts five times.
struct Crowd {
    fault: Fault,
    spec: EnvSpec,
    rng: Stream,
    phase: Phase,
    elapsed: u32,
    next: u32,
    agents: Vec<AgentId>,
    members: BTreeMap<AgentId, Member>,
    possible: Vec<AgentId>,
    steps: Vec<AgentStep>,
    joined: Vec<AgentId>,
}

#[derive(Clone)]
struct Member {
    obs: Vec<f32>,
    left: u64,
}

impl Crowd {
    fn new(fault: Fault, made: u64) -> Self {
        let empty = fault == Fault::EmptyActionSpace;
        let card = Card {
            summary: "A crowd.",
            observation: vec![Field::new("number", "0 to 3")],
            action: vec![Field::new("number", "0 to 3")],
            reward: if fault == Fault::CardLacksReward { "" } else { "none" },
            termination: "after five steps",
            source: "this test",
        };
        Self {
            fault,
            spec: EnvSpec {
                control: None,
                id: "test/crowd-v1".parse().unwrap(),
                observation: Space::Discrete(4),
                action: Space::Discrete(if empty { 0 } else { 4 }),
                time_limit: Some(LIMIT),
                card,
            },
            rng: Stream::from_seed(made),
            phase: Phase::New,
            elapsed: 0,
            next: 0,
            agents: Vec::new(),
            members: BTreeMap::new(),
            possible: (0..99).map(AgentId::new).collect(),
            steps: Vec::new(),
            joined: Vec::new(),
        }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn look(&mut self) -> Vec<f32> {
        match self.fault {
            Fault::ObservationOutside => vec![2.5],
            Fault::ObservationTooLong => vec![1.0, 2.0],
            _ => vec![self.rng.below(4) as f32],
        }
    }

    fn join(&mut self) {
        let mut number = self.next;
        self.next += 1;
        if self.has(Fault::ReusesNumbers) {
            let free = |number: &u32| !self.members.contains_key(&AgentId::new(*number));
            number = (0..).find(free).unwrap();
        }
        let agent = AgentId::new(number);
        let obs = self.look();
        self.members.insert(agent, Member { obs, left: LIFE });
        self.joined.push(agent);
    }

    fn line_up(&mut self) {
        self.agents = self.members.keys().copied().collect();
        if self.has(Fault::Descending) {
            self.agents.reverse();
        }
    }

    fn refusal(&self, actions: &[Action]) -> Option<Error> {
        let env = || self.spec.id.to_string();
        let (expected, got) = (self.agents.len(), actions.len());
        match self.phase {
            Phase::New if !self.has(Fault::StepsBeforeReset) => {
                return Some(Error::StepBeforeReset { env: env() });
            }
            Phase::Ended if !self.has(Fault::StepsAfterEnd) => {
                return Some(Error::StepAfterEnd { env: env() });
            }
            _ => {}
        }
        if expected != got && !self.has(Fault::TakesAnyCount) {
            return Some(Error::ActionCount { env: env(), expected, got });
        }
        if self.has(Fault::RefusesLegalStep) && self.elapsed == 5 {
            return Some(Error::StepAfterEnd { env: env() });
        }
        let refused = |action| self.spec.require_action(action).err();
        actions.iter().find_map(refused).filter(|_| !self.has(Fault::TakesAnyAction))
    }
}

impl MultiAgentEnv for Crowd {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn agents(&self) -> &[AgentId] {
        &self.agents
    }

    fn possible_agents(&self) -> Option<&[AgentId]> {
        let known = if self.has(Fault::Undeclared) { 1 } else { self.possible.len() };
        Some(&self.possible[..known])
    }

    fn reset(&mut self, seed: Option<u64>) -> Result<()> {
        if let Some(seed) = seed.filter(|_| !self.has(Fault::Unseeded)) {
            self.rng = Stream::from_seed(seed);
        }
        (self.phase, self.elapsed) = (Phase::Running, 0);
        self.members.clear();
        if !self.has(Fault::Leftover) {
            self.next = 0;
        }
        if !self.has(Fault::NoAgentAtReset) {
            self.join();
            self.join();
        }
        self.line_up();
        Ok(())
    }

    fn observation(&self, agent: AgentId) -> Option<&[f32]> {
        match self.members.get(&agent) {
            Some(_) if self.has(Fault::MissingObservation) => None,
            None if self.has(Fault::ObservesAfterLeaving) => Some(&[0.0]),
            member => member.map(|member| member.obs.as_slice()),
        }
    }

    fn step(&mut self, actions: &[Action]) -> Result<MultiStep<'_>> {
        if let Some(error) = self.refusal(actions) {
            if self.has(Fault::RefusalMoves) {
                self.elapsed += 1;
            }
            return Err(error);
        }
        self.elapsed += 1;
        let last = self.elapsed >= LIMIT + u32::from(self.has(Fault::OverstaysLimit));
        self.steps.clear();
        self.joined.clear();
        for agent in self.agents.clone() {
            let obs = self.look();
            let Some(member) = self.members.get_mut(&agent) else { continue };
            member.obs.clone_from(&obs);
            // An agent that stays after its end leaves with a second one.
            let over = member.left == 1;
            member.left = member.left.saturating_sub(1);
            let gone = member.left == 0;
            if last || (gone && (!over || self.fault != Fault::EndedStay)) {
                self.members.remove(&agent);
            }
            let silent = self.has(Fault::LeavesSilently);
            let reward = if self.has(Fault::NanReward) { f64::NAN } else { 0.0 };
            let (terminated, truncated) = (gone && !silent, last && !silent);
            let obs = if self.has(Fault::StepsDisagree) { vec![(obs[0] + 1.0) % 4.0] } else { obs };
            self.steps.push(AgentStep { agent, obs, reward, terminated, truncated });
        }
        if self.has(Fault::LosesAStep) {
            self.steps.pop();
        }
        if last {
            self.phase = Phase::Ended;
        } else if self.elapsed.is_multiple_of(2) {
            self.join();
        }
        match self.fault {
            Fault::JoinsSilently => self.joined.clear(),
            Fault::AnnouncesTheAbsent => self.joined.push(AgentId::new(98)),
            Fault::AnnouncesTheOld => self.joined.extend(self.agents.first()),
            _ => {}
        }
        self.line_up();
        Ok(MultiStep { agents: &self.steps, joined: &self.joined })
    }
}

impl Persist for Crowd {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let name = if self.has(Fault::SavesElsewhere) { "crowd" } else { name };
        self.rng.save(&format!("{name}/rng"), out);
        let clock = [self.phase.to_number(), u64::from(self.elapsed), u64::from(self.next)];
        out.put_u64(&format!("{name}/clock"), clock);
        let rows = self.members.iter().flat_map(|(agent, member)| {
            [u64::from(agent.number()), member.left, u64::from(member.obs[0].to_bits())]
        });
        out.put_u64(&format!("{name}/members"), rows.collect::<Vec<_>>());
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        let name = if self.has(Fault::SavesElsewhere) { "crowd" } else { name };
        self.rng.load(&format!("{name}/rng"), from)?;
        let clock = from.u64s(&format!("{name}/clock"), 3)?;
        self.phase = Phase::from_number(clock[0]);
        self.elapsed = clock[1] as u32;
        self.next = clock[2] as u32;
        self.members.clear();
        for row in from.any_u64s(&format!("{name}/members"))?.chunks_exact(3) {
            let left = if self.has(Fault::ForgetsToSave) { LIFE } else { row[1] };
            let mut obs = vec![f32::from_bits(row[2] as u32)];
            if self.has(Fault::ObservationTooLong) {
                obs.push(2.0);
            }
            self.members.insert(AgentId::new(row[0] as u32), Member { obs, left });
        }
        self.line_up();
        Ok(())
    }
}

fn findings_of(fault: Fault) -> Vec<Finding> {
    let made = Cell::new(0);
    check_multi_agent_env(&|| {
        made.set(made.get() + 1);
        Box::new(Crowd::new(fault, made.get()))
    })
}

#[test]
fn each_fault_is_found_by_its_own_rule_and_no_other() {
    let check = |fault: Fault, expect: &str, hint: &str| {
        let findings = findings_of(fault);
        let rules: BTreeSet<_> = findings.iter().map(|finding| finding.rule).collect();
        assert_eq!(rules, BTreeSet::from([expect]), "{fault:?}: {findings:#?}");
        assert!(findings[0].explanation.contains(hint), "{fault:?}: {}", findings[0]);
    };
    check(Fault::EmptyActionSpace, "spaces", "the action space is invalid");
    check(Fault::CardLacksReward, "card", "`reward` is empty");
    check(Fault::NoAgentAtReset, "agents-at-reset", "agents() is empty");
    check(Fault::Descending, "agents-ascending", "agent-1 precedes agent-0");
    check(Fault::MissingObservation, "observation-of-agents", "agent-0 is in agents()");
    check(
        Fault::ObservationOutside,
        "observation-in-space",
        "for agent-0, observation[0] is 2.5, but must be one of the whole numbers 0..=3",
    );
    check(Fault::ObservationTooLong, "observation-length", "has 2 numbers");
    check(
        Fault::ObservesAfterLeaving,
        "observation-after-leaving",
        "in step 5 of an episode, agent-0",
    );
    check(Fault::Undeclared, "possible-agents", "agent-1");
    check(Fault::LosesAStep, "steps-of-actors", "agent-0, agent-1 acted");
    check(Fault::NanReward, "reward-finite", "the reward is NaN");
    check(Fault::EndedStay, "ended-agents-leave", "agent-0 ended");
    check(Fault::LeavesSilently, "leaving-announced", "agent-0 left");
    check(Fault::StepsDisagree, "observations-agree", "agent-0");
    check(Fault::JoinsSilently, "joined-agents", "agent-2 is new");
    check(Fault::AnnouncesTheAbsent, "joined-agents", "agent-98 joined but is not in agents()");
    check(Fault::AnnouncesTheOld, "joined-agents", "agent-0 is in `joined` but acted");
    check(Fault::ReusesNumbers, "ids-reused", "agent-0 joined, but");
    check(Fault::OverstaysLimit, "time-limit", "in step 12");
    check(Fault::Unseeded, "same-seed-same-trajectory", "in another environment");
    check(Fault::Leftover, "same-seed-same-trajectory", "that was played before");
    check(Fault::ForgetsToSave, "save-restore", "loaded into a new environment");
    check(Fault::SavesElsewhere, "snapshot-names", "`crowd/clock`");
    check(Fault::StepsBeforeReset, "step-before-reset", "StepBeforeReset");
    check(Fault::StepsAfterEnd, "step-after-end", "StepAfterEnd");
    check(Fault::TakesAnyCount, "action-count", "3 actions for 2 agents");
    check(Fault::TakesAnyAction, "invalid-action", "action 4 for the action space Discrete(4)");
    check(Fault::RefusalMoves, "invalid-action-changes-nothing", "rejecting changed the state");
    check(Fault::RefusesLegalStep, "valid-call-fails", "with seed 0, call 6");
}

#[test]
fn a_world_without_fault_passes() {
    assert_eq!(findings_of(Fault::None), []);
}

#[test]
fn roll_call_passes() {
    assert_eq!(check_multi_agent_env(&|| Box::new(RollCall::default())), []);
}
