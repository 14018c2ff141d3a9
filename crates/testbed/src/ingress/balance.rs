//! Which pod gets a request.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use tokio::net::TcpStream;

/// The pods that are ready, with what each has to do.
#[derive(Default)]
pub(super) struct Balancer {
    pods: BTreeMap<SocketAddr, Backend>,
    last: Option<SocketAddr>,
}

#[derive(Default)]
struct Backend {
    outstanding: u32,
    /// Idle connections.
    idle: Vec<TcpStream>,
}

impl Balancer {
    /// These are ready now, and no others. What the others still do is theirs to finish.
    pub(super) fn set(&mut self, ready: &[SocketAddr]) {
        self.pods.retain(|address, _| ready.contains(address));
        for address in ready {
            self.pods.entry(*address).or_default();
        }
    }

    /// Whether any pod is ready.
    pub(super) fn has_pods(&self) -> bool {
        !self.pods.is_empty()
    }

    /// The pod with the fewest outstanding requests, in turn where several have as few; with a
    /// connection if one is open. None if no pod is ready.
    pub(super) fn take(&mut self) -> Option<(SocketAddr, Option<TcpStream>)> {
        let fewest = self.pods.values().map(|backend| backend.outstanding).min()?;
        let mut few = self.pods.iter().filter(|(_, backend)| backend.outstanding == fewest);
        let first = *few.clone().next()?.0;
        let next = few.find(|(address, _)| Some(**address) > self.last);
        let address = next.map_or(first, |(address, _)| *address);
        self.last = Some(address);
        let backend = self.pods.get_mut(&address)?;
        backend.outstanding += 1;
        Some((address, backend.idle.pop()))
    }

    /// A request ended, with a connection that may be used again or without one.
    pub(super) fn give_back(&mut self, address: SocketAddr, connection: Option<TcpStream>) {
        if let Some(backend) = self.pods.get_mut(&address) {
            // A pod that left and came back has forgotten what it had to do.
            backend.outstanding = backend.outstanding.saturating_sub(1);
            backend.idle.extend(connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: u8) -> SocketAddr {
        SocketAddr::from(([10, 98, 0, host], 8080))
    }

    #[test]
    fn the_pod_with_the_least_to_do_is_next_and_equals_take_turns() {
        let mut balancer = Balancer::default();
        assert!(balancer.take().is_none());
        balancer.set(&[address(1), address(2), address(3)]);
        let mut next = || balancer.take().map(|(address, _)| address);
        let turns: Vec<_> = (0..4).filter_map(|_| next()).collect();
        assert_eq!(turns, [address(1), address(2), address(3), address(1)]);
        balancer.give_back(address(3), None);
        assert_eq!(balancer.take().map(|(address, _)| address), Some(address(3)));
        balancer.set(&[address(2)]);
        assert_eq!(balancer.take().map(|(address, _)| address), Some(address(2)));
    }
}
