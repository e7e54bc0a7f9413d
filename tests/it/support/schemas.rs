//! Checkers of what the gateway sends to a platform, made of libraries of other authors. `tests/strangers/README.md`
//! names them.

use super::require::{self, component};
use drydock::simulation::emulator::SentRequest;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError, mpsc};
use std::time::Duration;

/// The longest time until a checker answers. On a busy machine, one library takes half a minute to start.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(240);

/// The checkers: the name of a component, and the platform whose traffic it checks.
const CHECKERS: [(&str, SentTo); 4] = [
    ("slack_sdk", SentTo::Slack),
    ("slack-types", SentTo::Slack),
    ("aiogram", SentTo::Telegram),
    ("discord-api-types", SentTo::Discord),
];

/// The checkers that all tests of a run share, because each takes seconds to start.
static SHARED: LazyLock<Vec<(SentTo, Mutex<SchemaChecker>)>> = LazyLock::new(|| {
    let required = CHECKERS.iter().filter(|(name, _)| require::is_required(name));
    required
        .filter_map(|(name, platform)| Some((*platform, Mutex::new(SchemaChecker::start(name)?))))
        .collect()
});

/// The platform of recorded traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SentTo {
    Slack,
    Telegram,
    Discord,
}

/// A running checker. Ends when dropped.
pub(crate) struct SchemaChecker {
    child: Child,
    /// `None` while it is dropped.
    requests: Option<ChildStdin>,
    answers: mpsc::Receiver<String>,
}

impl SchemaChecker {
    /// Starts a checker by the name of its component. Returns `None`, with a notice, if it is not installed.
    pub(crate) fn start(name: &str) -> Option<Self> {
        let started = component(name)?;
        let mut command = started.command();
        let words = require::checker_arguments(name);
        let spawned = command
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = spawned.expect("the checker starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let (sender, answers) = mpsc::channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let requests = child.stdin.take();
        Some(Self {
            child,
            requests,
            answers,
        })
    }

    /// Returns the problems of these requests.
    pub(crate) fn problems(&mut self, requests: &[SentRequest]) -> Vec<String> {
        self.ask(&serde_json::to_string(requests).expect("requests are JSON"))
    }

    /// Returns the exceptions of the checker that no request needed so far.
    pub(crate) fn unused_exceptions(&mut self) -> Vec<String> {
        self.ask("\"unused\"")
    }

    fn ask(&mut self, line: &str) -> Vec<String> {
        let pipe = self.requests.as_mut().expect("a pipe");
        writeln!(pipe, "{line}").expect("the checker reads");
        let answer = self.answers.recv_timeout(ANSWER_TIME_MAX);
        let answer = answer.expect("the checker answers; its reason is above");
        serde_json::from_str(&answer).expect("a list of texts")
    }
}

impl Drop for SchemaChecker {
    fn drop(&mut self) {
        // It ends with its input. A process that ended already cannot be killed, and nothing else is left to do.
        self.requests = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns what the required checkers of a platform find in its traffic.
pub(crate) fn problems(platform: SentTo, traffic: &[SentRequest]) -> Vec<String> {
    let checkers = SHARED.iter().filter(|(of, _)| *of == platform);
    checkers
        .flat_map(|(_, checker)| {
            // A failed test already has a reason.
            let mut checker = checker.lock().unwrap_or_else(PoisonError::into_inner);
            checker.problems(traffic)
        })
        .collect()
}
