//! Base models (section 4.7.2): one pair of networks for each type of function, from which new
//! agents start. They follow in the background, by taking over the weights of the agent of
//! their type that does best. (Averaging the weights of networks that were trained apart would
//! give a network that does neither's work.)

use homeostat_core::{Result, Snapshot};
use homeostat_rl::Ppo;

use crate::TaskType;

/// The base model of each type, once an agent of it has finished an episode.
#[derive(Debug, Default)]
pub(crate) struct Bases([Option<Weights>; TaskType::ALL.len()]);

#[derive(Debug, Clone)]
struct Weights {
    actor: Vec<f32>,
    critic: Vec<f32>,
}

impl Weights {
    fn of(ppo: &Ppo) -> Self {
        let (actor, critic) = ppo.networks();
        Self { actor: actor.params().to_vec(), critic: critic.params().to_vec() }
    }
}

impl Bases {
    /// The base of a type becomes a copy of this agent's networks.
    pub(crate) fn follow(&mut self, task_type: TaskType, ppo: &Ppo) {
        match &mut self.0[task_type as usize] {
            Some(base) => {
                let (actor, critic) = ppo.networks();
                base.actor.copy_from_slice(actor.params());
                base.critic.copy_from_slice(critic.params());
            }
            empty => *empty = Some(Weights::of(ppo)),
        }
    }

    /// A new agent starts from the base of its type, where there is one.
    pub(crate) fn start(&self, task_type: TaskType, ppo: &mut Ppo) {
        if let Some(base) = &self.0[task_type as usize] {
            let (actor, critic) = ppo.networks_mut();
            actor.params_mut().copy_from_slice(&base.actor);
            critic.params_mut().copy_from_slice(&base.critic);
        }
    }

    pub(crate) fn save(&self, name: &str, out: &mut Snapshot) {
        for (task_type, base) in TaskType::ALL.into_iter().zip(&self.0) {
            let name = format!("{name}/{}", task_type.name());
            out.put_u64(&format!("{name}/there"), [u64::from(base.is_some())]);
            if let Some(base) = base {
                out.put_f32(&format!("{name}/actor"), base.actor.as_slice());
                out.put_f32(&format!("{name}/critic"), base.critic.as_slice());
            }
        }
    }

    /// Restores what [`Bases::save`] wrote; `like` is an agent with networks of the same form.
    pub(crate) fn load(&mut self, name: &str, like: &Ppo, from: &Snapshot) -> Result<()> {
        for (task_type, slot) in TaskType::ALL.into_iter().zip(&mut self.0) {
            let name = format!("{name}/{}", task_type.name());
            *slot = None;
            if from.u64s(&format!("{name}/there"), 1)?[0] != 0 {
                let mut base = Weights::of(like);
                from.copy_f32s(&format!("{name}/actor"), &mut base.actor)?;
                from.copy_f32s(&format!("{name}/critic"), &mut base.critic)?;
                *slot = Some(base);
            }
        }
        Ok(())
    }
}
