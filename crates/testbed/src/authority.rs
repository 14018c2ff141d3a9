//! The certificate authority of a cluster.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// A certificate authority that writes into one directory: `ca.crt`, and a pair of files for every
/// certificate.
pub struct Authority {
    directory: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new one.
    pub fn new(directory: &Path) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name.push(DnType::CommonName, "test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("signed").pem();
        fs::write(directory.join("ca.crt"), pem).expect("written");
        Self { directory: directory.to_owned(), issuer: Issuer::new(params, key) }
    }

    /// Writes `file.crt` and `file.key` for a user of these groups, or for a server of these
    /// names and addresses.
    pub fn issue(&self, file: &str, user: &str, groups: &[&str], names: &[&str]) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.distinguished_name.push(DnType::CommonName, user);
        for group in groups {
            params.distinguished_name.push(DnType::OrganizationName, *group);
        }
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        fs::write(self.directory.join(format!("{file}.crt")), certificate.pem()).expect("written");
        fs::write(self.directory.join(format!("{file}.key")), key.serialize_pem())
            .expect("written");
    }
}
