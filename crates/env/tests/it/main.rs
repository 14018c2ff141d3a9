//! The environment contract from outside: vectorised environments, episodes, and
//! the classic environments against the originals.

mod episode;
mod gymnasium;
mod vec_env;
