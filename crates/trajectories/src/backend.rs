//! What every store does, wherever it keeps its trajectories.

use homeostat_core::trajectory::{End, Record};

use crate::{
    Error, Filter, Origin, Pruned, RecentRewards, Result, Retention, Trajectory, TrajectoryId,
    TrajectoryStore, Transition,
};

/// A store: a SQLite file, or a server.
pub trait Store: Send {
    /// Trajectories in the order of their recording.
    fn list(&mut self, filter: &Filter) -> Result<Vec<Trajectory>>;

    /// One trajectory.
    fn get(&mut self, id: TrajectoryId) -> Result<Trajectory>;

    /// Where a trajectory comes from.
    fn origin(&mut self, id: TrajectoryId) -> Result<Origin>;

    /// Hands every transition of a trajectory to `each`, in order. Its error ends the reading.
    fn transitions(
        &mut self,
        id: TrajectoryId,
        each: &mut dyn FnMut(Transition) -> Result<()>,
    ) -> Result<()>;

    /// What was observed after the last transition; none while a trajectory is open.
    fn last_observation(&mut self, id: TrajectoryId) -> Result<Option<Vec<f32>>>;

    /// The `count` ended trajectories with the highest mean reward, the best first; of equal ones the
    /// later first.
    fn best(&mut self, filter: &Filter, count: usize) -> Result<Vec<Trajectory>> {
        let mut all = self.list(filter)?;
        all.retain(is_finished);
        let key = |one: &Trajectory| one.mean_reward().unwrap_or(f64::NEG_INFINITY);
        all.sort_by(|a, b| key(b).total_cmp(&key(a)).then(b.id.cmp(&a.id)));
        all.truncate(count);
        Ok(all)
    }

    /// Mean and deviation of the rewards of the latest `count` ended trajectories.
    fn recent_rewards(&mut self, filter: &Filter, count: usize) -> Result<RecentRewards> {
        let all = self.list(filter)?;
        let latest = all.iter().rev().filter(|one| is_finished(one)).take(count);
        Ok(RecentRewards::of(latest))
    }

    /// Stores a trajectory as a whole or not at all; on the server's or the file's disk when it
    /// returns.
    fn put(&mut self, recorded: &RecordedTrajectory) -> Result<()>;

    /// Deletes trajectories.
    fn delete(&mut self, ids: &[TrajectoryId]) -> Result<()>;

    /// What [`Store::prune`] would delete.
    fn prunable(&mut self, retention: &Retention) -> Result<Pruned> {
        Ok(Pruned::of(&retention.chosen(&self.list(&Filter::default())?)))
    }

    /// Deletes what the retention does not keep.
    fn prune(&mut self, retention: &Retention) -> Result<Pruned> {
        let all = self.list(&Filter::default())?;
        let chosen = retention.chosen(&all);
        let ids: Vec<TrajectoryId> = chosen.iter().map(|one| one.id).collect();
        self.delete(&ids)?;
        Ok(Pruned::of(&chosen))
    }
}

fn is_finished(trajectory: &Trajectory) -> bool {
    trajectory.end.is_some() && trajectory.transitions > 0
}

/// A trajectory with all that belongs to it.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedTrajectory {
    /// Where it comes from.
    pub origin: Origin,
    /// Its transitions.
    pub transitions: Vec<Transition>,
    /// How it ended, and what was observed then; none if it is open.
    pub end: Option<(End, Vec<f32>)>,
}

impl RecordedTrajectory {
    /// A trajectory that has begun.
    pub fn new(origin: Origin) -> Self {
        Self { origin, transitions: Vec::new(), end: None }
    }

    /// Adds a record; returns one that cannot follow.
    pub fn push(&mut self, record: Record) -> Option<Record> {
        match record {
            _ if self.end.is_some() => return Some(record),
            Record::Trajectory(_) => return Some(record),
            Record::Transition(transition) => self.transitions.push(transition),
            Record::End { how, observation } => self.end = Some((how, observation)),
        }
        None
    }

    /// An error for numbers that are not finite, or do not fit the schema.
    pub fn check(&self) -> Result<()> {
        let schema = &self.origin.schema;
        let observed = schema.features.features.len() * schema.features.history.max(1);
        let check = |what: &'static str, schema: &str, numbers: &[f32], expected: usize| {
            if numbers.len() != expected {
                let (found, schema) = (numbers.len(), schema.to_owned());
                return Err(Error::WrongLength { what, found, expected, schema });
            }
            numbers.iter().try_for_each(|number| finite(what, f64::from(*number)))
        };
        let observation =
            |numbers: &[f32]| check("an observation", &schema.features.id, numbers, observed);
        for transition in &self.transitions {
            observation(&transition.observation)?;
            let parts = schema.action.parts.len();
            check("an action", &schema.action.id, &transition.action, parts)?;
            finite("a reward", transition.reward)?;
            let probability = transition.probability.unwrap_or(1.0);
            if !(probability > 0.0 && probability.is_finite()) {
                return Err(Error::NotStorable {
                    what: "a probability",
                    value: probability,
                    expected: "above zero and finite",
                });
            }
        }
        self.end.as_ref().map_or(Ok(()), |(_, last)| observation(last))
    }

    /// The sum of its rewards.
    pub fn reward_sum(&self) -> f64 {
        self.transitions.iter().map(|transition| transition.reward).sum()
    }
}

fn finite(what: &'static str, value: f64) -> Result<()> {
    match value.is_finite() {
        true => Ok(()),
        false => Err(Error::NotStorable { what, value, expected: "finite" }),
    }
}

impl Store for TrajectoryStore {
    fn list(&mut self, filter: &Filter) -> Result<Vec<Trajectory>> {
        Self::list(self, filter)
    }

    fn get(&mut self, id: TrajectoryId) -> Result<Trajectory> {
        Self::get(self, id)
    }

    fn origin(&mut self, id: TrajectoryId) -> Result<Origin> {
        Self::origin(self, id)
    }

    fn transitions(
        &mut self,
        id: TrajectoryId,
        each: &mut dyn FnMut(Transition) -> Result<()>,
    ) -> Result<()> {
        Self::transitions(self, id, each)
    }

    fn last_observation(&mut self, id: TrajectoryId) -> Result<Option<Vec<f32>>> {
        Self::last_observation(self, id)
    }

    fn best(&mut self, filter: &Filter, count: usize) -> Result<Vec<Trajectory>> {
        Self::best(self, filter, count)
    }

    fn recent_rewards(&mut self, filter: &Filter, count: usize) -> Result<RecentRewards> {
        Self::recent_rewards(self, filter, count)
    }

    fn put(&mut self, recorded: &RecordedTrajectory) -> Result<()> {
        let mut writer = self.write()?;
        let id = writer.begin(&recorded.origin)?;
        for transition in &recorded.transitions {
            writer.append(id, transition)?;
        }
        if let Some((how, observation)) = &recorded.end {
            writer.end(id, *how, observation)?;
        }
        writer.commit()
    }

    fn delete(&mut self, ids: &[TrajectoryId]) -> Result<()> {
        Self::delete(self, ids)
    }

    fn prunable(&mut self, retention: &Retention) -> Result<Pruned> {
        Self::prunable(self, retention)
    }

    fn prune(&mut self, retention: &Retention) -> Result<Pruned> {
        Self::prune(self, retention)
    }
}
