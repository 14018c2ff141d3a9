//! Supervision of the tasks that run as long as the process does.
//!
//! A task that ends, panics or reports no progress within its deadline has failed. `/healthz` then
//! answers 503 with the task's name and the reason, and the process ends with a non-zero exit code,
//! so that Kubernetes restarts it. Unsupervised, a task that is gone would leave a process that
//! answers its probes and scales nothing.

use std::fmt;
use std::pin::pin;
use std::str::FromStr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::metrics::gauge::Gauge;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior};

use crate::telemetry::Telemetry;

/// How often the supervisor compares the tasks' progress with their deadlines.
const CHECK_PERIOD: Duration = Duration::from_secs(1);

/// A check that comes later than this means that the whole process was stopped or starved, and
/// no task could have made progress meanwhile.
const MAX_CHECK_DELAY: Duration = Duration::from_secs(5);

/// A fault strikes after this time, when the servers that report it are up.
const FAULT_AFTER: Duration = Duration::from_secs(2);

/// The tasks of the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Writes recommendations into the status of every object.
    Recommender,
    /// Applies recommendations.
    Updater,
    /// Queries latency between two resyncs.
    SloWatcher,
    /// Watches the autoscaler objects.
    ObjectWatch,
    /// Watches pods.
    PodWatch,
    /// Acquires and renews the lease of the leader.
    LeaderElector,
    /// Checks that the API server answers, where no lease does.
    ServerCheck,
    /// Discovers the capabilities of the API server, in case it was upgraded.
    CapabilityCheck,
    /// Renews the webhook's certificates.
    CertManager,
    /// Serves learners by gRPC.
    LearnerServer,
    /// Sends recorded decisions to the collector.
    DecisionSender,
    /// Serves health, metrics and the log level on loopback.
    HttpServer,
    /// Serves the webhook, health and metrics with TLS.
    HttpsServer,
}

impl Task {
    /// Every task.
    pub const ALL: [Self; 13] = [
        Self::Recommender,
        Self::Updater,
        Self::SloWatcher,
        Self::ObjectWatch,
        Self::PodWatch,
        Self::LeaderElector,
        Self::ServerCheck,
        Self::CapabilityCheck,
        Self::CertManager,
        Self::LearnerServer,
        Self::DecisionSender,
        Self::HttpServer,
        Self::HttpsServer,
    ];

    /// Its name in logs, in `/healthz` and as a label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Recommender => "recommender",
            Self::Updater => "updater",
            Self::SloWatcher => "slo_watcher",
            Self::ObjectWatch => "object_watch",
            Self::PodWatch => "pod_watch",
            Self::LeaderElector => "leader_elector",
            Self::ServerCheck => "server_check",
            Self::CapabilityCheck => "capability_check",
            Self::CertManager => "cert_manager",
            Self::LearnerServer => "learner_server",
            Self::DecisionSender => "decision_sender",
            Self::HttpServer => "http_server",
            Self::HttpsServer => "https_server",
        }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A task that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("task {task} {problem}")]
pub struct TaskFailure {
    /// The task.
    pub task: Task,
    /// How it failed.
    pub problem: TaskProblem,
}

/// How a task failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TaskProblem {
    /// It returned, although the process was not asked to stop.
    #[error("ended although the process was not asked to stop")]
    Ended,
    /// It panicked.
    #[error("panicked: {message}")]
    Panicked {
        /// The panic's message.
        message: String,
    },
    /// It reported no progress.
    #[error("made no progress for {} s", .deadline.as_secs())]
    Stalled {
        /// The time within which it has to report progress.
        deadline: Duration,
    },
}

/// The health of the process: the first failure of a task, if there was one.
#[derive(Debug, Default)]
pub struct Health(OnceLock<TaskFailure>);

impl Health {
    /// The failure because of which the process is about to end.
    pub fn failure(&self) -> Option<&TaskFailure> {
        self.0.get()
    }
}

/// Reports the progress of one task.
#[derive(Clone)]
pub struct Heartbeat {
    last: Arc<Mutex<Instant>>,
    /// Time between two reports of a task that waits.
    period: Duration,
    timestamp: Gauge<f64, AtomicU64>,
}

impl Heartbeat {
    fn new(deadline: Duration, timestamp: Gauge<f64, AtomicU64>) -> Self {
        let last = Arc::new(Mutex::new(Instant::now()));
        let heartbeat = Self { last, period: deadline / 4, timestamp };
        heartbeat.beat();
        heartbeat
    }

    /// Reports progress.
    pub fn beat(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.timestamp.set(since.as_secs_f64());
    }

    /// Waits for an event that may legitimately never come, such as a connection, and reports
    /// progress meanwhile. Work with a time limit does not belong in here: it would never stall.
    pub async fn wait<T>(&self, event: impl Future<Output = T>) -> T {
        let mut event = pin!(event);
        loop {
            self.beat();
            if let Ok(value) = tokio::time::timeout(self.period, event.as_mut()).await {
                self.beat();
                return value;
            }
        }
    }

    fn age(&self) -> Duration {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// Leaves a time out of the task's age.
    fn forgive(&self, time: Duration) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = (*last + time).min(Instant::now());
    }
}

/// Owns the tasks, and finds the first that fails.
pub struct Supervisor {
    tasks: JoinSet<()>,
    supervised: Vec<Supervised>,
    health: Arc<Health>,
    telemetry: Arc<Telemetry>,
    fault: Option<Fault>,
}

struct Supervised {
    id: Id,
    task: Task,
    deadline: Duration,
    heartbeat: Heartbeat,
}

impl Supervisor {
    /// A supervisor without tasks, which injects `fault` into its task if there is one.
    pub fn new(telemetry: Arc<Telemetry>, fault: Option<Fault>) -> Self {
        Self {
            tasks: JoinSet::new(),
            supervised: Vec::new(),
            health: Arc::default(),
            telemetry,
            fault,
        }
    }

    /// The health of the process.
    pub fn health(&self) -> Arc<Health> {
        self.health.clone()
    }

    /// Starts a task that must run as long as the process, and must report progress at least once
    /// within every `deadline`.
    pub fn spawn<F>(&mut self, task: Task, deadline: Duration, run: impl FnOnce(Heartbeat) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let heartbeat = Heartbeat::new(deadline, self.telemetry.task_progress(task));
        let future = run(heartbeat.clone());
        let fault = self.fault.filter(|fault| fault.task == task);
        let handle = match fault {
            Some(fault) => self.tasks.spawn(fault.strike(future)),
            None => self.tasks.spawn(future),
        };
        self.supervised.push(Supervised { id: handle.id(), task, deadline, heartbeat });
    }

    /// Waits for the first task that fails, and marks the process as unhealthy.
    pub async fn failure(&mut self) -> TaskFailure {
        let failure = self.first_failure().await;
        tracing::error!(task = %failure.task, problem = %failure.problem, "a task failed");
        // A second failure changes nothing.
        let _ = self.health.0.set(failure.clone());
        failure
    }

    async fn first_failure(&mut self) -> TaskFailure {
        let mut checks = tokio::time::interval(CHECK_PERIOD);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut checked_at = Instant::now();
        loop {
            tokio::select! {
                Some(ended) = self.tasks.join_next_with_id() => {
                    if let Some(failure) = self.ended(ended) {
                        return failure;
                    }
                }
                _ = checks.tick() => {
                    let delay = checked_at.elapsed();
                    checked_at = Instant::now();
                    if delay > MAX_CHECK_DELAY {
                        self.supervised.iter().for_each(|one| one.heartbeat.forgive(delay));
                    }
                    if let Some(failure) = self.stalled() {
                        return failure;
                    }
                }
            }
        }
    }

    fn ended(&self, ended: Result<(Id, ()), JoinError>) -> Option<TaskFailure> {
        let (id, problem) = match ended {
            Ok((id, ())) => (id, TaskProblem::Ended),
            Err(error) => {
                let id = error.id();
                let message = match error.try_into_panic() {
                    Ok(panic) => panic_message(&*panic),
                    Err(_) => "it was aborted".to_owned(),
                };
                (id, TaskProblem::Panicked { message })
            }
        };
        let task = self.supervised.iter().find(|one| one.id == id)?.task;
        Some(TaskFailure { task, problem })
    }

    fn stalled(&self) -> Option<TaskFailure> {
        let stalled = self.supervised.iter().find(|one| one.heartbeat.age() > one.deadline)?;
        let problem = TaskProblem::Stalled { deadline: stalled.deadline };
        Some(TaskFailure { task: stalled.task, problem })
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".to_owned())
}

/// Fault injection, for tests of the supervision of a whole process: makes one task fail shortly
/// after its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    task: Task,
    kind: FaultKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FaultKind {
    End,
    Panic,
    Stall,
}

/// A fault that is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown fault {text:?}: use TASK=end, TASK=panic or TASK=stall, with a TASK of {tasks}")]
pub struct UnknownFault {
    text: String,
    tasks: String,
}

impl FromStr for Fault {
    type Err = UnknownFault;

    fn from_str(text: &str) -> Result<Self, UnknownFault> {
        let read = || {
            let (name, kind) = text.split_once('=')?;
            let task = Task::ALL.into_iter().find(|task| task.name() == name)?;
            let kind = match kind {
                "end" => FaultKind::End,
                "panic" => FaultKind::Panic,
                "stall" => FaultKind::Stall,
                _ => return None,
            };
            Some(Self { task, kind })
        };
        read().ok_or_else(|| UnknownFault {
            text: text.to_owned(),
            tasks: Task::ALL.map(Task::name).join(", "),
        })
    }
}

impl Fault {
    async fn strike(self, task: impl Future<Output = ()>) {
        let mut task = pin!(task);
        if tokio::time::timeout(FAULT_AFTER, task.as_mut()).await.is_ok() {
            return;
        }
        match self.kind {
            FaultKind::End => {}
            FaultKind::Panic => panic!("injected by --inject-fault"),
            FaultKind::Stall => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_secs(60);

    fn supervisor() -> Supervisor {
        Supervisor::new(Arc::new(Telemetry::default()), None)
    }

    /// Beats once per second for ever.
    async fn healthy(heartbeat: Heartbeat) {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            heartbeat.beat();
        }
    }

    /// The failure within a day of virtual time, and when it was found.
    async fn failure(supervisor: &mut Supervisor) -> Option<(TaskFailure, Duration)> {
        let started = Instant::now();
        let day = Duration::from_secs(86_400);
        let failure = tokio::time::timeout(day, supervisor.failure()).await.ok()?;
        Some((failure, started.elapsed()))
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_that_make_progress_or_wait_are_healthy() {
        let mut supervisor = supervisor();
        supervisor.spawn(Task::Recommender, DEADLINE, healthy);
        supervisor.spawn(Task::HttpServer, DEADLINE, |heartbeat| async move {
            heartbeat.wait(std::future::pending()).await
        });
        assert_eq!(failure(&mut supervisor).await, None);
        assert_eq!(supervisor.health().failure(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_ends_makes_the_process_unhealthy() {
        let mut supervisor = supervisor();
        supervisor.spawn(Task::Recommender, DEADLINE, healthy);
        supervisor.spawn(Task::Updater, DEADLINE, |_| async {});
        let (failure, _) = failure(&mut supervisor).await.expect("it ended");
        assert_eq!(failure, TaskFailure { task: Task::Updater, problem: TaskProblem::Ended });
        let health = supervisor.health();
        let shown = health.failure().expect("it is recorded").to_string();
        assert_eq!(shown, "task updater ended although the process was not asked to stop");
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_makes_the_process_unhealthy() {
        let mut supervisor = supervisor();
        supervisor.spawn(Task::Updater, DEADLINE, healthy);
        supervisor.spawn(Task::CertManager, DEADLINE, |_| async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            panic!("out of {}", "luck");
        });
        let (failure, _) = failure(&mut supervisor).await.expect("it panicked");
        assert_eq!(failure.to_string(), "task cert_manager panicked: out of luck");
        assert_eq!(supervisor.health().failure(), Some(&failure));
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_stalls_makes_the_process_unhealthy_after_its_deadline() {
        let mut supervisor = supervisor();
        supervisor.spawn(Task::Updater, DEADLINE, healthy);
        supervisor.spawn(Task::Recommender, DEADLINE, |heartbeat| async move {
            tokio::time::sleep(Duration::from_secs(10)).await;
            heartbeat.beat();
            std::future::pending().await
        });
        let (failure, found_after) = failure(&mut supervisor).await.expect("it stalled");
        assert_eq!(failure.to_string(), "task recommender made no progress for 60 s");
        let expected = Duration::from_secs(70)..=Duration::from_secs(72);
        assert!(expected.contains(&found_after), "{found_after:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_was_stopped_for_an_hour_is_healthy_when_it_continues() {
        let mut supervisor = supervisor();
        supervisor.spawn(Task::Recommender, DEADLINE, healthy);
        supervisor.spawn(Task::HttpServer, DEADLINE, |heartbeat| async move {
            heartbeat.wait(std::future::pending()).await
        });
        let stopped = async {
            tokio::time::sleep(Duration::from_secs(30)).await;
            tokio::time::advance(Duration::from_secs(3600)).await;
            tokio::time::sleep(Duration::from_secs(600)).await;
        };
        tokio::select! {
            biased;
            failure = supervisor.failure() => panic!("{failure}"),
            () = stopped => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn faults_strike_their_task_alone() {
        let check = async |text: &str, expect: &str| {
            let fault = text.parse().expect("a fault");
            let mut supervisor = Supervisor::new(Arc::new(Telemetry::default()), Some(fault));
            supervisor.spawn(Task::Recommender, DEADLINE, healthy);
            supervisor.spawn(Task::Updater, DEADLINE, healthy);
            let (failure, _) = failure(&mut supervisor).await.expect("it fails");
            assert_eq!(failure.to_string(), expect);
        };
        check("updater=end", "task updater ended although the process was not asked to stop").await;
        check("updater=panic", "task updater panicked: injected by --inject-fault").await;
        check("recommender=stall", "task recommender made no progress for 60 s").await;
        let unknown = "update=end".parse::<Fault>().expect_err("no such task");
        assert!(unknown.to_string().starts_with("unknown fault \"update=end\": use TASK=end"));
    }

    #[tokio::test(start_paused = true)]
    async fn progress_is_a_metric() {
        let telemetry = Arc::new(Telemetry::default());
        let mut supervisor = Supervisor::new(telemetry.clone(), None);
        supervisor.spawn(Task::SloWatcher, DEADLINE, healthy);
        let series =
            "homeostat_operator_task_last_progress_timestamp_seconds{task=\"slo_watcher\"}";
        let text = telemetry.text();
        let line = text.lines().find(|line| line.starts_with(series)).expect("it is there");
        let value: f64 = line[series.len()..].trim().parse().expect("a number");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
        assert!((now - value).abs() < 60.0, "{line}");
    }
}
