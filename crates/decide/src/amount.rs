//! Amounts of what an allocation is made of, for reasons and messages.

use std::fmt;

use homeostat_core::{Bytes, Millicores};

/// What an allocation is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dimension {
    /// Number of replicas.
    Replicas,
    /// CPU of each.
    Cpu,
    /// Memory of each.
    Memory,
}

/// Some of one dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Number of replicas.
    Replicas(u32),
    /// CPU of each.
    Cpu(Millicores),
    /// Memory of each.
    Memory(Bytes),
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Replicas => "replicas",
            Self::Cpu => "CPU",
            Self::Memory => "memory",
        })
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replicas(1) => write!(f, "1 replica"),
            Self::Replicas(replicas) => write!(f, "{replicas} replicas"),
            Self::Cpu(_) => write!(f, "{} CPU", self.quantity()),
            Self::Memory(_) => write!(f, "{} memory", self.quantity()),
        }
    }
}

impl Amount {
    /// The amount without what it is of, where that was just said.
    pub(crate) fn quantity(&self) -> String {
        match self {
            Self::Replicas(replicas) => replicas.to_string(),
            Self::Cpu(cpu) => cpu.to_string(),
            Self::Memory(memory) => in_units(*memory),
        }
    }
}

/// Any number of bytes in the unit that people read, to a tenth.
fn in_units(memory: Bytes) -> String {
    const UNITS: [(u32, &str); 5] = [(60, "Ei"), (50, "Pi"), (40, "Ti"), (30, "Gi"), (20, "Mi")];
    let unit = UNITS.into_iter().find(|(power, _)| memory.bytes() >> power > 0);
    let Some((power, suffix)) = unit else { return memory.to_string() };
    let tenths = (memory.bytes() as f64 / (1_u64 << power) as f64 * 10.0).round();
    format!("{}{suffix}", tenths / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_read_like_people_write_them() {
        let check = |amount: Amount, expect: &str| assert_eq!(amount.to_string(), expect);
        check(Amount::Replicas(1), "1 replica");
        check(Amount::Cpu(Millicores::new(125)), "125m CPU");
        check(Amount::Memory(Bytes::from_mib(64)), "64Mi memory");
        check(Amount::Memory(Bytes::new(109_814_791)), "104.7Mi memory");
        check(Amount::Memory(Bytes::new(1000)), "1000 memory");
        check(Amount::Memory(Bytes::from_mib(1331)), "1.3Gi memory");
        check(Amount::Memory(Bytes::from_mib(4096)), "4Gi memory");
        check(Amount::Memory(Bytes::from_mib(3_339_629_376)), "3.1Pi memory");
    }
}
