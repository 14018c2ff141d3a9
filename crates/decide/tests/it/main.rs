//! Policies, guards and features through the public interface only.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod aimd;
mod ensure;
mod features;
mod guards;
mod hpa;
mod joint;
mod kpa;
mod observations;
mod other_domains;
mod persistence;
mod set_points;
mod short_first;
mod team;
mod virtual_agent;
mod vpa;
