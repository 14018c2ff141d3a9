//! Service graphs as data: services, what they call for each operation, and the types of requests.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::service_kind::{Demand, ServiceKind};
use crate::{Error, Result};

/// The topologies of this project, by name.
const BUILT_IN: [(&str, &str); 4] = [
    ("hotel-reservation", include_str!("topologies/hotel-reservation.toml")),
    ("media", include_str!("topologies/media.toml")),
    ("social-network", include_str!("topologies/social-network.toml")),
    ("train-ticket", include_str!("topologies/train-ticket.toml")),
];

/// A service graph that has been checked: every call leads to a service, and none leads back.
#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    name: String,
    source: String,
    pub(crate) services: Vec<Service>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) requests: Vec<RequestType>,
}

/// One service.
#[derive(Debug, Clone, PartialEq)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// What a call costs.
    pub demand: Demand,
    /// The services that it calls.
    pub(crate) callees: Vec<u32>,
}

/// What a service does for a call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Operation {
    pub(crate) service: u32,
    pub(crate) name: String,
    /// One after the other; the calls of a stage run in parallel.
    pub(crate) stages: Vec<Vec<Call>>,
    /// Calls at the end whose answers nothing waits for.
    pub(crate) background: Vec<Call>,
}

/// A call, with the place of the callee among the callees of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) operation: u32,
    pub(crate) callee: u32,
}

/// A type of requests.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RequestType {
    pub(crate) name: String,
    pub(crate) operation: u32,
    /// Calls of each service for one request.
    pub(crate) visits: Vec<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    name: String,
    source: String,
    services: BTreeMap<ServiceKind, Vec<String>>,
    requests: BTreeMap<String, String>,
    #[serde(default)]
    calls: BTreeMap<String, Vec<Vec<String>>>,
    #[serde(default)]
    background: BTreeMap<String, Vec<String>>,
}

impl Topology {
    /// The names of the built-in topologies.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// A built-in topology: Social Network, Media and Hotel Reservation of DeathStarBench, and
    /// Train-Ticket.
    pub fn by_name(name: &str) -> Result<Self> {
        let found = BUILT_IN.iter().find(|(known, _)| *known == name);
        let (_, text) = found.ok_or_else(|| Error::OutOfRange {
            key: "mesh.topology".to_owned(),
            value: name.to_owned(),
            expected: format!("choose of {}", Self::names().collect::<Vec<_>>().join(", ")),
        })?;
        Self::parse(text)
    }

    /// Reads a topology from TOML, as the files of this crate have it.
    pub fn parse(text: &str) -> Result<Self> {
        let raw: Raw = toml::from_str(text)
            .map_err(|error| Error::topology("TOML", error.to_string().trim_end()))?;
        Builder::new(&raw)?.build(&raw)
    }

    /// One service that serves one type of requests with exponential demand: a queue of theory.
    pub fn single(demand: Demand) -> Self {
        Self {
            name: "single".to_owned(),
            source: "queueing theory".to_owned(),
            services: vec![Service { name: "service".to_owned(), demand, callees: Vec::new() }],
            operations: vec![Operation {
                service: 0,
                name: "serve".to_owned(),
                stages: Vec::new(),
                background: Vec::new(),
            }],
            requests: vec![RequestType {
                name: "request".to_owned(),
                operation: 0,
                visits: vec![1.0],
            }],
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where services and calls come from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The services.
    pub fn services(&self) -> &[Service] {
        &self.services
    }

    /// The names of the types of requests.
    pub fn request_types(&self) -> impl Iterator<Item = &str> {
        self.requests.iter().map(|request| request.name.as_str())
    }

    /// The service and the operation that requests of a type begin with.
    pub fn entry(&self, request_type: usize) -> (&str, &str) {
        let operation = &self.operations[self.requests[request_type].operation as usize];
        (&self.services[operation.service as usize].name, &operation.name)
    }

    /// The number of the service with this name.
    pub fn service(&self, name: &str) -> Option<usize> {
        self.services.iter().position(|service| service.name == name)
    }

    /// Mean calls of one request, over types in equal parts.
    pub fn calls_per_request(&self) -> f64 {
        let visits: f64 = self.requests.iter().flat_map(|request| &request.visits).sum();
        visits / self.requests.len() as f64
    }

    /// Calls of a service per request, over types in equal parts.
    pub(crate) fn visits(&self, service: usize) -> f64 {
        let visits: f64 = self.requests.iter().map(|request| request.visits[service]).sum();
        visits / self.requests.len() as f64
    }

    /// The types of requests that call a service.
    pub fn needs(&self, service: usize) -> impl Iterator<Item = usize> {
        let types = self.requests.iter().enumerate();
        types.filter(move |(_, request)| request.visits[service] > 0.0).map(|(kind, _)| kind)
    }
}

struct Builder {
    services: Vec<Service>,
    operations: Vec<Operation>,
    by_name: BTreeMap<String, u32>,
}

impl Builder {
    fn new(raw: &Raw) -> Result<Self> {
        let mut services: Vec<Service> = Vec::new();
        for (kind, names) in &raw.services {
            for name in names {
                if name.is_empty() || name.contains('/') {
                    return Err(Error::topology(name, "a service needs a name without a slash"));
                }
                if services.iter().any(|service| service.name == *name) {
                    return Err(Error::topology(name, "two services have this name"));
                }
                let (name, demand) = (name.clone(), kind.demand());
                services.push(Service { name, demand, callees: Vec::new() });
            }
        }
        Ok(Self { services, operations: Vec::new(), by_name: BTreeMap::new() })
    }

    /// The operation with this name, `service/operation`.
    fn operation(&mut self, text: &str) -> Result<u32> {
        if let Some(known) = self.by_name.get(text) {
            return Ok(*known);
        }
        let (service, name) = text
            .split_once('/')
            .ok_or_else(|| Error::topology(text, "an operation is written `service/operation`"))?;
        let place = self.services.iter().position(|known| known.name == service);
        let place = place.ok_or_else(|| Error::topology(text, "its service is not listed"))?;
        let number = self.operations.len() as u32;
        self.operations.push(Operation {
            service: place as u32,
            name: name.to_owned(),
            stages: Vec::new(),
            background: Vec::new(),
        });
        self.by_name.insert(text.to_owned(), number);
        Ok(number)
    }

    fn calls(&mut self, caller: u32, names: &[String]) -> Result<Vec<Call>> {
        let mut calls = Vec::with_capacity(names.len());
        for name in names {
            let operation = self.operation(name)?;
            let target = self.operations[operation as usize].service;
            let callees =
                &mut self.services[self.operations[caller as usize].service as usize].callees;
            let callee = callees.iter().position(|known| *known == target).unwrap_or_else(|| {
                callees.push(target);
                callees.len() - 1
            });
            calls.push(Call { operation, callee: callee as u32 });
        }
        Ok(calls)
    }

    fn build(mut self, raw: &Raw) -> Result<Topology> {
        for (name, stages) in &raw.calls {
            let caller = self.operation(name)?;
            for stage in stages.iter().filter(|stage| !stage.is_empty()) {
                let calls = self.calls(caller, stage)?;
                self.operations[caller as usize].stages.push(calls);
            }
        }
        for (name, targets) in &raw.background {
            let caller = self.operation(name)?;
            self.operations[caller as usize].background = self.calls(caller, targets)?;
        }
        if raw.requests.is_empty() {
            return Err(Error::topology(&raw.name, "it needs at least one type of requests"));
        }
        let mut requests = Vec::new();
        for (name, operation) in &raw.requests {
            let operation = self.operation(operation)?;
            let mut visits = vec![0.0; self.services.len()];
            self.count_visits(operation, 0, &mut visits)?;
            requests.push(RequestType { name: name.clone(), operation, visits });
        }
        for (place, service) in self.services.iter().enumerate() {
            if requests.iter().all(|request| request.visits[place] == 0.0) {
                return Err(Error::topology(&service.name, "no request reaches it"));
            }
        }
        Ok(Topology {
            name: raw.name.clone(),
            source: raw.source.clone(),
            services: self.services,
            operations: self.operations,
            requests,
        })
    }

    /// Adds the calls below an operation. A path longer than there are operations repeats one.
    fn count_visits(&self, operation: u32, depth: usize, visits: &mut [f64]) -> Result<()> {
        /// Enough for any real request; fewer than a graph that doubles at each level can have.
        const MAX_CALLS: f64 = 100_000.0;
        let this = &self.operations[operation as usize];
        if depth >= self.operations.len() {
            let what = format!("{}/{}", self.services[this.service as usize].name, this.name);
            return Err(Error::topology(&what, "its calls lead back to it"));
        }
        visits[this.service as usize] += 1.0;
        if visits.iter().sum::<f64>() > MAX_CALLS {
            return Err(Error::topology(&this.name, "a request makes more than 100000 calls"));
        }
        for call in this.stages.iter().flatten().chain(&this.background) {
            self.count_visits(call.operation, depth + 1, visits)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_four_topologies_have_the_services_that_firm_counts() {
        let counts = Topology::names().map(|name| {
            let topology = Topology::by_name(name).unwrap();
            assert!(!topology.source().is_empty());
            (name, topology.services().len())
        });
        assert_eq!(
            counts.collect::<Vec<_>>(),
            [
                ("hotel-reservation", 15),
                ("media", 38),
                ("social-network", 36),
                ("train-ticket", 41)
            ]
        );
    }

    #[test]
    fn a_graph_that_cannot_be_played_is_refused_in_one_line_that_names_the_place() {
        let check = |calls: &str, expect: &str| {
            let text = format!(
                "name = \"x\"\nsource = \"test\"\n[services]\nnative = [\"a\", \"b\"]\n\
                 [requests]\nget = \"a/get\"\n[calls]\n{calls}"
            );
            let error = Topology::parse(&text).unwrap_err().to_string();
            assert_eq!(error, format!("topology, {expect}"));
        };
        check(
            "\"a/get\" = [[\"b/get\"]]\n\"b/get\" = [[\"a/get\"]]",
            "a/get: its calls lead back to it",
        );
        check("\"a/get\" = [[\"c/get\"]]", "c/get: its service is not listed");
        check("\"a/get\" = [[\"b\"]]", "b: an operation is written `service/operation`");
        check("", "b: no request reaches it");
    }

    #[test]
    fn requests_that_multiply_without_end_are_refused() {
        let mut calls = String::new();
        for level in 0..40 {
            calls += &format!("\"a/{level}\" = [[\"a/{0}\", \"a/{0}\"]]\n", level + 1);
        }
        let text = format!(
            "name = \"x\"\nsource = \"test\"\n[services]\nnative = [\"a\"]\n[requests]\nget = \"a/0\"\n[calls]\n{calls}"
        );
        let error = Topology::parse(&text).unwrap_err().to_string();
        assert!(error.contains("more than 100000 calls"), "{error}");
    }

    #[test]
    fn calls_of_a_request_are_counted_through_all_levels() {
        let hotel = Topology::by_name("hotel-reservation").unwrap();
        let geo = hotel.service("mongodb-geo").unwrap();
        assert_eq!(hotel.visits(geo), 1.0 / 3.0);
        assert!(Topology::by_name("hotel").is_err());
    }
}
