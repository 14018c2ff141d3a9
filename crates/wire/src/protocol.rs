//! The messages and the service, made from `proto/coordination.proto`.
//!
//! The code is checked in, so that nobody needs a compiler of protocols to build this crate; a
//! test makes it anew and compares.
#![expect(unreachable_pub, clippy::allow_attributes_without_reason, reason = "made by a generator")]

include!("generated/homeostat.coordination.v1.rs");
