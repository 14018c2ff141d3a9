//! Readers against good, bad and hostile input, and critical paths against their definition.

mod builder;
mod critical_path;
mod hostile;
mod properties;
mod readers;
