//! Stores on servers, for those who have one: PostgreSQL, and InfluxDB by its line protocol.

mod http;
mod influx;
mod line_protocol;
mod postgres;

use std::path::Path;

pub use influx::InfluxStore;
pub use postgres::PostgresStore;

use crate::{Error, Result, Store, TrajectoryStore};

/// Opens the store of an address: `postgres://USER@HOST/DATABASE`, `influxdb://HOST:8086/DATABASE`
/// (`influxdb+https://` with TLS), or the path of a SQLite file. With `creates`, one that is not there is
/// made.
pub fn open_store(address: &str, creates: bool) -> Result<Box<dyn Store>> {
    let scheme = address.split_once("://").map(|(scheme, _)| scheme);
    Ok(match scheme {
        Some("postgres" | "postgresql") => Box::new(PostgresStore::open(address, creates)?),
        Some("influxdb" | "influxdb+https") => Box::new(InfluxStore::open(address, creates)?),
        Some(other) => {
            let reason = format!(
                "{other}:// is unknown: use postgres://, influxdb://, influxdb+https://, or the path of a file"
            );
            return Err(Error::Address { address: without_password(address), reason });
        }
        None if creates => Box::new(TrajectoryStore::open_or_create(Path::new(address))?),
        None => Box::new(TrajectoryStore::open(Path::new(address))?),
    })
}

/// An address for messages.
pub(crate) fn without_password(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let authority = match authority.rsplit_once('@') {
        Some((user, host)) => format!("{}@{host}", user.split(':').next().unwrap_or_default()),
        None => authority.to_owned(),
    };
    // Parameters may contain a password as well.
    let path = path.split('?').next().unwrap_or_default();
    format!("{scheme}://{authority}/{path}")
}

/// Whether requests to a host never leave the machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        let check = |address: &str, shown: &str| assert_eq!(without_password(address), shown);
        check("postgres://me:secret@db:5432/rl?sslmode=disable", "postgres://me@db:5432/rl");
        check("influxdb://h:8086/rl?password=secret", "influxdb://h:8086/rl");
        check("shop.db", "shop.db");
    }

    #[test]
    fn an_unknown_scheme_is_refused_with_those_that_are_known() {
        let refused =
            open_store("mysql://me:secret@db/x", true).err().expect("refused").to_string();
        assert!(refused.contains("mysql:// is unknown: use postgres://"), "{refused}");
        assert!(!refused.contains("secret"), "{refused}");
    }
}
