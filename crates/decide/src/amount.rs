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
            Self::Cpu(cpu) => write!(f, "{cpu} CPU"),
            // A recommendation is any number of bytes; people read mebibytes.
            Self::Memory(memory) if memory.bytes() >= 1 << 20 => {
                write!(f, "{}Mi memory", (memory.mib() * 10.0).round() / 10.0)
            }
            Self::Memory(memory) => write!(f, "{memory} memory"),
        }
    }
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
    }
}
