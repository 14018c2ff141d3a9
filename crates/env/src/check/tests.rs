//! An environment with one fault at a time, and the rule that must report it.

use std::cell::Cell;
use std::collections::BTreeSet;

use homeostat_core::Persist;

use super::*;
use crate::{Action, Card, Error, Field, Info, Space, Step};

/// A fault of an environment.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    EmptyActionSpace,
    ReversedObservationSpace,
    ZeroTimeLimit,
    CardLacksField,
    CardLacksReward,
    ResetOutside,
    StepOutside,
    NanObservation,
    ShortObservation,
    InfiniteReward,
    Unseeded,
    Leftover,
    StepsBeforeReset,
    StepsAfterEnd,
    TakesAnyAction,
    RefusalMoves,
    ForgetsToSave,
    CannotLoad,
    SavesElsewhere,
    OverstaysLimit,
    RefusesLegalStep,
}

const LIMIT: u32 = 12;

/// A random walk; the reward is minus the distance from the middle.
struct Walk {
    fault: Fault,
    spec: EnvSpec,
    rng: Stream,
    obs: Vec<f32>,
    elapsed: u32,
    running: bool,
    fresh: bool,
    drift: f32,
}

impl Walk {
    fn new(fault: Fault, made: u64) -> Self {
        let mut observation = Space::uniform_box(1, -1.0, 1.0);
        let mut action = Space::Discrete(3);
        let mut fields = vec![Field::new("place", "no unit, -1 to 1")];
        let mut reward = "minus the distance from the middle";
        let mut time_limit = Some(LIMIT);
        match fault {
            Fault::EmptyActionSpace => action = Space::Discrete(0),
            Fault::ReversedObservationSpace => observation = Space::uniform_box(1, 1.0, -1.0),
            Fault::ZeroTimeLimit => time_limit = Some(0),
            Fault::CardLacksField => fields.clear(),
            Fault::CardLacksReward => reward = " ",
            _ => {}
        }
        let card = Card {
            summary: "A random walk.",
            observation: fields,
            action: vec![Field::new("direction", "0 left, 1 stay, 2 right")],
            reward,
            termination: "never",
            source: "this test",
        };
        let id = "test/walk-v1".parse().unwrap();
        Self {
            fault,
            spec: EnvSpec { id, observation, action, time_limit, card, control: None },
            rng: Stream::from_seed(made),
            obs: vec![0.0],
            elapsed: 0,
            running: false,
            fresh: true,
            drift: 0.0,
        }
    }

    fn place(&mut self, outside: bool) {
        self.obs = match self.fault {
            Fault::ShortObservation => Vec::new(),
            Fault::NanObservation => vec![f32::NAN],
            Fault::ResetOutside | Fault::StepOutside if outside => vec![1.5],
            _ => vec![self.rng.range(-0.5, 0.5) as f32 + self.drift],
        };
    }
}

impl Env for Walk {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn reset(&mut self, seed: Option<u64>) -> Result<&[f32]> {
        if let Some(seed) = seed.filter(|_| self.fault != Fault::Unseeded) {
            self.rng = Stream::from_seed(seed);
        }
        if self.fault != Fault::Leftover {
            self.drift = 0.0;
        }
        (self.elapsed, self.running, self.fresh) = (0, true, false);
        self.place(self.fault == Fault::ResetOutside);
        Ok(&self.obs)
    }

    fn step(&mut self, action: &Action) -> Result<Step<'_>> {
        let env = || self.spec.id.to_string();
        if self.fresh && self.fault != Fault::StepsBeforeReset {
            return Err(Error::StepBeforeReset { env: env() });
        }
        if !self.fresh && !self.running && self.fault != Fault::StepsAfterEnd {
            return Err(Error::StepAfterEnd { env: env() });
        }
        if self.fault != Fault::TakesAnyAction
            && let Err(error) = self.spec.require_action(action)
        {
            if self.fault == Fault::RefusalMoves {
                self.elapsed += 1;
            }
            return Err(error);
        }
        self.elapsed += 1;
        if self.fault == Fault::RefusesLegalStep && self.elapsed == 5 {
            return Err(Error::StepAfterEnd { env: env() });
        }
        self.drift += match action {
            Action::Discrete(choice) => (*choice as f32 - 1.0) / 100.0,
            _ => 0.0,
        };
        self.place(self.fault == Fault::StepOutside);
        let mut reward = -self.obs.first().map_or(0.0, |place| f64::from(place.abs()));
        if self.fault == Fault::InfiniteReward && self.elapsed == 3 {
            reward = f64::NEG_INFINITY;
        }
        if self.fault == Fault::NanObservation {
            reward = 0.0;
        }
        let limit = if self.fault == Fault::OverstaysLimit { LIMIT + 1 } else { LIMIT };
        let truncated = self.elapsed >= limit;
        self.running = !truncated;
        Ok(Step { obs: &self.obs, reward, terminated: false, truncated, info: Info::new() })
    }

    fn render(&self) -> String {
        String::new()
    }
}

impl Persist for Walk {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let name = if self.fault == Fault::SavesElsewhere { "walk" } else { name };
        self.rng.save(&format!("{name}/rng"), out);
        out.put_f32(&format!("{name}/drift"), [self.drift]);
        let flags = [u64::from(self.elapsed), u64::from(self.running), u64::from(self.fresh)];
        out.put_u64(&format!("{name}/clock"), flags);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        let name = if self.fault == Fault::SavesElsewhere { "walk" } else { name };
        self.rng.load(&format!("{name}/rng"), from)?;
        if self.fault != Fault::ForgetsToSave {
            self.drift = from.f32s(&format!("{name}/drift"), 1)?[0];
        }
        let clocks = if self.fault == Fault::CannotLoad { 4 } else { 3 };
        let clock = from.u64s(&format!("{name}/clock"), clocks)?;
        self.elapsed = clock[0] as u32;
        (self.running, self.fresh) = (clock[1] != 0, clock[2] != 0);
        Ok(())
    }
}

fn findings_of(fault: Fault) -> Vec<Finding> {
    let made = Cell::new(0);
    check_env(&|| {
        made.set(made.get() + 1);
        Box::new(Walk::new(fault, made.get()))
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
    check(Fault::ReversedObservationSpace, "spaces", "dimension 0 has the bounds 1 and -1");
    check(Fault::ZeroTimeLimit, "time-limit", "0 steps");
    check(Fault::CardLacksField, "card", "`observation` has 0 lines for 1 numbers");
    check(Fault::CardLacksReward, "card", "`reward` is empty");
    check(
        Fault::ResetOutside,
        "observation-in-space",
        "with seed 0, after a reset, observation[0] is 1.5, but must be in the range -1..=1",
    );
    check(Fault::StepOutside, "observation-in-space", "in step 1");
    check(Fault::NanObservation, "observation-in-space", "observation[0] is NaN");
    check(Fault::ShortObservation, "observation-length", "has 0 numbers");
    check(Fault::InfiniteReward, "reward-finite", "in step 3 of an episode, the reward is -inf");
    check(Fault::Unseeded, "same-seed-same-trajectory", "in another environment");
    check(Fault::Leftover, "same-seed-same-trajectory", "that was played before");
    check(Fault::StepsBeforeReset, "step-before-reset", "StepBeforeReset");
    check(Fault::StepsAfterEnd, "step-after-end", "StepAfterEnd");
    check(Fault::TakesAnyAction, "invalid-action", "action 3 was accepted");
    check(Fault::RefusalMoves, "invalid-action-changes-nothing", "rejecting action 3");
    check(Fault::ForgetsToSave, "save-restore", "loaded into a new environment");
    check(Fault::CannotLoad, "save-restore", "is 3 u64, expected 4 u64");
    check(Fault::SavesElsewhere, "snapshot-names", "`walk/clock`");
    check(Fault::OverstaysLimit, "time-limit", "in step 12");
    check(Fault::RefusesLegalStep, "valid-call-fails", "with seed 0, call 5");
}

#[test]
fn a_world_without_fault_passes() {
    assert_eq!(findings_of(Fault::None), []);
}

#[test]
fn every_registered_environment_passes() {
    for spec in crate::specs() {
        let id = spec.id.to_string();
        let findings = if crate::make_multi_agent(&id).is_ok() {
            crate::check_multi_agent_env(&|| crate::make_multi_agent(&id).unwrap())
        } else {
            check_env(&|| crate::make(&id).unwrap())
        };
        assert_eq!(findings, [], "{id}");
    }
}
