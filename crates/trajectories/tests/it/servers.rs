//! Stores on servers: the real PostgreSQL and the real InfluxDB, each started by the test.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use homeostat_test_skip::skip;
use homeostat_trajectories::{
    End, Error, Filter, Origin, RecordedTrajectory, Retention, Store, Transition, export_records,
    open_store,
};

use crate::setup::{Place, origin, transition};

/// The user `nobody`: PostgreSQL does not run as root.
const NOBODY: u32 = 65534;

/// A server that ends with the test.
struct Server {
    process: Child,
    start: Box<dyn Fn() -> Command>,
    is_up: Box<dyn Fn() -> bool>,
    address: String,
    _place: Place,
}

impl Server {
    fn new(
        place: Place,
        address: String,
        start: impl Fn() -> Command + 'static,
        is_up: impl Fn() -> bool + 'static,
    ) -> Self {
        let process = start().spawn().expect("the server starts");
        let (start, is_up) = (Box::new(start), Box::new(is_up));
        let server = Self { process, start, is_up, address, _place: place };
        server.wait();
        server
    }

    fn wait(&self) {
        let started = Instant::now();
        while !(self.is_up)() {
            assert!(started.elapsed() < Duration::from_secs(60), "no answer of {}", self.address);
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn stop(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
    }

    fn start_again(&mut self) {
        self.process = (self.start)().spawn().expect("the server starts");
        self.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn quiet(mut command: Command) -> Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A PostgreSQL on a unix socket; none, with a message, if it is not installed.
fn postgres() -> Option<Server> {
    let Some(programs) = std::env::var_os("HOMEOSTAT_TEST_POSTGRES").map(PathBuf::from) else {
        skip("no PostgreSQL; set HOMEOSTAT_TEST_POSTGRES=$(tests/databases postgres)");
        return None;
    };
    let place = Place::new();
    let directory = place.path("postgres");
    fs::create_dir(&directory).unwrap();
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| {
        use std::os::unix::fs::MetadataExt;
        own.uid() == 0
    });
    if is_root {
        for path in [place.path(""), directory.clone()] {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
    let as_user = move |mut command: Command| {
        if is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.current_dir("/");
        command
    };
    let data = directory.join("data");
    let mut init = as_user(Command::new(programs.join("initdb")));
    init.args(["--auth=trust", "--username=me", "--no-sync", "-D"]).arg(&data);
    let made = init.output().expect("initdb runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let address =
        format!("postgres://me@{}/postgres", directory.to_str().unwrap().replace('/', "%2F"));
    let socket = directory.clone();
    let start = move || {
        let mut command = as_user(Command::new(programs.join("postgres")));
        command.arg("-D").arg(&data).args(["-c", "listen_addresses=", "-c", "fsync=off", "-k"]);
        command.arg(&socket);
        quiet(command)
    };
    let asked = address.clone();
    Some(Server::new(place, address, start, move || {
        !matches!(open_store(&asked, false), Err(Error::Unreachable { .. }))
    }))
}

/// An InfluxDB on loopback; none, with a message, if it is not installed.
fn influx() -> Option<Server> {
    let Some(program) = std::env::var_os("HOMEOSTAT_TEST_INFLUXD") else {
        skip("no InfluxDB; set HOMEOSTAT_TEST_INFLUXD=$(tests/databases influxdb)");
        return None;
    };
    let place = Place::new();
    let [http, rpc] = free_ports();
    let directory = place.path("influx");
    fs::create_dir(&directory).unwrap();
    let settings = format!(
        "reporting-disabled = true\nbind-address = \"127.0.0.1:{rpc}\"\n\
         [meta]\ndir = \"{0}/meta\"\n[data]\ndir = \"{0}/data\"\nwal-dir = \"{0}/wal\"\n\
         [http]\nbind-address = \"127.0.0.1:{http}\"\nlog-enabled = false\n",
        directory.display()
    );
    let file = place.path("influxdb.conf");
    fs::write(&file, settings).unwrap();
    let start = move || {
        let mut command = Command::new(&program);
        command.arg("-config").arg(&file);
        quiet(command)
    };
    let address = format!("influxdb://127.0.0.1:{http}/decisions");
    Some(Server::new(place, address, start, move || {
        TcpStream::connect(("127.0.0.1", http)).is_ok()
    }))
}

fn free_ports() -> [u16; 2] {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

fn trajectory(
    workload: &str,
    policy: &str,
    recorded_ms: i64,
    rewards: &[f64],
) -> RecordedTrajectory {
    let steps = rewards.iter().enumerate();
    RecordedTrajectory {
        origin: Origin { recorded_ms, ..origin(workload, policy) },
        transitions: steps
            .map(|(step, reward)| transition(recorded_ms + step as i64, *reward))
            .collect(),
        end: Some((End::Truncated, vec![0.5, 0.1])),
    }
}

fn exported(store: &mut dyn Store) -> String {
    let mut text = Vec::new();
    export_records(store, &Filter::default(), &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// What every store promises.
fn behaves_as_a_store(address: &str) {
    let empty = open_store(address, false).err().expect("nothing is there").to_string();
    assert!(empty.contains("there is no trajectory store at"), "{empty}");
    let mut store = open_store(address, true).unwrap();
    let odd = "shop/caf\u{e9}, \"north\"=\\1 x";
    let mut all = [
        trajectory(odd, "hpa", 1_000, &[0.1, f64::MIN_POSITIVE, -3e300]),
        trajectory("shop/cart", "hpa+vpa", 2_000, &[0.9]),
        trajectory("shop/cart", "sha256:ab", 3_000, &[0.7, 0.8]),
        trajectory("shop/cart", "hpa+vpa", 4_000, &[0.2, 0.4]),
    ];
    all[1].transitions[0].probability = None;
    all[2].end = Some((End::Terminated, vec![1e-30, f32::MAX]));
    // Two decisions of one millisecond, and a trajectory that has not ended.
    all[3].transitions[1].at_ms = all[3].transitions[0].at_ms;
    let mut open = trajectory("shop/mail", "hpa", 5_000, &[0.5]);
    open.end = None;
    for one in all.iter().chain([&open]) {
        store.put(one).unwrap();
    }
    // The same as a SQLite file has it, to the last bit.
    let place = Place::new();
    let mut file = place.store();
    for one in all.iter().chain([&open]) {
        file.put(one).unwrap();
    }
    assert_eq!(exported(store.as_mut()), exported(&mut file));

    let cart = Filter { workload: Some("shop/cart".to_owned()), policy: None };
    let rewards = |found: Vec<homeostat_trajectories::Trajectory>| {
        found.iter().map(|one| one.mean_reward().unwrap()).collect::<Vec<_>>()
    };
    let near = |found: Vec<f64>, expect: &[f64]| {
        assert_eq!(found.len(), expect.len(), "{found:?}");
        assert!(found.iter().zip(expect).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
    };
    near(rewards(store.best(&cart, 2).unwrap()), &[0.9, 0.75]);
    let hpa = Filter { policy: Some("hpa+vpa".to_owned()), ..cart.clone() };
    near(rewards(store.list(&hpa).unwrap()), &[0.9, 0.3]);
    let recent = store.recent_rewards(&cart, 2).unwrap();
    assert_eq!(recent.trajectories, 2);
    near(vec![recent.mean.unwrap()], &[0.525]);
    let first = store.list(&Filter::default()).unwrap().remove(0);
    assert_eq!(first.workload, odd);
    assert_eq!(store.origin(first.id).unwrap(), all[0].origin);
    assert_eq!(store.last_observation(first.id).unwrap(), Some(vec![0.5, 0.1]));

    // What does not fit is refused, and nothing of it is stored.
    let mut wrong = trajectory("shop/cart", "hpa", 9_000, &[0.1, 0.2]);
    wrong.transitions[1].observation.push(0.0);
    assert!(matches!(store.put(&wrong).unwrap_err(), Error::WrongLength { .. }));
    wrong.transitions[1] = Transition { reward: f64::NAN, ..transition(1, 0.0) };
    assert!(matches!(store.put(&wrong).unwrap_err(), Error::NotStorable { .. }));
    assert_eq!(store.list(&Filter::default()).unwrap().len(), 5);

    let retention = Retention { latest: Some(1), best: 1, ..Retention::default() };
    let pruned = store.prunable(&retention).unwrap();
    assert_eq!(store.prune(&retention).unwrap(), pruned);
    assert_eq!(file.prune(&retention).unwrap(), pruned);
    assert_eq!(exported(store.as_mut()), exported(&mut file));
    let gone = store.get(first.id);
    assert!(gone.is_ok(), "the only trajectory of its workload stays");
}

/// A server that is away for a while is an error that says so, and the store goes on afterwards.
fn survives_an_outage(server: &mut Server) {
    let mut store = open_store(&server.address, true).unwrap();
    let count = store.list(&Filter::default()).unwrap().len();
    server.stop();
    let one = trajectory("shop/outage", "hpa", 10_000, &[0.5]);
    for _ in 0..2 {
        let away = store.put(&one).unwrap_err();
        assert!(matches!(away, Error::Unreachable { .. }), "{away}");
    }
    server.start_again();
    let started = Instant::now();
    while let Err(error) = store.put(&one) {
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
        assert!(started.elapsed() < Duration::from_secs(60), "{error}");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(store.list(&Filter::default()).unwrap().len(), count + 1);
}

/// An import that is killed leaves whole trajectories.
fn a_killed_import_leaves_whole_trajectories(address: &str) {
    let mut import = Command::new(env!("CARGO_BIN_EXE_homeostat-trajectories"))
        .args(["import", "-", "--store", address])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = import.stdin.take().unwrap();
    let feeding = std::thread::spawn(move || {
        for number in 0.. {
            let one = trajectory("shop/killed", "hpa", 20_000 + 1_000 * number, &[0.5; 300]);
            let place = Place::new();
            let mut file = place.store();
            file.put(&one).unwrap();
            if input.write_all(exported(&mut file).as_bytes()).is_err() {
                return;
            }
        }
    });
    let mut told = BufReader::new(import.stdout.take().unwrap()).lines();
    let mut stored = 0;
    for _ in 0..5 {
        let line = told.next().unwrap().unwrap();
        stored = line.split(' ').nth(1).unwrap().parse::<u64>().unwrap();
    }
    import.kill().unwrap();
    import.wait().unwrap();
    feeding.join().unwrap();
    let mut store = open_store(address, false).unwrap();
    let killed = Filter { workload: Some("shop/killed".to_owned()), policy: None };
    let found = store.list(&killed).unwrap();
    assert!(found.iter().map(|one| one.transitions).sum::<u64>() >= stored);
    for one in found {
        let mut count = 0;
        store
            .transitions(one.id, &mut |_| {
                count += 1;
                Ok(())
            })
            .unwrap();
        assert_eq!((one.transitions, count), (300, 300));
    }
}

#[test]
fn postgresql_is_a_store_like_any_other() {
    let Some(mut server) = postgres() else { return };
    behaves_as_a_store(&server.address);
    a_killed_import_leaves_whole_trajectories(&server.address);
    survives_an_outage(&mut server);
    let mut client = postgres::Client::connect(&server.address, postgres::NoTls).unwrap();
    client.execute("UPDATE homeostat.version SET version = 7", &[]).unwrap();
    let other = open_store(&server.address, true).err().expect("refused").to_string();
    assert!(
        other.contains("has version 7 of the store, and this program reads version 1"),
        "{other}"
    );
}

#[test]
fn influxdb_is_a_store_like_any_other() {
    let Some(mut server) = influx() else { return };
    behaves_as_a_store(&server.address);
    a_killed_import_leaves_whole_trajectories(&server.address);
    survives_an_outage(&mut server);
}

#[test]
fn a_server_that_is_not_there_is_said_to_be_away() {
    let [port, _] = free_ports();
    for scheme in ["postgres", "influxdb"] {
        let address = format!("{scheme}://me:secret@127.0.0.1:{port}/decisions");
        let error = open_store(&address, true).err().expect("nothing listens");
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
        let told = error.to_string();
        assert!(told.contains("does not answer") && !told.contains("secret"), "{told}");
    }
}

#[test]
fn a_password_is_not_sent_to_other_machines_without_tls() {
    let refused = open_store("postgres://me:secret@db.example/decisions", true);
    let told = refused.err().expect("refused").to_string();
    assert!(told.contains("?sslmode=disable") && !told.contains("secret"), "{told}");
}
