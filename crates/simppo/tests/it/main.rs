//! Integration tests, one binary.

mod virtual_agent;
