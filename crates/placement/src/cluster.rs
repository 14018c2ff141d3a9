//! The devices of a cluster, of one type or several.

use std::collections::BTreeMap;

use homeostat_sim_gpu::DeviceType;
use serde::Deserialize;

use crate::{Error, Result};

/// The commented example of a cluster file.
pub const CLUSTER_EXAMPLE: &str = include_str!("cluster.toml");

/// Devices of one type.
#[derive(Debug, Clone, PartialEq)]
pub struct DevicePool {
    /// Name of the type.
    pub name: String,
    /// The type.
    pub device: DeviceType,
    /// How many there are.
    pub count: usize,
}

/// All devices. They are numbered through, pool by pool.
#[derive(Debug, Clone, PartialEq)]
pub struct Cluster {
    pools: Vec<DevicePool>,
}

/// A larger number is taken for a typing error.
const MAX_DEVICES: usize = 4096;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClusterFile {
    #[serde(default)]
    devices: Vec<PoolTable>,
    #[serde(default)]
    types: BTreeMap<String, DeviceType>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PoolTable {
    #[serde(rename = "type")]
    name: String,
    count: usize,
}

impl Cluster {
    /// A cluster of these pools, each of another type.
    pub fn try_new(pools: Vec<DevicePool>) -> Result<Self> {
        for (place, pool) in pools.iter().enumerate() {
            if pools[..place].iter().any(|other| other.name == pool.name) {
                return Err(Error::Duplicate { what: "device type", name: pool.name.clone() });
            }
            if pool.count == 0 {
                let key = format!("devices.{}.count", pool.name);
                return Err(Error::setting(key, 0, "at least 1; leave the type out otherwise"));
            }
            pool.device.validate(&format!("types.{}", pool.name))?;
        }
        let count = pools.iter().map(|pool| pool.count).fold(0, usize::saturating_add);
        if !(1..=MAX_DEVICES).contains(&count) {
            let expected =
                format!("1 to {MAX_DEVICES} in all: add [[devices]] with type and count");
            return Err(Error::setting("devices", count, &expected));
        }
        Ok(Self { pools })
    }

    /// Reads a cluster file; [`CLUSTER_EXAMPLE`] is one.
    pub fn read(text: &str) -> Result<Self> {
        let file: ClusterFile = toml::from_str(text).map_err(|error| Error::Unreadable {
            what: "the cluster file",
            reason: error.to_string().trim_end().to_owned(),
        })?;
        let mut types = DeviceType::builtin();
        types.extend(file.types);
        let pool = |table: PoolTable| {
            let unknown = || Error::Unknown {
                user: "[[devices]]".to_owned(),
                what: "device type",
                name: table.name.clone(),
                known: format!(
                    "{}, or describe it in [types.NAME]",
                    types.keys().cloned().collect::<Vec<_>>().join(", ")
                ),
            };
            let device = types.get(&table.name).cloned().ok_or_else(unknown)?;
            Ok(DevicePool { device, name: table.name, count: table.count })
        };
        Self::try_new(file.devices.into_iter().map(pool).collect::<Result<_>>()?)
    }

    /// The pools.
    pub fn pools(&self) -> &[DevicePool] {
        &self.pools
    }

    /// Number of devices.
    pub fn device_count(&self) -> usize {
        self.pools.iter().map(|pool| pool.count).sum()
    }

    /// The numbers of the devices of a pool.
    pub fn devices_of(&self, pool: usize) -> std::ops::Range<usize> {
        let first: usize = self.pools[..pool].iter().map(|pool| pool.count).sum();
        first..first + self.pools[pool].count
    }

    /// The pool of a device.
    pub fn pool_of(&self, device: usize) -> usize {
        let mut end = 0;
        let position = self.pools.iter().position(|pool| {
            end += pool.count;
            device < end
        });
        position.expect("devices are numbered from 0 to the count of all pools")
    }

    /// The name of a device: its type, and its number within the type.
    pub fn device_name(&self, device: usize) -> String {
        let pool = self.pool_of(device);
        format!("{}-{}", self.pools[pool].name, device - self.devices_of(pool).start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_a_cluster_of_two_types() {
        let cluster = Cluster::read(CLUSTER_EXAMPLE).unwrap();
        assert_eq!(cluster.pools().len(), 2);
        assert_eq!(cluster.device_name(0), "v100-0");
        let last = cluster.device_count() - 1;
        assert_eq!(cluster.pool_of(last), 1);
        assert!(cluster.device_name(last).starts_with("t4-"));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_fix() {
        let check = |text: &str, part: &str| {
            let error = Cluster::read(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        check("", "add [[devices]]");
        check("[[devices]]\ntype = \"v100\"\ncount = 0", "devices.v100.count = 0");
        check("[[devices]]\ntype = \"v100\"\ncount = -1", "line 3");
        check("[[devices]]\ntype = \"tpu\"\ncount = 1", "choose of a100");
        check("[[devices]]\ntype = \"t4\"\ncount = 99999", "1 to 4096");
        let twice = "[[devices]]\ntype = \"t4\"\ncount = 1\n";
        check(&twice.repeat(2), "`t4` appears twice");
        check("[[device]]\ntype = \"t4\"", "unknown field `device`");
    }
}
