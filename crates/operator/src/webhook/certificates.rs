//! Self-made certificates of the webhook: an authority and a leaf.

use k8s_openapi::jiff::{Timestamp, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use tokio_rustls::rustls::client::verify_server_name;
use tokio_rustls::rustls::crypto::ring::sign::any_supported_type;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::sign::CertifiedKey;

/// Days that a certificate is valid.
const VALID_DAYS: i64 = 90;
/// Days before its expiry at which it is renewed.
const RENEWED_DAYS_BEFORE: i64 = 30;
const DAY_SECONDS: i64 = 86_400;

/// Why certificates cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// They cannot be made.
    #[error("failed to make a certificate: {0}")]
    NotMade(#[from] rcgen::Error),
    /// They cannot be read.
    #[error("the certificate cannot be read: {why}")]
    NotRead {
        /// Why.
        why: String,
    },
}

/// An authority's certificate, a leaf, and the leaf's key, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificates {
    /// Certificates of the authorities that clients should trust, the current one first.
    pub authorities: String,
    /// The leaf.
    pub certificate: String,
    /// The leaf's key.
    pub key: String,
    /// When the leaf expires, in seconds since 1970.
    pub ends: i64,
}

/// Leaves out the key, which is secret.
impl std::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificates").field("ends", &self.ends).finish_non_exhaustive()
    }
}

impl Certificates {
    /// Makes certificates for a server with these names. Clients trust the authority of `before` as
    /// well, since servers and clients switch to the new one at different times.
    pub fn make(
        names: &[String],
        now: Timestamp,
        before: Option<&Self>,
    ) -> Result<Self, CertificateError> {
        let day = |seconds: i64| {
            let at = Timestamp::from_second(now.as_second() + seconds).unwrap_or(now);
            let date = at.to_zoned(TimeZone::UTC).date();
            date_time_ymd(
                date.year().into(),
                date.month().unsigned_abs(),
                date.day().unsigned_abs(),
            )
        };
        // Clocks differ, so they are valid from yesterday on.
        let (from, to) = (day(-DAY_SECONDS), day(VALID_DAYS * DAY_SECONDS));
        let mut authority = CertificateParams::new(Vec::new())?;
        authority.distinguished_name.push(DnType::CommonName, "homeostat webhook authority");
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        (authority.not_before, authority.not_after) = (from, to);
        let authority_key = KeyPair::generate()?;
        let authority_certificate = authority.self_signed(&authority_key)?.pem();
        let issuer = Issuer::new(authority, authority_key);

        let mut leaf = CertificateParams::new(names.to_vec())?;
        leaf.distinguished_name.push(DnType::CommonName, "homeostat webhook");
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        (leaf.not_before, leaf.not_after) = (from, to);
        let key = KeyPair::generate()?;
        let certificate = leaf.signed_by(&key, &issuer)?.pem();
        let old = before.map(|before| first_certificate(&before.authorities)).unwrap_or_default();
        Ok(Self {
            authorities: format!("{authority_certificate}{old}"),
            certificate,
            key: key.serialize_pem(),
            ends: to.unix_timestamp(),
        })
    }

    /// Whether they have to be renewed.
    pub fn are_due(&self, now: Timestamp) -> bool {
        now.as_second() + RENEWED_DAYS_BEFORE * DAY_SECONDS >= self.ends
    }

    /// Whether they are valid for a server with these names; the service may have been renamed.
    pub fn are_for(&self, names: &[String]) -> bool {
        let Ok(leaf) = CertificateDer::from_pem_slice(self.certificate.as_bytes()) else {
            return false;
        };
        let Ok(leaf) = ParsedCertificate::try_from(&leaf) else { return false };
        let is_named = |name: &String| {
            // A wildcard is no server name and cannot be verified.
            ServerName::try_from(name.as_str())
                .map_or(true, |name| verify_server_name(&leaf, &name).is_ok())
        };
        names.iter().all(is_named)
    }

    /// The form that a TLS server needs.
    pub fn certified_key(&self) -> Result<CertifiedKey, CertificateError> {
        let refused =
            |why: &dyn std::fmt::Display| CertificateError::NotRead { why: why.to_string() };
        let chain = CertificateDer::pem_slice_iter(self.certificate.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|why| refused(&why))?;
        if chain.is_empty() {
            return Err(refused(&"there is none"));
        }
        let key =
            PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(|why| refused(&why))?;
        let key = any_supported_type(&key).map_err(|why| refused(&why))?;
        Ok(CertifiedKey::new(chain, key))
    }
}

fn first_certificate(pem: &str) -> &str {
    const END: &str = "-----END CERTIFICATE-----";
    pem.find(END).map_or("", |at| pem[..at + END.len()].trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(days: i64) -> Timestamp {
        Timestamp::from_second(1_794_787_200 + days * DAY_SECONDS).expect("a time")
    }

    #[test]
    fn they_are_renewed_a_month_before_they_expire() {
        let made = Certificates::make(&["localhost".to_owned()], at(0), None).expect("made");
        assert!(!made.are_due(at(0)));
        assert!(!made.are_due(at(59)));
        assert!(made.are_due(at(61)));
        made.certified_key().expect("a server can use them");
    }

    #[test]
    fn they_are_valid_for_the_names_and_addresses_that_they_were_made_for() {
        let names = |names: &[&str]| names.iter().map(|&name| name.into()).collect::<Vec<_>>();
        let all = names(&["homeostat.ops.svc", "127.0.0.1"]);
        let made = Certificates::make(&all, at(0), None).expect("made");
        assert!(made.are_for(&all));
        assert!(made.are_for(&names(&["127.0.0.1"])));
        assert!(made.are_for(&names(&["*.ops.svc"])));
        assert!(!made.are_for(&names(&["homeostat.ops.svc", "renamed.ops.svc"])));
        assert!(!made.are_for(&names(&["127.0.0.2"])));
        let broken = Certificates { certificate: "no certificate".to_owned(), ..made };
        assert!(!broken.are_for(&all));
    }

    #[test]
    fn clients_trust_the_current_and_the_previous_authority() {
        let names = ["localhost".to_owned()];
        let first = Certificates::make(&names, at(0), None).expect("made");
        let second = Certificates::make(&names, at(61), Some(&first)).expect("made");
        let third = Certificates::make(&names, at(122), Some(&second)).expect("made");
        let count = |certificates: &Certificates| certificates.authorities.matches("BEGIN").count();
        assert_eq!([count(&first), count(&second), count(&third)], [1, 2, 2]);
        assert!(second.authorities.contains(first_certificate(&first.authorities)));
    }

    #[test]
    fn an_invalid_certificate_is_refused_and_the_key_stays_secret() {
        let mut broken = Certificates::make(&["localhost".to_owned()], at(0), None).expect("made");
        assert!(!format!("{broken:?}").contains("PRIVATE"));
        broken.certificate = "no certificate".to_owned();
        let refused = broken.certified_key().expect_err("broken").to_string();
        assert!(refused.contains("cannot be read"), "{refused}");
    }
}
