//! Shared support of all benchmarks: percentiles, tables, machine information, the sync time of the disk, and
//! repositories created without git.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

pub(crate) mod engines;
pub(crate) mod worker_memory;
pub(crate) mod repository;
pub(crate) mod server;
pub(crate) mod slack;
pub(crate) mod tanka;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The same allocator as in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The sorted measurements of one thing.
pub(crate) struct Times {
    sorted: Vec<Duration>,
}

impl Times {
    pub(crate) fn new(mut times: Vec<Duration>) -> Self {
        times.sort();
        Self { sorted: times }
    }

    /// Returns the value below which `per_mille` of 1,000 measurements lie.
    pub(crate) fn at(&self, per_mille: usize) -> Duration {
        let last = self.sorted.len().saturating_sub(1);
        self.sorted
            .get((self.sorted.len() * per_mille / 1_000).min(last))
            .copied()
            .unwrap_or_default()
    }

    pub(crate) fn p50(&self) -> Duration {
        self.at(500)
    }

    pub(crate) fn p99(&self) -> Duration {
        self.at(990)
    }

    pub(crate) fn len(&self) -> usize {
        self.sorted.len()
    }
}

pub(crate) fn header(bench: &str) {
    println!("\n# {bench}: {}", machine());
    println!("{:<58} {:>7} {:>10} {:>10}  target", "", "n", "p50 ms", "p99 ms");
}

/// Returns the path of the release binary, or of another build that `DRYDOCK_BENCH_PROGRAM` names, such as the static
/// one.
pub(crate) fn program() -> PathBuf {
    let named = std::env::var_os("DRYDOCK_BENCH_PROGRAM").map(PathBuf::from);
    named.unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_drydock")))
}

/// Prints a row of times: one line for people, and one for programs.
pub(crate) fn row(what: &str, times: &Times, target: &str) {
    let (p50, p99) = (millis(times.p50()), millis(times.p99()));
    println!("{what:<58} {:>7} {p50:>10.3} {p99:>10.3}  {target}", times.len());
    json(
        what,
        &[("n", times.len() as f64), ("p50_ms", p50), ("p99_ms", p99)],
    );
}

/// Prints a value with its unit.
pub(crate) fn value(what: &str, value: f64, unit: &str, target: &str) {
    println!("{what:<58} {:>7} {value:>10.2} {unit:<10}  {target}", "");
    json(what, &[(unit, value)]);
}

/// Prints a line for programs: `cargo bench 2>/dev/null | grep '^{'` after `DRYDOCK_BENCH_JSON=1`.
fn json(what: &str, values: &[(&str, f64)]) {
    if std::env::var_os("DRYDOCK_BENCH_JSON").is_none() {
        return;
    }
    let mut line = serde_json::json!({ "what": what });
    for (name, value) in values {
        line[*name] = serde_json::json!(value);
    }
    println!("{line}");
}

pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Times a durable append of 4 KiB on the disk of `directory`, a thousand times.
pub(crate) fn fsync_floor(directory: &Path) -> Times {
    let mut file = std::fs::File::create(directory.join("fsync-floor")).unwrap();
    Times::new((0..1_000).map(|_| durable_append(&mut file)).collect())
}

/// A thread that times durable appends of 4 KiB, a hundred a second, until it is stopped. It shows the performance of
/// the disk under the load of the benchmark.
pub(crate) struct FsyncWatch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Duration>>,
}

impl FsyncWatch {
    pub(crate) fn start(directory: &Path) -> Self {
        let mut file = std::fs::File::create(directory.join("fsync-watch")).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut times = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                times.push(durable_append(&mut file));
                std::thread::sleep(Duration::from_millis(10));
            }
            times
        });
        Self { stop, thread }
    }

    pub(crate) fn stop(self) -> Times {
        self.stop.store(true, Ordering::Relaxed);
        Times::new(self.thread.join().unwrap())
    }
}

fn durable_append(file: &mut std::fs::File) -> Duration {
    let started = Instant::now();
    file.write_all(&[7_u8; 4_096]).unwrap();
    file.sync_data().unwrap();
    started.elapsed()
}

/// Counts, for one second, how often an otherwise idle core stalls for more than a millisecond, and the longest stall.
/// No program on this machine can avoid these stalls.
pub(crate) fn standstill() {
    let (mut gaps, mut longest) = (0_u32, Duration::ZERO);
    let started = Instant::now();
    let mut last = started;
    while last - started < Duration::from_secs(1) {
        let now = Instant::now();
        let gap = now - last;
        gaps += u32::from(gap > Duration::from_millis(1));
        longest = longest.max(gap);
        last = now;
    }
    value(
        "floor: a core stood still for over 1 ms",
        f64::from(gaps),
        "times/s",
        "",
    );
    value("floor: and for at most", millis(longest), "ms", "");
}

pub(crate) fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let cpu = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown CPU", |(_, name)| name);
    let load = read("/proc/loadavg");
    format!(
        "{cores} x {cpu}, Linux {}, load {}",
        read("/proc/sys/kernel/osrelease").trim(),
        load.split(' ').next().unwrap_or_default()
    )
}

/// Reads a field in KiB from a file of `/proc`.
pub(crate) fn kib(file: &str, name: &str) -> u64 {
    field(file, name)
}

/// Reads a number from a file of `/proc`.
pub(crate) fn field(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// Returns the CPU time of a process from its `stat` file.
pub(crate) fn cpu(file: &str) -> Duration {
    let stat = std::fs::read_to_string(file).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    // User and system time, in ticks of 10 ms.
    let ticks: u64 = fields
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * 10)
}

/// Pins a process to one core, if the system has `taskset`.
pub(crate) fn pin(process: u32, core: usize) -> bool {
    std::process::Command::new("taskset")
        .args(["-a", "-c", "-p", &core.to_string(), &process.to_string()])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
