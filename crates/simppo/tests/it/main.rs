//! Integration tests, one binary.

mod kind;
mod virtual_agent;
