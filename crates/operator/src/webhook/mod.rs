//! The admission webhook: sets the size of pods when they are created. If it is down, pods start with
//! the size of their template.

mod cert_manager;
mod certificates;
mod review;

pub(crate) use cert_manager::CERT_MANAGER_DEADLINE;
pub use cert_manager::{CertManager, CertManagerConfig, CurrentCertificate};
pub use certificates::{CertificateError, Certificates};
pub use review::review;
