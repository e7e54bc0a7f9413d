//! The real program, started like a person starts it, in a separate home: no variable of the machine reaches it, and it
//! can change only its own directories.

use crate::support::built::built;
use gix::objs::tree::EntryKind;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The longest time any step on loopback may take.
pub(crate) const BOUND: Duration = Duration::from_secs(60);

/// The lock that makes tests on files of many megabytes run one at a time. Concurrently, on few cores, each would
/// exceed its time limit.
pub(crate) static LARGE_FILE_LOCK: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A home with a work tree in it.
pub(crate) struct Shell {
    home: TempDir,
    variables: Vec<(String, String)>,
}

/// The output of a program, and its exit code.
#[derive(Debug)]
pub(crate) struct ProgramOutput {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl ProgramOutput {
    /// Parses standard output as one JSON value.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Shell {
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        for directory in ["work", "tmp"] {
            std::fs::create_dir(home.path().join(directory)).unwrap();
        }
        Self {
            home,
            variables: Vec::new(),
        }
    }

    /// Creates a shell whose work tree is a repository with one commit of these files.
    pub(crate) fn with_repository(files: &[(&str, &str)]) -> Self {
        let shell = Self::new();
        for (path, text) in files {
            shell.put(path, text);
        }
        commit(&shell.work(), files);
        shell
    }

    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// Returns the work tree.
    pub(crate) fn work(&self) -> PathBuf {
        self.home.path().join("work")
    }

    pub(crate) fn put(&self, path: &str, text: &str) {
        let file = self.work().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    pub(crate) fn get(&self, path: &str) -> String {
        std::fs::read_to_string(self.work().join(path)).unwrap()
    }

    /// Returns the names of remaining files below the temporary directory.
    pub(crate) fn leftover_files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.home.path().join("tmp")).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect()
    }

    /// Returns a command of the program, in the work tree.
    pub(crate) fn drydock(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(built());
        command.args(arguments);
        self.prepare(&mut command);
        command
    }

    /// Sets this shell's directory and environment on a command.
    pub(crate) fn prepare(&self, command: &mut Command) {
        command
            .current_dir(self.work())
            .env_clear()
            .env("HOME", self.home.path())
            .env("TMPDIR", self.home.path().join("tmp"))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> ProgramOutput {
        run_to_end(self.drydock(arguments))
    }

    /// Runs the program with this standard input.
    pub(crate) fn run_with_input(&self, arguments: &[&str], input: impl AsRef<[u8]>) -> ProgramOutput {
        let mut running = self.start(arguments);
        running.type_bytes(input.as_ref());
        running.close_input();
        running.end()
    }

    /// Starts the program with pipes.
    pub(crate) fn start(&self, arguments: &[&str]) -> RunningProgram {
        RunningProgram::start(self.drydock(arguments))
    }
}

/// Runs a command to its end.
pub(crate) fn run_to_end(command: Command) -> ProgramOutput {
    let mut running = RunningProgram::start(command);
    running.close_input();
    running.end()
}

/// A running program. It is killed when a test fails.
pub(crate) struct RunningProgram {
    child: Child,
    out: LineStream,
    err: LineStream,
}

/// The lines of a stream, as they arrive.
struct LineStream {
    receiver: mpsc::Receiver<String>,
    text: String,
}

impl LineStream {
    fn of(stream: impl Read + Send + 'static) -> Self {
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines() {
                let sent = line.map(|line| sender.send(line));
                if !matches!(sent, Ok(Ok(()))) {
                    return;
                }
            }
        });
        Self {
            receiver,
            text: String::new(),
        }
    }

    fn until(&mut self, wanted: &str, child: &mut Child) -> String {
        let deadline = Instant::now() + BOUND;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.receiver.recv_timeout(left) else {
                let status = child.try_wait();
                panic!("no line with {wanted:?} ({status:?}) in:\n{}", self.text);
            };
            self.text.push_str(&line);
            self.text.push('\n');
            if line.contains(wanted) {
                return line;
            }
        }
    }

    fn rest(&mut self) -> String {
        while let Ok(line) = self.receiver.recv_timeout(BOUND) {
            self.text.push_str(&line);
            self.text.push('\n');
        }
        std::mem::take(&mut self.text)
    }
}

impl RunningProgram {
    pub(crate) fn start(mut command: Command) -> Self {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = LineStream::of(child.stdout.take().unwrap());
        let err = LineStream::of(child.stderr.take().unwrap());
        Self { child, out, err }
    }

    pub(crate) fn type_line(&mut self, line: &str) {
        self.type_bytes(format!("{line}\n").as_bytes());
    }

    fn type_bytes(&mut self, bytes: &[u8]) {
        let input = self.child.stdin.as_mut().unwrap();
        // A program that refuses to start does not read its input.
        let _ = input.write_all(bytes).and_then(|()| input.flush());
    }

    /// Closes the input, like Ctrl-D.
    pub(crate) fn close_input(&mut self) {
        drop(self.child.stdin.take());
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line of standard output.
    pub(crate) fn wait_for_stdout_line(&mut self, wanted: &str) -> String {
        self.out.until(wanted, &mut self.child)
    }

    /// Waits for a line of standard error.
    pub(crate) fn wait_for_stderr_line(&mut self, wanted: &str) -> String {
        self.err.until(wanted, &mut self.child)
    }

    /// Sends the signal of Ctrl-C.
    pub(crate) fn interrupt(&self) {
        self.signal(rustix::process::Signal::INT);
    }

    /// Sends the signal with which a service manager stops it.
    pub(crate) fn terminate(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// Sends the signal of a closed terminal.
    pub(crate) fn hang_up(&self) {
        self.signal(rustix::process::Signal::HUP);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let id = i32::try_from(self.child.id()).unwrap();
        rustix::process::kill_process(rustix::process::Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// Waits for the end.
    pub(crate) fn end(mut self) -> ProgramOutput {
        let (out, err) = (self.out.rest(), self.err.rest());
        let deadline = Instant::now() + BOUND;
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() > deadline => panic!("it does not end: {out}{err}"),
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        ProgramOutput {
            code: status.code(),
            out,
            err,
        }
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes a directory a repository with one commit on `main`. This needs no git on the machine.
pub(crate) fn commit(work: &Path, files: &[(&str, &str)]) -> String {
    let options = gix::open::Options::isolated();
    let kind = gix::create::Kind::WithWorktree;
    let created = gix::ThreadSafeRepository::init_opts(work, kind, gix::create::Options::default(), options);
    let repository: gix::Repository = created.unwrap().into();
    std::fs::write(work.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    repository.write_object(gix::objs::Tree::empty()).unwrap();
    let empty = gix::ObjectId::empty_tree(gix::hash::Kind::Sha1);
    let changes: Vec<CommitChange<'_>> = files.iter().map(written).collect();
    write_commit(&repository, work, empty, None, &changes)
}

/// Adds a commit that changes these files to the repository of [`commit`], and checks them out.
pub(crate) fn commit_again(work: &Path, files: &[(&str, &str)]) -> String {
    for (path, text) in files {
        std::fs::write(work.join(path), text).unwrap();
    }
    let changes: Vec<CommitChange<'_>> = files.iter().map(written).collect();
    commit_changes(work, &changes)
}

/// A path, and its new kind and content; `None` removes the entry.
pub(crate) type CommitChange<'a> = (&'a str, Option<(EntryKind, &'a [u8])>);

fn written<'a>((path, text): &(&'a str, &'a str)) -> CommitChange<'a> {
    (path, Some((EntryKind::Blob, text.as_bytes())))
}

/// Adds a commit with these changes to the repository of [`commit`], and checks nothing out.
pub(crate) fn commit_changes(work: &Path, changes: &[CommitChange<'_>]) -> String {
    let options = gix::open::Options::isolated();
    let repository: gix::Repository = gix::ThreadSafeRepository::open_opts(work, options)
        .unwrap()
        .into();
    let parent = std::fs::read_to_string(work.join(".git/refs/heads/main")).unwrap();
    let parent = gix::ObjectId::from_hex(parent.trim().as_bytes()).unwrap();
    let tree = repository
        .find_commit(parent)
        .unwrap()
        .tree_id()
        .unwrap()
        .detach();
    write_commit(&repository, work, tree, Some(parent), changes)
}

fn write_commit(
    repository: &gix::Repository,
    work: &Path,
    tree: gix::ObjectId,
    parent: Option<gix::ObjectId>,
    changes: &[CommitChange<'_>],
) -> String {
    let mut editor = repository.edit_tree(tree).unwrap();
    for (path, after) in changes {
        match after {
            Some((kind, content)) => {
                let blob = repository.write_blob(content).unwrap().detach();
                editor.upsert(*path, *kind, blob).unwrap();
            }
            None => {
                editor.remove(*path).unwrap();
            }
        }
    }
    let author = gix::actor::Signature {
        name: "Ada".into(),
        email: "ada@example.com".into(),
        time: gix::date::Time {
            seconds: 1_700_000_000,
            offset: 0,
        },
    };
    let commit = gix::objs::Commit {
        tree: editor.write().unwrap().detach(),
        parents: parent.into_iter().collect(),
        author: author.clone(),
        committer: author,
        encoding: None,
        message: "first\n".into(),
        extra_headers: Vec::new(),
    };
    let id = repository.write_object(&commit).unwrap().detach();
    std::fs::create_dir_all(work.join(".git/refs/heads")).unwrap();
    std::fs::write(work.join(".git/refs/heads/main"), format!("{id}\n")).unwrap();
    id.to_string()
}

/// An emulated model with its own runtime, so that tests may block.
pub(crate) struct BlockingModel {
    runtime: tokio::runtime::Runtime,
    emulator: Option<drydock::simulation::emulator::model::ModelEmulator>,
}

impl BlockingModel {
    pub(crate) fn start(script: impl drydock::simulation::emulator::model::AnswerScript + 'static) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let guard = runtime.enter();
        let emulator = drydock::simulation::emulator::model::ModelEmulator::start(script).unwrap();
        drop(guard);
        Self {
            runtime,
            emulator: Some(emulator),
        }
    }

    fn emulator(&self) -> &drydock::simulation::emulator::model::ModelEmulator {
        self.emulator.as_ref().unwrap()
    }

    pub(crate) fn url(&self) -> String {
        self.emulator().url().to_owned()
    }

    pub(crate) fn asked(&self) -> Vec<drydock::simulation::emulator::model::ModelRequest> {
        self.emulator().requests()
    }

    /// Sends the answers that are held back.
    pub(crate) fn release(&self) {
        self.emulator().release();
    }

    /// Waits until `count` requests were made.
    pub(crate) fn wait_for_requests(&self, count: usize) {
        let deadline = Instant::now() + BOUND;
        while self.asked().len() < count {
            assert!(Instant::now() < deadline, "only {} requests", self.asked().len());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for BlockingModel {
    fn drop(&mut self) {
        let Some(emulator) = self.emulator.take() else {
            return;
        };
        let (problems, unused) = (emulator.problems(), emulator.unused());
        self.runtime.block_on(emulator.shutdown());
        if !std::thread::panicking() {
            assert_eq!(
                problems,
                Vec::<String>::new(),
                "the model got unexpected requests"
            );
            assert_eq!(unused, Vec::<String>::new(), "script lines that were not used");
        }
    }
}
