//! The messages and the service, made from `proto/environment.proto`.
#![expect(unreachable_pub, clippy::allow_attributes_without_reason, reason = "made by a generator")]

include!("../generated/homeostat.environment.v1.rs");
