//! `homeostat._native`: worlds, policies and the workbench as Python sees them. The package
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
mod exceptions;
mod policy;
mod raster;
mod settings;
mod shared_world;
mod training;
mod turn;
mod vector_world;
mod world;
mod worlds;

use pyo3::prelude::*;

/// The compiled part of the package.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::comparison::{compare, draw_curves};
    #[pymodule_export]
    use super::policy::{Policy, evaluate, policy_files};
    #[pymodule_export]
    use super::shared_world::SharedWorld;
    #[pymodule_export]
    use super::training::train;
    #[pymodule_export]
    use super::vector_world::VectorWorld;
    #[pymodule_export]
    use super::world::World;
    #[pymodule_export]
    use super::worlds::{
        card, default_settings, default_shared_world, own_spelling, setting_sections, worlds,
    };

    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python spells it so")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
