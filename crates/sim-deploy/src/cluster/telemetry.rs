//! What monitoring reports of a Deployment: the observations that the operator builds from
//! Prometheus and the pods, and exact figures beside them.

use homeostat_core::SimDuration;
use homeostat_decide::{Allocation, MetricsStatus, Observation, ReplicaSample, TargetWindow};

use super::Cluster;
use super::deployment::Totals;
use super::pods::Phase;
use homeostat_core::{Bytes, Millicores};

impl Cluster {
    /// Ends the window of a Deployment, reports it and begins the next.
    pub fn close_window(&mut self, number: usize) -> TargetWindow {
        self.give_up_old(number);
        self.unsettled.push(number);
        self.settle();
        self.deployments[number].count_time(self.now);
        let late: Vec<SimDuration> = {
            let threshold = self.deployments[number].slo.threshold();
            self.ages(number).filter(|age| *age > threshold).collect()
        };
        let (replicas, pod_cpu) = self.samples(number);
        let measured = self.measured(number);
        let deployment = &mut self.deployments[number];
        let length = self.now.saturating_since(deployment.window_began);
        let seconds = length.seconds().max(1e-9);
        let mut counters = std::mem::take(&mut deployment.counters);
        let cpu_s = (pod_cpu + counters.gone_cpu) / 1e9;
        let totals = &mut deployment.totals;
        totals.arrived += counters.arrived;
        totals.completed += counters.completed;
        totals.timed_out += counters.timed_out;
        totals.failed += counters.failed;
        totals.slo_violations += counters.slo_violations;
        totals.started += counters.started;
        totals.oom_kills += u64::from(counters.oom_kills);
        totals.evictions += counters.evictions;
        totals.cpu_s += cpu_s;
        totals.pod_s += counters.pod_time / 1e9;
        totals.memory_gib_s += gib_seconds(counters.byte_time);
        counters.latency.add_to(&mut totals.latency);
        // Requests that are late already count with their age: a service that is stuck never looks
        // healthy.
        late.into_iter().for_each(|age| counters.latency.record(age));
        let slo = deployment.slo;
        let concurrency = counters.request_time / length.nanos().max(1) as f64;
        let serving = replicas.iter().filter(|replica| replica.is_ready).count() as f64;
        let observation = Observation {
            now: self.now,
            window: length,
            allocation: deployment.wanted,
            slo,
            // As in the operator: nothing is profiled, and what waits follows from the load.
            isolated_latency: slo.threshold(),
            latency: counters.latency.quantile(slo.percentile()),
            arrivals_per_s: counters.arrived as f64 / seconds,
            concurrency,
            waiting: (concurrency - serving).max(0.0).round() as u64,
            oom_kills: counters.oom_kills,
            replicas,
            queries: Vec::new(),
            measured,
            slo_status: None,
            metrics: MetricsStatus::Complete,
            service_time: None,
            team: None,
            chain: None,
        };
        deployment.window_began = self.now;
        TargetWindow {
            completed: counters.completed,
            slo_violations: counters.slo_violations,
            timed_out: counters.timed_out,
            failed: counters.failed,
            cold_starts: counters.started,
            cpu_s,
            container_s: counters.pod_time / 1e9,
            memory_gib_s: gib_seconds(counters.byte_time),
            ..TargetWindow::new(observation)
        }
    }

    /// What a Deployment has seen until its last closed window.
    pub fn totals(&self, number: usize) -> &Totals {
        &self.deployments[number].totals
    }

    /// Requests of a Deployment that are in the system.
    pub fn inside(&self, number: usize) -> u64 {
        self.deployments[number].inside
    }

    /// Pods of a Deployment that serve.
    pub fn ready(&self, number: usize) -> usize {
        self.deployments[number].ready.len()
    }

    /// Samples of the live pods, and core-nanoseconds of all pods in the window.
    fn samples(&mut self, number: usize) -> (Vec<ReplicaSample>, f64) {
        let began = self.deployments[number].window_began;
        let (mut samples, mut cpu_sum) = (Vec::new(), 0.0);
        for place in 0..self.deployments[number].pods.len() {
            let pod = &mut self.pods[self.deployments[number].pods[place] as usize];
            let total = pod.processor.cpu_time(self.now, pod.class);
            let used = total - pod.cpu_before;
            pod.cpu_before = total;
            cpu_sum += used;
            let peak = std::mem::replace(&mut pod.memory_peak, pod.memory_used);
            if pod.phase >= Phase::Terminating {
                continue;
            }
            let lived = self.now.saturating_since(began.max(pod.created)).nanos();
            let runs = pod.phase >= Phase::Starting && lived > 0;
            samples.push(ReplicaSample {
                started: pod.created,
                is_ready: pod.phase == Phase::Ready,
                served_throughout: Some(pod.ready_since.is_some_and(|since| since <= began)),
                cpu_request: Some(pod.cpu),
                cpu_cores: runs.then(|| used / lived as f64),
                memory: runs.then(|| peak.max(pod.memory_used)),
            });
        }
        (samples, cpu_sum)
    }

    /// The mean size of the live pods; none if it equals what is wanted.
    fn measured(&self, number: usize) -> Option<Allocation> {
        let live = self.live(number);
        let count = u64::try_from(live.len()).ok().filter(|count| *count > 0)?;
        let wanted = self.deployments[number].wanted;
        let pods = || live.iter().map(|pod| &self.pods[*pod as usize]);
        let cpu: u64 = pods().map(|pod| pod.cpu.millicores()).sum();
        let memory: u64 = pods().map(|pod| pod.memory.bytes()).sum();
        let measured = Allocation {
            replicas: wanted.replicas,
            cpu: Millicores::new(cpu / count),
            memory: Bytes::new(memory / count),
        };
        (measured != wanted).then_some(measured)
    }
}

fn gib_seconds(byte_nanos: f64) -> f64 {
    byte_nanos / 1e9 / f64::from(1 << 30)
}
