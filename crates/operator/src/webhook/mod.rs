//! The admission webhook: sizes pods when they are made. If it is down, pods start with what
//! their template says.

mod certificates;
mod keeper;
mod review;

pub use certificates::{CertificateError, Certificates};
pub use keeper::{CurrentCertificate, Keeper, KeeperConfig};
pub use review::review;
