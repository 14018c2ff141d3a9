//! Dimensions of settings, and amounts in them, for reasons and messages.

use std::fmt;

use homeostat_core::{Bytes, Millicores};

/// One dimension of a setting, with the text form of its amounts. Dimensions are equal if their
/// names are.
#[derive(Debug, Clone, Copy)]
pub struct Dimension {
    /// Its name.
    pub name: &'static str,
    /// An amount without the dimension: `125m`.
    pub quantity: fn(u64) -> String,
    /// An amount with the dimension: `125m CPU`.
    pub phrase: fn(u64) -> String,
}

impl Dimension {
    /// Number of replicas.
    pub const REPLICAS: Self = Self {
        name: "replicas",
        quantity: |replicas| replicas.to_string(),
        phrase: |replicas| match replicas {
            1 => "1 replica".to_owned(),
            replicas => format!("{replicas} replicas"),
        },
    };
    /// CPU of each replica, in millicores.
    pub const CPU: Self = Self {
        name: "CPU",
        quantity: |millicores| Millicores::new(millicores).to_string(),
        phrase: |millicores| format!("{} CPU", Millicores::new(millicores)),
    };
    /// Memory of each replica, in bytes.
    pub const MEMORY: Self = Self {
        name: "memory",
        quantity: in_units,
        phrase: |bytes| format!("{} memory", in_units(bytes)),
    };

    /// An amount of it.
    pub const fn of(self, value: u64) -> Amount {
        Amount { dimension: self, value }
    }
}

impl PartialEq for Dimension {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Dimension {}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// An amount in one dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    /// The dimension.
    pub dimension: Dimension,
    /// The amount in the dimension's base unit.
    pub value: u64,
}

impl Amount {
    /// A number of replicas.
    pub const fn replicas(replicas: u32) -> Self {
        Dimension::REPLICAS.of(replicas as u64)
    }

    /// CPU of a replica.
    pub const fn cpu(cpu: Millicores) -> Self {
        Dimension::CPU.of(cpu.millicores())
    }

    /// Memory of a replica.
    pub const fn memory(memory: Bytes) -> Self {
        Dimension::MEMORY.of(memory.bytes())
    }

    /// The amount without the dimension, for sentences that name it already.
    pub(crate) fn quantity(&self) -> String {
        (self.dimension.quantity)(self.value)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&(self.dimension.phrase)(self.value))
    }
}

/// Bytes in the largest unit with a value of at least one, to one decimal.
fn in_units(bytes: u64) -> String {
    const UNITS: [(u32, &str); 5] = [(60, "Ei"), (50, "Pi"), (40, "Ti"), (30, "Gi"), (20, "Mi")];
    let unit = UNITS.into_iter().find(|(power, _)| bytes >> power > 0);
    let Some((power, suffix)) = unit else { return Bytes::new(bytes).to_string() };
    let tenths = (bytes as f64 / (1_u64 << power) as f64 * 10.0).round();
    format!("{}{suffix}", tenths / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_read_like_people_write_them() {
        let check = |amount: Amount, expect: &str| assert_eq!(amount.to_string(), expect);
        check(Amount::replicas(1), "1 replica");
        check(Amount::cpu(Millicores::new(125)), "125m CPU");
        check(Amount::memory(Bytes::from_mib(64)), "64Mi memory");
        check(Amount::memory(Bytes::new(109_814_791)), "104.7Mi memory");
        check(Amount::memory(Bytes::new(1000)), "1000 memory");
        check(Amount::memory(Bytes::from_mib(1331)), "1.3Gi memory");
        check(Amount::memory(Bytes::from_mib(4096)), "4Gi memory");
        check(Amount::memory(Bytes::from_mib(3_339_629_376)), "3.1Pi memory");
    }
}
