//! `homeostat._native`: environments, policies and the workbench as Python sees them. The package
//! around it (`python/homeostat`) gives them the shapes of Gymnasium and PettingZoo.
//!
//! Layer 8. Whatever takes time runs without the interpreter's lock; an object that is in use by
//! one thread says so to another instead of waiting. Nothing here is unsafe, and a panic
//! becomes a Python exception.
#![forbid(unsafe_code)]

mod actions;
mod arrays;
mod attended;
mod comparison;
mod env;
mod environments;
mod exceptions;
mod multi_agent_env;
mod policy;
mod raster;
mod settings;
mod simulation;
mod training;
mod turn;
mod vector_env;

use pyo3::prelude::*;

/// The compiled part of the package.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::comparison::{compare, draw_curves};
    #[pymodule_export]
    use super::env::NativeEnv;
    #[pymodule_export]
    use super::environments::{
        card, default_multi_agent_env, default_settings, environments, own_spelling, setting_names,
    };
    #[pymodule_export]
    use super::multi_agent_env::NativeMultiAgentEnv;
    #[pymodule_export]
    use super::policy::{Policy, evaluate, policy_files};
    #[pymodule_export]
    use super::simulation::{simulate, simulation_figures, write_report};
    #[pymodule_export]
    use super::training::train;
    #[pymodule_export]
    use super::vector_env::NativeVectorEnv;

    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python spells it so")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
