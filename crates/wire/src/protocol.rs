//! The messages and the services, made from the files in `proto`. Modules follow the packages, so
//! that one file may use the messages of the other.
//!
//! The code is checked in, so that building this crate needs no compiler of protocols; a test
//! makes it again and compares.
#![expect(unreachable_pub, clippy::allow_attributes_without_reason, reason = "made by a generator")]

pub(crate) mod coordination {
    pub(crate) mod v2 {
        include!("generated/homeostat.coordination.v2.rs");
    }
}

pub(crate) mod environment {
    pub(crate) mod v1 {
        include!("generated/homeostat.environment.v1.rs");
    }
}
