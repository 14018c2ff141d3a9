//! The classic control tasks, with the dynamics of Gymnasium, and toy tasks that every working
//! learner solves.
//!
//! An environment is one file that implements [`Dynamics`](crate::Dynamics) and
//! [`Persist`](homeostat_core::Persist), and one line in `registry.rs`; the test that runs
//! [`check_env`](crate::check_env) over the registry then covers it.

mod canvas;

pub mod acrobot;
pub mod cartpole;
pub mod grid_world;
pub mod identity;
pub mod mountain_car;
pub mod pendulum;
pub mod roll_call;

const OF_THE_SPACE: &str = "`Episode` passes only actions inside the action space";
