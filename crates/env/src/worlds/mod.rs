//! Small worlds that need nothing but this crate: the classic control tasks, with
//! the dynamics of Gymnasium, and toys in which a working learner cannot fail.
//!
//! A world is one file that implements [`crate::World`] and
//! [`homeostat_core::Persist`], and one line in `registry.rs`; the test that runs
//! [`crate::check_env`] over the registry then covers it.

mod canvas;

pub mod acrobot;
pub mod cartpole;
pub mod grid_world;
pub mod identity;
pub mod mountain_car;
pub mod pendulum;
pub mod roll_call;

/// Why a world may take its action apart without an error path.
const OF_THE_SPACE: &str = "a world is only handed actions of its own space";
