//! Runs an external program from the parent's side: starts it, writes its input, reads its output within bounds, and
//! ends it with all processes it started.

use super::launch::{ARGUMENT, LAUNCH_FAILED, Launch, LaunchFailure};
use super::worker::ProgramPath;
use super::{SandboxError, Scratch};
use crate::base::system::thread_count;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Bytes of the beginning of standard error that are kept.
const ERRORS_BYTES_MAX: usize = 64 << 10;
/// Bytes of the end of standard error that are kept.
const LAST_ERRORS_BYTES_MAX: usize = 16 << 10;
/// The maximum number of threads. The system bounds those of the server and of all programs together.
const THREADS_MAX: u64 = 1_024;
/// The interval between two checks of the time limit, of the threads and of the caller's stop flag.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A program that the operator configured, and the bounds of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxedCommand {
    /// The path of the program.
    pub program: PathBuf,
    /// The arguments of the program.
    pub arguments: Vec<String>,
    /// The complete environment of the program.
    pub environment: Vec<(String, String)>,
    /// The standard input.
    pub input: Vec<u8>,
    /// The limit of wall clock time, and of processor time.
    pub time_max: Duration,
    /// Bytes of memory in use.
    pub memory_bytes_max: u64,
    /// Bytes of standard output.
    pub output_bytes_max: usize,
    /// The files that the program may write.
    pub writable: WritableFiles,
    /// Bytes of a file that the program may write.
    pub file_bytes_max: u64,
}

/// The files of its directory that a program may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritableFiles {
    /// No file.
    Nothing,
    /// Those of its home directory.
    Home,
    /// The copies as well.
    Everything,
}

/// The output and status of a program that ended on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOutput {
    /// True if the program exited with success.
    pub succeeded: bool,
    /// The exit code.
    pub code: Option<i32>,
    /// The standard output.
    pub output: Vec<u8>,
    /// The beginning of its standard error.
    pub errors: String,
    /// The end of its standard error, in whole lines if it does not begin with the first one.
    pub last_errors: String,
}

/// The reason why a run did not end normally.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The program was not started.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The program took too long.
    #[error("it took more than {} s", .0.as_secs())]
    Time(Duration),
    /// The program wrote more than the allowed bytes.
    #[error("it wrote more than {} MiB", .0 >> 20)]
    Output(usize),
    /// A signal ended the program; most likely it used too much memory.
    #[error("it was ended by signal {0}: it may have needed more than its bound of memory or time")]
    Ended(i32),
    /// The program started more than the allowed threads.
    #[error("it started more than {} threads", THREADS_MAX)]
    Threads,
    /// The caller stopped the program because the result is no longer needed.
    #[error("it was stopped")]
    Stopped,
}

/// The result of the checks while a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunCheck {
    InBounds,
    OutOfTime,
    ManyThreads,
    Stopped,
}

impl SandboxedCommand {
    /// Runs the program in a directory. The program sees only that directory and its own file. Blocks until the program
    /// has ended; calls `stopped` at every check.
    pub fn run(
        self,
        launcher: &ProgramPath,
        directory: &Scratch,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<CommandOutput, CommandError> {
        let not_started = |error: &dyn std::fmt::Display| SandboxError::NotStarted(error.to_string());
        let launch = Launch {
            program: self.program,
            arguments: self.arguments,
            environment: self.environment,
            directory: directory.path().to_owned(),
            files: directory.files(),
            writable: match self.writable {
                WritableFiles::Nothing => None,
                WritableFiles::Home => Some(directory.home()),
                WritableFiles::Everything => Some(directory.path().to_owned()),
            },
            file_bytes_max: self.file_bytes_max,
            memory_bytes_max: self.memory_bytes_max,
            processor_seconds_max: self.time_max.as_secs().saturating_add(1),
        };
        let launch = serde_json::to_string(&launch).map_err(|error| not_started(&error))?;
        let child = launcher
            .start(ARGUMENT, launch)
            .map_err(|error| not_started(&error))?;
        let mut group = ProcessGroup { child, ended: None };
        let (clock, output, errors) =
            group.run_to_end(&self.input, self.output_bytes_max, self.time_max, stopped)?;
        let status = group.end()?;
        match clock {
            RunCheck::OutOfTime => return Err(CommandError::Time(self.time_max)),
            RunCheck::ManyThreads => return Err(CommandError::Threads),
            RunCheck::Stopped => return Err(CommandError::Stopped),
            RunCheck::InBounds => {}
        }
        if output.len() > self.output_bytes_max {
            return Err(CommandError::Output(self.output_bytes_max));
        }
        command_result(status, output, &errors)
    }
}

fn command_result(
    status: ExitStatus,
    output: Vec<u8>,
    errors: &StreamEnds,
) -> Result<CommandOutput, CommandError> {
    use std::os::unix::process::ExitStatusExt;
    if let Some(signal) = status.signal() {
        return Err(CommandError::Ended(signal));
    }
    if status.code() == Some(i32::from(LAUNCH_FAILED))
        && let Ok(why) = serde_json::from_slice(&errors.beginning)
    {
        return Err(CommandError::Sandbox(match why {
            LaunchFailure::Weaker(layers) => SandboxError::MissingLayers(layers),
            LaunchFailure::Refused(why) => SandboxError::NotStarted(why),
        }));
    }
    Ok(CommandOutput {
        succeeded: status.success(),
        code: status.code(),
        output,
        errors: String::from_utf8_lossy(&errors.beginning).into_owned(),
        last_errors: errors.last_lines(),
    })
}

/// A process and its process group. Dropping it ends both.
struct ProcessGroup {
    child: Child,
    ended: Option<ExitStatus>,
}

impl ProcessGroup {
    /// Writes the input and reads the output until the program ends, writes too much, or exceeds its time.
    fn run_to_end(
        &mut self,
        input: &[u8],
        output_bytes_max: usize,
        time_max: Duration,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<(RunCheck, Vec<u8>, StreamEnds), SandboxError> {
        let pid = Pid::from_child(&self.child);
        let (Some(mut stdin), Some(stdout), Some(stderr)) = (
            self.child.stdin.take(),
            self.child.stdout.take(),
            self.child.stderr.take(),
        ) else {
            return Err(SandboxError::NotStarted("a pipe is missing".to_owned()));
        };
        Ok(std::thread::scope(|scope| {
            let (over, is_over) = channel::<()>();
            let clock = scope.spawn(move || watch(pid, &is_over, time_max, stopped));
            // If the program does not read its input, the write ends when the program ends.
            scope.spawn(move || stdin.write_all(input));
            let errors = scope.spawn(|| StreamEnds::read(stderr));
            let output = read(stdout, (output_bytes_max as u64).saturating_add(1));
            if output.len() > output_bytes_max {
                kill(pid);
            }
            let errors = errors.join().unwrap_or_default();
            drop(over);
            (clock.join().unwrap_or(RunCheck::Stopped), output, errors)
        }))
    }

    /// Ends the process if it still runs, and waits until it is gone.
    fn end(&mut self) -> Result<ExitStatus, SandboxError> {
        // The pipes are closed, so the process should end by itself soon. If it does not, it is killed.
        let until = Instant::now() + POLL_INTERVAL * 10;
        while Instant::now() < until {
            match self.child.try_wait() {
                Ok(Some(status)) => {
                    self.ended = Some(status);
                    return Ok(status);
                }
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
                Err(error) => return Err(SandboxError::NotStarted(error.to_string())),
            }
        }
        kill(Pid::from_child(&self.child));
        let status = self.child.wait();
        let status = status.map_err(|error| SandboxError::NotStarted(error.to_string()))?;
        self.ended = Some(status);
        Ok(status)
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if self.ended.is_none() {
            kill(Pid::from_child(&self.child));
            let _reaped = self.child.wait();
        }
    }
}

/// Kills the process and its group. The process has not been waited for, so its id cannot belong to another process.
fn kill(pid: Pid) {
    let _gone = kill_process_group(pid, Signal::KILL);
}

fn watch(pid: Pid, is_over: &Receiver<()>, time_max: Duration, stopped: &dyn Fn() -> bool) -> RunCheck {
    let end = Instant::now() + time_max;
    let number = pid.as_raw_nonzero().get().unsigned_abs();
    loop {
        match is_over.recv_timeout(POLL_INTERVAL) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return RunCheck::InBounds,
        }
        let verdict = match (stopped(), Instant::now() >= end) {
            (true, _) => RunCheck::Stopped,
            (false, true) => RunCheck::OutOfTime,
            (false, false) if thread_count(number).is_some_and(|count| count > THREADS_MAX) => {
                RunCheck::ManyThreads
            }
            (false, false) => continue,
        };
        kill(pid);
        return verdict;
    }
}

/// The beginning and the end of a stream. It is read to its end, so a program that writes much does not wait and is not
/// ended by its writing.
#[derive(Debug, Default)]
struct StreamEnds {
    beginning: Vec<u8>,
    end: Vec<u8>,
    /// True if the end does not begin with the first byte of the stream.
    is_end_cut: bool,
}

impl StreamEnds {
    fn read(mut from: impl Read) -> Self {
        let mut ends = Self::default();
        let mut chunk = [0_u8; 8 << 10];
        loop {
            match from.read(&mut chunk) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return ends,
                Ok(count) => ends.add(chunk.get(..count).unwrap_or_default()),
            }
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        let free = ERRORS_BYTES_MAX.saturating_sub(self.beginning.len());
        self.beginning.extend(bytes.iter().take(free));
        self.end.extend(bytes);
        let surplus = self.end.len().saturating_sub(LAST_ERRORS_BYTES_MAX);
        if surplus > 0 {
            self.end.drain(..surplus);
            self.is_end_cut = true;
        }
    }

    /// Returns the end in whole lines. A line without its beginning could show a part of a secret.
    fn last_lines(&self) -> String {
        let text = String::from_utf8_lossy(&self.end);
        if !self.is_end_cut {
            return text.into_owned();
        }
        let whole = text.split_once('\n').map(|(_, lines)| lines.to_owned());
        whole.unwrap_or_default()
    }
}

fn read(from: impl Read, bytes_max: u64) -> Vec<u8> {
    let mut content = Vec::new();
    let _broken = from.take(bytes_max).read_to_end(&mut content);
    content
}

#[cfg(test)]
mod tests {
    use super::{ERRORS_BYTES_MAX, LAST_ERRORS_BYTES_MAX, StreamEnds};

    #[test]
    fn the_beginning_of_a_long_stream_is_kept_and_its_end_in_whole_lines() {
        let short = StreamEnds::read(&b"one\ntwo"[..]);
        assert_eq!(
            (short.beginning.as_slice(), short.last_lines().as_str()),
            (&b"one\ntwo"[..], "one\ntwo")
        );
        let lines: String = (0..100_000).map(|line| format!("line {line}\n")).collect();
        let long = StreamEnds::read(lines.as_bytes());
        assert_eq!(long.beginning, lines.as_bytes()[..ERRORS_BYTES_MAX]);
        let last = long.last_lines();
        assert!(last.len() <= LAST_ERRORS_BYTES_MAX && last.len() > LAST_ERRORS_BYTES_MAX - 20);
        assert!(last.starts_with("line ") && last.ends_with("line 99999\n"));
        let one_line = StreamEnds::read("x".repeat(LAST_ERRORS_BYTES_MAX + 1).as_bytes());
        assert_eq!(one_line.last_lines(), "");
    }
}
