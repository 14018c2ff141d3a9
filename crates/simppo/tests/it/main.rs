//! Integration tests, one binary.

mod coordinator;
mod participant;
mod team;
mod virtual_agent;
