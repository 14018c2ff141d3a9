//! The environment contract from outside: copies stepped together, episodes, and
//! the classic worlds beside the originals.

mod episode;
mod gymnasium;
mod vec_env;
