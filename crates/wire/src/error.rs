//! What can be wrong with an address, a certificate or a token.

use std::net::SocketAddr;

/// An error with the value and the way out in its text.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An address that other machines can reach, without what protects it there.
    #[error(
        "{address} can be reached from other machines, and there is {missing}: \
         use an address of this machine alone (127.0.0.1), or give {fix}"
    )]
    Exposed {
        /// The address as given.
        address: String,
        /// What is missing.
        missing: &'static str,
        /// The options that supply it.
        fix: &'static str,
    },
    /// An address that cannot be listened on.
    #[error("cannot listen on {address}: {reason}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        reason: String,
    },
    /// A URL that names no server.
    #[error(
        "`{url}` is not an address of a server: {reason}; use http://127.0.0.1:7700 or \
         https://name:7700"
    )]
    Url {
        /// The URL as given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Certificates or a key that cannot be used.
    #[error("cannot use TLS: {reason}")]
    Tls {
        /// What is wrong, and the way out.
        reason: String,
    },
    /// A token that cannot be used.
    #[error("cannot use the token: {reason}")]
    Token {
        /// What is wrong with it; never the token itself.
        reason: &'static str,
    },
    /// The system gave no threads.
    #[error("cannot start: {reason}")]
    Start {
        /// What the system said.
        reason: String,
    },
}

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
