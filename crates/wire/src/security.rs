//! Who may talk to whom: tokens, certificates, and which addresses need both.

use std::fmt;
use std::net::IpAddr;

use sha2::{Digest, Sha256};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Identity;

use crate::{Error, Result};

/// Where a token travels.
pub(crate) const TOKEN_HEADER: &str = "authorization";

/// A secret that coordinator and agents share. It is never printed.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Shorter ones can be guessed.
    const MIN_LENGTH: usize = 16;

    /// A token from the content of a file or a variable; white space around it is no part of it.
    pub fn new(text: &str) -> Result<Self> {
        let token = text.trim();
        let refuse = |reason| Err(Error::Token { reason });
        if token.len() < Self::MIN_LENGTH {
            return refuse(
                "it has fewer than 16 characters: `openssl rand -hex 32` makes a good one",
            );
        }
        if token.len() > 4096 || !token.chars().all(|c| c.is_ascii_graphic()) {
            return refuse("it must be one word of at most 4096 printable ASCII characters");
        }
        Ok(Self(token.to_owned()))
    }

    pub(crate) fn header(&self) -> MetadataValue<Ascii> {
        let mut value: MetadataValue<Ascii> =
            format!("Bearer {}", self.0).parse().expect("a token is printable ASCII");
        value.set_sensitive(true);
        value
    }

    /// Whether a header carries this token. Takes as long for a wrong one as for the right one:
    /// hashes are compared, and every byte of them.
    pub(crate) fn is_in(&self, header: Option<&[u8]>) -> bool {
        let expected = Sha256::digest(format!("Bearer {}", self.0));
        let found = Sha256::digest(header.unwrap_or_default());
        expected.iter().zip(&found).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(...)")
    }
}

/// A certificate chain and its private key, in PEM.
#[derive(Clone)]
pub struct ServerIdentity {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl ServerIdentity {
    /// The identity of these two files' contents; whether they fit is seen when a server starts.
    pub fn new(certificate: Vec<u8>, key: Vec<u8>) -> Self {
        Self { certificate, key }
    }

    pub(crate) fn identity(&self) -> Identity {
        Identity::from_pem(&self.certificate, &self.key)
    }
}

impl fmt::Debug for ServerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerIdentity(...)")
    }
}

/// Refuses to talk to other machines in the clear, or without a token.
pub(crate) fn refuse_exposed(
    address: &str,
    is_loopback: bool,
    has_tls: bool,
    has_token: bool,
) -> Result<()> {
    let refuse = |missing, fix| Err(Error::Exposed { address: address.to_owned(), missing, fix });
    match (is_loopback, has_tls, has_token) {
        (true, ..) | (_, true, true) => Ok(()),
        (_, false, false) => {
            refuse("neither TLS nor a token", "certificates and a token (see --help)")
        }
        (_, false, true) => refuse("no TLS", "certificates (see the --tls options)"),
        (_, true, false) => {
            refuse("no token", "--token-file, or HOMEOSTAT_COORDINATOR_TOKEN in the environment")
        }
    }
}

/// Whether a host of a URL is this machine. Other names are not looked up: what they mean may
/// change.
pub(crate) fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_long_word_and_is_never_shown() {
        let token = Token::new(" 0123456789abcdef\n").unwrap();
        assert!(token.is_in(Some(b"Bearer 0123456789abcdef")));
        for wrong in [&b"Bearer 0123456789abcdeF"[..], b"0123456789abcdef", b"Bearer ", b""] {
            assert!(!token.is_in(Some(wrong)));
        }
        assert!(!token.is_in(None));
        assert_eq!(format!("{token:?}"), "Token(...)");
        for wrong in ["", "short", "with a blank inside it", "ünsichtbare-zeichen-hier"] {
            let error = Token::new(wrong).unwrap_err().to_string();
            assert!(wrong.is_empty() || !error.contains(wrong), "{error}");
        }
    }

    #[test]
    fn only_this_machine_may_be_talked_to_without_tls_and_token() {
        let check = |is_loopback, has_tls, has_token, expect: Option<&str>| {
            let refused = refuse_exposed("10.0.0.1:7700", is_loopback, has_tls, has_token).err();
            let text = refused.map(|error| error.to_string());
            assert_eq!(text.is_some(), expect.is_some());
            assert!(text.unwrap_or_default().contains(expect.unwrap_or_default()));
        };
        check(true, false, false, None);
        check(false, true, true, None);
        check(false, false, true, Some("no TLS"));
        check(false, true, false, Some("no token"));
        check(false, false, false, Some("neither TLS nor a token"));
    }

    #[test]
    fn this_machine_has_several_names() {
        for own in ["localhost", "127.0.0.1", "127.8.9.1", "[::1]", "::1"] {
            assert!(is_loopback(own), "{own}");
        }
        for other in ["0.0.0.0", "[::]", "10.0.0.1", "localhost.example.org", "example.org"] {
            assert!(!is_loopback(other), "{other}");
        }
    }
}
