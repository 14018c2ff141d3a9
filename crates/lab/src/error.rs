//! What a user of the workbench can get wrong, and what the disk can.

use std::path::PathBuf;

/// An error whose text names the value and the fix.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key that no setting has.
    #[error("unknown setting `{key}` from {source_text}{hint}")]
    UnknownKey {
        /// The key as written.
        key: String,
        /// Where it was written.
        source_text: String,
        /// ", did you mean ...?"
        hint: String,
    },
    /// A setting whose value cannot be read.
    #[error("cannot use {source_text}: {reason}")]
    Unreadable {
        /// Where it was written.
        source_text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A value outside its range.
    #[error("{key} = {value} (from {source_text}) is out of range: {expected}")]
    OutOfRange {
        /// The setting.
        key: String,
        /// Its value.
        value: String,
        /// Where it was written.
        source_text: String,
        /// What it must be.
        expected: String,
    },
    /// A file that cannot be read or written.
    #[error("cannot {action} {path}: {reason}", path = path.display())]
    File {
        /// What was tried: `read`, `write`, `create`.
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// A directory that a new run may not take.
    #[error("{path} exists already: use another --run-dir{otherwise}", path = path.display())]
    RunExists {
        /// Which directory.
        path: PathBuf,
        /// What else can be done, with a comma before it.
        otherwise: &'static str,
    },
    /// A directory of something else.
    #[error("{path} is not empty and has no {mark}: use an empty directory, or one that has it", path = path.display())]
    ForeignDirectory {
        /// Which directory.
        path: PathBuf,
        /// The file by which it would be known.
        mark: String,
    },
    /// A run that another process is training.
    #[error("another process is training in {path}: wait for it, or stop it first", path = path.display())]
    RunLocked {
        /// Which directory.
        path: PathBuf,
    },
    /// A run without policies yet.
    #[error("run {path} has no policies yet: they are written with its first checkpoint", path = path.display())]
    NoPolicies {
        /// Which directory.
        path: PathBuf,
    },
    /// A setting that differs from the one a run was begun with.
    #[error(
        "{key} was {then} when the run began and is {now} now: undo the change, or start a new run"
    )]
    SettingChanged {
        /// The setting.
        key: String,
        /// Its value in the checkpoint.
        then: String,
        /// Its value now.
        now: String,
    },
    /// A figure that a threshold needs and a run does not have.
    #[error("unknown figure `{name}`{hint}; the figures are {known}")]
    MissingFigure {
        /// The figure.
        name: String,
        /// ", did you mean ...?"
        hint: String,
        /// Those that there are.
        known: String,
    },
    /// A figure that was not measured.
    #[error("figure `{name}` has no value: nothing was measured")]
    FigureWithoutValue {
        /// The figure.
        name: String,
    },
    /// A directory that is no run.
    #[error("{path} is not a run directory: {reason}", path = path.display())]
    NotARun {
        /// Which directory.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// Every checkpoint of a run is damaged.
    #[error("no checkpoint in {path} can be loaded: {reason}", path = path.display())]
    NoCheckpoint {
        /// Which directory.
        path: PathBuf,
        /// Why each was refused.
        reason: String,
    },
    /// A threshold that cannot be understood.
    #[error(
        "threshold `{text}` is not of the form `METRIC < NUMBER` (also <=, >, >=, ==): {reason}"
    )]
    Threshold {
        /// As written.
        text: String,
        /// What is wrong.
        reason: String,
    },
    /// Runs that cannot be compared.
    #[error("cannot compare: {reason}")]
    Incomparable {
        /// Why not, and the fix.
        reason: String,
    },
    /// Nothing to draw.
    #[error("cannot draw learning curves: {reason}")]
    Curves {
        /// Why not.
        reason: String,
    },
    /// Control groups that cannot be made or used.
    #[error("cannot use control groups at {path}: {reason}", path = path.display())]
    Groups {
        /// Which file or directory.
        path: PathBuf,
        /// What the system said, and the fix.
        reason: String,
    },
    /// A measurement of this machine that cannot be made.
    #[error("cannot calibrate this node: {reason}")]
    Calibration {
        /// Why not.
        reason: String,
    },
    /// A policy file that cannot be used.
    #[error("failed to load policy {path}: {reason}", path = path.display())]
    BadPolicy {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Agents of a shared environment that cannot be trained together any further.
    #[error("the agents of {env} cannot be trained further: {reason}")]
    AgentGroup {
        /// The environment.
        env: String,
        /// Which agent does not fit, and the fix.
        reason: String,
    },
    /// An agent that has no place in its team.
    #[error("this agent cannot join the team: {reason}")]
    Team {
        /// Why not, and the fix.
        reason: String,
    },
    /// The user asked to stop.
    #[error("interrupted before the end")]
    Interrupted,
    /// An error of a learner.
    #[error(transparent)]
    Learner(#[from] homeostat_rl::Error),
    /// An error of an environment.
    #[error(transparent)]
    Env(#[from] homeostat_env::Error),
    /// A serverless platform that cannot be built.
    #[error(transparent)]
    Faas(#[from] homeostat_sim_faas::Error),
    /// A team that cannot be trained.
    #[error(transparent)]
    Training(#[from] homeostat_simppo::Error),
    /// A policy that cannot be used.
    #[error(transparent)]
    Policy(#[from] homeostat_decide::Error),
    /// State that does not fit.
    #[error(transparent)]
    State(#[from] homeostat_core::Error),
    /// A damaged file.
    #[error(transparent)]
    Damaged(#[from] homeostat_nn::Error),
}

impl Error {
    /// Whether the user can fix it by calling differently.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::UnknownKey { .. }
                | Self::Unreadable { .. }
                | Self::OutOfRange { .. }
                | Self::Threshold { .. }
                | Self::MissingFigure { .. }
                | Self::NotARun { .. }
                | Self::Incomparable { .. }
                | Self::RunExists { .. }
                | Self::ForeignDirectory { .. }
                | Self::SettingChanged { .. }
                | Self::Env(
                    homeostat_env::Error::UnknownId { .. }
                        | homeostat_env::Error::ManyAgents { .. }
                        | homeostat_env::Error::SingleAgent { .. }
                        | homeostat_env::Error::MalformedId { .. }
                )
                | Self::Training(homeostat_simppo::Error::Setting { .. })
                | Self::Learner(
                    homeostat_rl::Error::Unsuited { .. }
                        | homeostat_rl::Error::Network(_)
                        | homeostat_rl::Error::Setting { .. }
                )
        )
    }
}

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
