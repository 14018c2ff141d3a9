//! The state of an engine, so that a restart loses nothing.

use std::collections::BTreeSet;

use homeostat_core::{Bytes, Millicores, Persist, Result as CoreResult, Snapshot};
use homeostat_decide::{Features, TeamMember, TeamState};

use super::Engine;
use super::config::container_history;
use crate::learn::LastAction;

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
        out.put_u64(&format!("{name}/unseen_oom_kills"), [u64::from(self.unseen_oom_kills)]);
        self.last_action.save(&format!("{name}/last_action"), out);
        self.member.save(&format!("{name}/member"), out);
        if let Some(team) = &self.team {
            team.save(&format!("{name}/team"), out);
        }
        match (&self.learned, &self.restored) {
            (Some(served), _) => served.policy.save(&format!("{name}/learned"), out),
            // The policy file could not be read since the restart: its state is kept.
            (None, Some(restored)) => {
                for (array, items) in restored.iter() {
                    out.put(&format!("{name}/{array}"), items.clone());
                }
            }
            (None, None) => {}
        }
        if let Some(features) = &self.features {
            features.save(&format!("{name}/features"), out);
        }
        for (container, (cpu, memory)) in &self.target_sizes {
            out.put_u64(
                &format!("{name}/target_sizes/{container}"),
                [cpu.millicores(), memory.bytes()],
            );
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
        // Both are absent in checkpoints of versions without learners.
        let last_action = self.last_action.load(&format!("{name}/last_action"), from);
        self.last_action = last_action.map_or(LastAction::default(), |()| self.last_action);
        let mut features = Features::new(*self.guards.bounds());
        let loaded = features.load(&format!("{name}/features"), from);
        self.features = loaded.ok().map(|()| features);
        let mut member = TeamMember::new(*self.guards.bounds());
        // Both are absent in checkpoints of versions without teams.
        if member.load(&format!("{name}/member"), from).is_ok() {
            self.member = member;
        }
        let mut team = TeamState::default();
        self.is_team_restored = team.load(&format!("{name}/team"), from).is_ok();
        self.team = self.is_team_restored.then_some(team);
        // Checkpoints of the release before have other names.
        let kills = from
            .u64s(&format!("{name}/unseen_oom_kills"), 1)
            .or_else(|_| from.u64s(&format!("{name}/unheard_kills"), 1))?[0];
        self.unseen_oom_kills = u32::try_from(kills).unwrap_or(u32::MAX);
        let prefix = format!("{name}/target_sizes/");
        self.target_sizes.clear();
        for container in names_below(&prefix) {
            let size = from.u64s(&format!("{prefix}{container}"), 2)?;
            self.target_sizes.insert(container, (Millicores::new(size[0]), Bytes::new(size[1])));
        }
        Ok(())
    }
}
