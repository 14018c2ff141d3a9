//! One agent of a training: its seats, and its returns.

use homeostat_core::{AgentId, Result, Snapshot};

use crate::TaskType;

/// One agent.
pub(crate) struct Member {
    pub(crate) agent: AgentId,
    pub(crate) task_type: TaskType,
    /// Which learner plays for it.
    pub(crate) net: usize,
    /// Its learner's row in each copy of the environment.
    pub(crate) rows: Vec<usize>,
    /// Its unfinished episode in each copy.
    pub(crate) running: Vec<Running>,
    record: Record,
}

/// An unfinished episode.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Running {
    pub(crate) own: f64,
    pub(crate) shared: f64,
    pub(crate) length: u32,
}

/// Reward of a step, the last episodes counting most.
#[derive(Debug, Clone, Copy, Default)]
struct Record {
    /// What the episodes come to, each by its weight ...
    sum: f64,
    /// ... and their weights, which approach one.
    weight: f64,
}

/// Weight of the last episode.
const LAST: f64 = 0.1;

impl Member {
    pub(crate) fn new(agent: AgentId, task_type: TaskType, net: usize, rows: Vec<usize>) -> Self {
        let running = vec![Running::default(); rows.len()];
        Self { agent, task_type, net, rows, running, record: Record::default() }
    }

    /// Ends the episode in one copy of the environment.
    pub(crate) fn finish(&mut self, env: usize) -> Running {
        let finished = std::mem::take(&mut self.running[env]);
        let mean = finished.own / f64::from(finished.length.max(1));
        self.record.sum += LAST * (mean - self.record.sum);
        self.record.weight += LAST * (1.0 - self.record.weight);
        finished
    }

    /// Its recent reward of a step, whether it has finished one episode or hundreds; nothing before
    /// the first, or if a reward was ever not finite.
    pub(crate) fn mean_reward(&self) -> Option<f64> {
        let mean_reward = self.record.sum / self.record.weight;
        mean_reward.is_finite().then_some(mean_reward)
    }

    pub(crate) fn save(&self, out: &mut Snapshot) {
        let name = name_of(self.agent);
        let mut facts = vec![self.task_type as u64, self.net as u64];
        facts.extend(self.rows.iter().map(|row| *row as u64));
        out.put_u64(&format!("{name}/facts"), facts);
        let mut books = vec![self.record.sum, self.record.weight];
        for running in &self.running {
            books.extend([running.own, running.shared, f64::from(running.length)]);
        }
        out.put_f64(&format!("{name}/books"), books);
    }

    /// What [`Member::save`] wrote of this agent in so many copies of the environment.
    pub(crate) fn load(agent: AgentId, envs: usize, from: &Snapshot) -> Result<Self> {
        let name = name_of(agent);
        let facts = from.u64s(&format!("{name}/facts"), 2 + envs)?;
        let books = from.f64s(&format!("{name}/books"), 2 + 3 * envs)?;
        let running = books[2..].chunks_exact(3).map(|books| Running {
            own: books[0],
            shared: books[1],
            length: books[2] as u32,
        });
        Ok(Self {
            agent,
            task_type: TaskType::from_index(facts[0]),
            net: facts[1] as usize,
            rows: facts[2..].iter().map(|row| *row as usize).collect(),
            running: running.collect(),
            record: Record { sum: books[0], weight: books[1] },
        })
    }
}

fn name_of(agent: AgentId) -> String {
    format!("team/member/{}", agent.number())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_episode_is_held_against_many() {
        let mut member = Member::new(AgentId::new(0), TaskType::Cpu, 0, vec![0]);
        assert_eq!(member.mean_reward(), None);
        for episode in 0..50 {
            member.running[0] = Running { own: -6.0, shared: 0.0, length: 3 };
            member.finish(0);
            let mean_reward = member.mean_reward().expect("an episode has ended");
            assert!((mean_reward + 2.0).abs() < 1e-12, "{mean_reward} after {episode}");
        }
        member.running[0].own = f64::NAN;
        member.finish(0);
        assert_eq!(member.mean_reward(), None);
    }
}
