//! Settings that had another name in the release before. They are accepted for one release, in
//! settings and in run directories.

use homeostat_env::RenamedSetting;

use crate::Environments;

/// Renamed after 0.1.0; simulators have lists of their own.
const RENAMED: [RenamedSetting; 8] = [
    RenamedSetting { old: "simppo.pay", new: "simppo.reward_sharing" },
    RenamedSetting { old: "simppo.view", new: "simppo.critic_input" },
    RenamedSetting { old: "simppo.sharing", new: "simppo.parameter_sharing" },
    RenamedSetting { old: "simppo.worlds", new: "simppo.num_envs" },
    RenamedSetting { old: "ppo.lanes", new: "ppo.num_envs" },
    RenamedSetting { old: "dqn.lanes", new: "dqn.num_envs" },
    RenamedSetting { old: "ddpg.lanes", new: "ddpg.num_envs" },
    RenamedSetting { old: "q-learning.lanes", new: "q-learning.num_envs" },
];

impl Environments {
    /// Every renamed setting.
    pub(super) fn renamed(&self) -> impl Iterator<Item = &'static RenamedSetting> {
        RENAMED.iter().chain(self.renamed_settings())
    }

    /// The present name of an old key.
    pub(super) fn present_key(&self, old: &str) -> Option<&'static str> {
        self.renamed().find(|renamed| renamed.old == old).map(|renamed| renamed.new)
    }

    /// The name that a key had before.
    pub(crate) fn former_key(&self, new: &str) -> Option<&'static str> {
        self.renamed().find(|renamed| renamed.new == new).map(|renamed| renamed.old)
    }
}
