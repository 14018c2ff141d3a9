//! The identity task for several agents, which join and leave during an episode. It tests loops
//! that train many agents.

use homeostat_core::{AgentId, Persist, Snapshot, Stream};

use crate::phase::Phase;
use crate::{Action, AgentStep, Card, EnvSpec, Field, MultiAgentEnv, MultiStep, Result, Space};

use super::OF_THE_SPACE;

const NUMBERS: usize = 4;
const FIRST_AGENTS: usize = 2;
const MAX_AGENTS: usize = 4;
const STEPS_BETWEEN_JOINS: u32 = 3;
const SHORTEST_LIFE: u64 = 5;
const LIFE_SPREAD: usize = 16;
const TIME_LIMIT: u32 = 100;

/// Each agent observes a number and is rewarded for repeating it.
///
/// Ids of agents are never reused, not in later episodes either; only a reset with a seed starts
/// again at zero.
pub struct RollCall {
    spec: EnvSpec,
    rng: Stream,
    phase: Phase,
    elapsed: u32,
    next_number: u32,
    agents: Vec<AgentId>,
    members: Vec<Member>,
    steps: Vec<AgentStep>,
    joined: Vec<AgentId>,
}

/// State of the agent at the same index in `agents`.
#[derive(Debug, Clone, PartialEq)]
struct Member {
    shown: [f32; 1],
    steps_left: u64,
    /// Whether its episode ends by termination; otherwise it is truncated.
    ends_terminated: bool,
}

impl Default for RollCall {
    fn default() -> Self {
        Self {
            spec: spec(),
            rng: Stream::from_seed(0),
            phase: Phase::New,
            elapsed: 0,
            next_number: 0,
            agents: Vec::new(),
            members: Vec::new(),
            steps: Vec::new(),
            joined: Vec::new(),
        }
    }
}

impl RollCall {
    fn join(&mut self) {
        let agent = AgentId::new(self.next_number);
        self.next_number += 1;
        self.agents.push(agent);
        self.joined.push(agent);
        self.members.push(Member {
            shown: [self.rng.below(NUMBERS) as f32],
            steps_left: SHORTEST_LIFE + self.rng.below(LIFE_SPREAD) as u64,
            ends_terminated: self.rng.below(2) == 0,
        });
    }
}

impl MultiAgentEnv for RollCall {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn agents(&self) -> &[AgentId] {
        &self.agents
    }

    fn possible_agents(&self) -> Option<&[AgentId]> {
        None
    }

    fn reset(&mut self, seed: Option<u64>) -> Result<()> {
        if let Some(seed) = seed {
            self.rng = Stream::from_seed(seed);
            self.next_number = 0;
        }
        self.phase = Phase::Running;
        self.elapsed = 0;
        self.agents.clear();
        self.members.clear();
        self.joined.clear();
        for _ in 0..FIRST_AGENTS {
            self.join();
        }
        Ok(())
    }

    fn observation(&self, agent: AgentId) -> Option<&[f32]> {
        let place = self.agents.binary_search(&agent).ok()?;
        Some(&self.members[place].shown)
    }

    fn step(&mut self, actions: &[Action]) -> Result<MultiStep<'_>> {
        self.phase.require_running(&self.spec.id)?;
        self.spec.require_actions(actions, self.agents.len())?;
        self.elapsed += 1;
        let last = self.elapsed >= TIME_LIMIT;
        self.steps.clear();
        self.joined.clear();
        let mut living = Vec::new();
        for ((agent, mut member), action) in
            self.agents.drain(..).zip(self.members.drain(..)).zip(actions)
        {
            let answer = action.discrete().expect(OF_THE_SPACE);
            let reward = if answer as f32 == member.shown[0] { 1.0 } else { 0.0 };
            member.shown = [self.rng.below(NUMBERS) as f32];
            member.steps_left -= 1;
            let leaves = member.steps_left == 0;
            let terminated = leaves && member.ends_terminated;
            let truncated = last || (leaves && !member.ends_terminated);
            let obs = member.shown.to_vec();
            self.steps.push(AgentStep { agent, obs, reward, terminated, truncated });
            if !terminated && !truncated {
                living.push((agent, member));
            }
        }
        (self.agents, self.members) = living.into_iter().unzip();
        if last {
            self.phase = Phase::Ended;
        } else {
            let due = self.elapsed.is_multiple_of(STEPS_BETWEEN_JOINS);
            if self.agents.is_empty() || (due && self.agents.len() < MAX_AGENTS) {
                self.join();
            }
        }
        Ok(MultiStep { agents: &self.steps, joined: &self.joined })
    }
}

impl Persist for RollCall {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.rng.save(&format!("{name}/rng"), out);
        out.put_u64(
            &format!("{name}/clock"),
            [self.phase.to_number(), u64::from(self.elapsed), u64::from(self.next_number)],
        );
        let members = || self.members.iter();
        let numbers: Vec<_> = self.agents.iter().map(|agent| u64::from(agent.number())).collect();
        let shown: Vec<_> = members().map(|member| member.shown[0]).collect();
        let steps_left: Vec<_> = members().map(|member| member.steps_left).collect();
        let endings: Vec<_> = members().map(|member| u8::from(member.ends_terminated)).collect();
        out.put_u64(&format!("{name}/agents"), numbers);
        out.put_f32(&format!("{name}/shown"), shown);
        out.put_u64(&format!("{name}/steps_left"), steps_left);
        out.put_u8(&format!("{name}/ends_terminated"), endings);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        self.rng.load(&format!("{name}/rng"), from)?;
        let clock = from.u64s(&format!("{name}/clock"), 3)?;
        let numbers = from.any_u64s(&format!("{name}/agents"))?;
        let count = numbers.len();
        let shown = from.f32s(&format!("{name}/shown"), count)?;
        let steps_left = from.u64s(&format!("{name}/steps_left"), count)?;
        let endings = from.u8s(&format!("{name}/ends_terminated"), count)?;
        self.phase = Phase::from_number(clock[0]);
        self.elapsed = number(clock[1]);
        self.next_number = number(clock[2]);
        self.agents = numbers.iter().map(|agent| AgentId::new(number(*agent))).collect();
        self.members = (0..count)
            .map(|place| Member {
                shown: [shown[place]],
                // A present agent has at least one step left, whatever the snapshot says.
                steps_left: steps_left[place].max(1),
                ends_terminated: endings[place] != 0,
            })
            .collect();
        Ok(())
    }
}

fn spec() -> EnvSpec {
    EnvSpec {
        control: None,
        id: "toy/roll-call-v1".parse().expect("the id is well-formed"),
        observation: Space::Discrete(NUMBERS),
        action: Space::Discrete(NUMBERS),
        time_limit: Some(TIME_LIMIT),
        card: Card {
            summary: "Several agents repeat what each is shown, and join and leave meanwhile.",
            observation: vec![Field::new("number", "0 to 3, drawn for each agent and step")],
            action: vec![Field::new("number", "0 to 3: the number to repeat")],
            reward: "1 to each agent that repeats its number, else 0",
            termination: "each agent after 5 to 20 steps: half of them terminate, half are \
                          truncated; two start, one joins every 3 steps while fewer than 4 live",
            source: "this project; the identity environment with agents that join and leave",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays one episode, repeating every number, and hands each step to `each`.
    fn play(
        env: &mut RollCall,
        seed: Option<u64>,
        mut each: impl FnMut(&[AgentId], MultiStep<'_>),
    ) {
        env.reset(seed).unwrap();
        while !env.agents().is_empty() {
            let acting = env.agents().to_vec();
            let repeat =
                |agent: &AgentId| Action::Discrete(env.observation(*agent).unwrap()[0] as usize);
            let actions: Vec<_> = acting.iter().map(repeat).collect();
            each(&acting, env.step(&actions).unwrap());
        }
    }

    #[test]
    fn repeating_is_paid_in_every_step() {
        play(&mut RollCall::default(), Some(1), |_, step| {
            assert!(step.agents.iter().all(|agent| agent.reward == 1.0));
        });
    }

    #[test]
    fn an_episode_sees_all_that_company_brings() {
        let (mut steps, mut most, mut joined, mut terminated, mut truncated) = (0, 0, 0, 0, 0);
        play(&mut RollCall::default(), Some(1), |acting, step| {
            steps += 1;
            most = most.max(acting.len());
            joined += step.joined.len();
            if steps < TIME_LIMIT {
                terminated += step.agents.iter().filter(|agent| agent.terminated).count();
                truncated += step.agents.iter().filter(|agent| agent.truncated).count();
            }
        });
        assert_eq!((steps, most), (TIME_LIMIT, MAX_AGENTS));
        assert!(joined > 5 && terminated > 2 && truncated > 2, "{joined} {terminated} {truncated}");
    }

    #[test]
    fn numbers_are_not_used_again_in_the_next_episode() {
        let mut env = RollCall::default();
        let mut last = AgentId::new(0);
        play(&mut env, Some(1), |acting, _| last = last.max(acting[acting.len() - 1]));
        env.reset(None).unwrap();
        assert!(env.agents()[0] > last);
        env.reset(Some(1)).unwrap();
        assert_eq!(env.agents()[0], AgentId::new(0));
    }
}
