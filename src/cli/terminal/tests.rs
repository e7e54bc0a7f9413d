//! Tests of the deadline of a question at a terminal. The questioner and the display run in a second process on a
//! pseudo-terminal, with a clock that the test moves.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::TerminalOptions;
use super::display::{CallFormat, Detail};
use super::turn_watch::TurnWatch;
use crate::base::model::{AskedQuestion, QuestionAnswer};
use crate::base::redact::Redactor;
use crate::cli::chat::{ChatQuestioner, RequestSource};
use crate::cli::output::{Output, OutputFormat};
use crate::engine::agent::{Questioner as _, TurnEvent};
use clap::Parser;
use pty_process::blocking::Pty;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read as _, Write as _};
use std::process::{Child, Command};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The variable of the second process: the number of seconds that its clock moves.
const SECONDS: &str = "DRYDOCK_TEST_QUESTION_SECONDS";
/// The time of the question, in minutes and in seconds.
const MINUTES: u32 = 5;
const MINUTES_AS_SECONDS: u64 = 300;
/// The longest wait for the second process.
const BOUND: Duration = Duration::from_secs(60);
/// Printed once the clock was moved.
const MOVED: &str = "the clock was moved";
/// The question of a terminal for the position of its cursor, and the answer.
const CURSOR_QUESTION: &str = "\u{1b}[6n";
const CURSOR_ANSWER: &[u8] = b"\x1b[1;1R";

#[derive(Parser)]
struct AskedOptions {
    #[command(flatten)]
    options: TerminalOptions,
}

/// Asks at the terminal of this process, and moves its clock when it is told.
async fn ask(seconds: u64) {
    let choices = ["Three".to_owned(), "Five".to_owned()];
    let question = AskedQuestion::new("How many replicas?", &choices, Some("Three"), MINUTES).unwrap();
    let output = Output::new(OutputFormat::Text);
    let calls = CallFormat {
        detail: Detail::Usual,
        chars_max: 120,
    };
    let mut told = signal(SignalKind::user_defined1()).unwrap();
    let mut watch = TurnWatch::start(output, calls, &Arc::new(Redactor::new([])), None);
    watch.show(&TurnEvent::Asked(question.clone()));
    let options = AskedOptions::parse_from(["ask"]).options;
    let mut source = RequestSource::Sent;
    let questioner = ChatQuestioner::new(&mut source, &output, &options);
    let cancel = CancellationToken::new();
    let clock = async {
        told.recv().await;
        tokio::time::advance(Duration::from_secs(seconds)).await;
        output.message(MOVED);
        std::future::pending::<()>().await;
    };
    let answer: QuestionAnswer = tokio::select! {
        answer = questioner.ask(&question, &cancel) => answer,
        () = clock => return,
    };
    watch.show(&TurnEvent::Answered(answer));
    watch.finish(None);
}

/// The second process. It is killed when a test fails.
struct AskingProcess {
    child: Child,
    pty: Arc<Pty>,
    chunks: mpsc::Receiver<String>,
    written: String,
}

impl AskingProcess {
    #[allow(clippy::disallowed_methods, reason = "the test starts itself")]
    fn start(seconds: u64) -> Self {
        let (pty, pts) = pty_process::blocking::open().unwrap();
        pty.resize(pty_process::Size::new(40, 100)).unwrap();
        let test = "cli::terminal::tests::a_question_at_a_terminal_takes_its_default_at_its_deadline";
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture"]);
        command
            .env(SECONDS, seconds.to_string())
            .env("TERM", "xterm-256color");
        let child = pty_process::blocking::Command::from(command).spawn(pts).unwrap();
        let (pty, (sender, chunks)) = (Arc::new(pty), mpsc::channel());
        std::thread::spawn({
            let pty = Arc::clone(&pty);
            move || read_to_end(&pty, &sender)
        });
        Self {
            child,
            pty,
            chunks,
            written: String::new(),
        }
    }

    /// Waits until a text was written, and answers the questions of a terminal.
    fn wait_for(&mut self, wanted: &str) {
        while !self.written.contains(wanted) {
            let Ok(text) = self.chunks.recv_timeout(BOUND) else {
                panic!("no {wanted:?} in: {}", self.written);
            };
            for _ in text.matches(CURSOR_QUESTION) {
                self.press(CURSOR_ANSWER);
            }
            self.written.push_str(&text);
        }
    }

    fn press(&self, keys: &[u8]) {
        (&*self.pty).write_all(keys).unwrap();
    }

    fn move_clock(&self) {
        let id = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(id, Signal::USR1).unwrap();
    }
}

fn read_to_end(mut pty: &Pty, sender: &mpsc::Sender<String>) {
    let mut chunk = [0; 4_096];
    // The end of the process is an error of the terminal on Linux.
    while let Ok(count @ 1..) = pty.read(&mut chunk) {
        let text = String::from_utf8_lossy(&chunk[..count]).into_owned();
        if sender.send(text).is_err() {
            return;
        }
    }
}

impl Drop for AskingProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// At the deadline the default answers, and the person reads so. Before it, the person does.
#[test]
#[allow(clippy::disallowed_methods, reason = "the second process is told what to do")]
fn a_question_at_a_terminal_takes_its_default_at_its_deadline() {
    if let Ok(seconds) = std::env::var(SECONDS) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        return runtime.block_on(ask(seconds.parse().unwrap()));
    }
    let mut late = AskingProcess::start(MINUTES_AS_SECONDS);
    late.wait_for("2. Five");
    late.wait_for("❯ ");
    late.move_clock();
    late.wait_for("Nobody answered in time; I go on with: Three");

    let mut in_time = AskingProcess::start(MINUTES_AS_SECONDS - 1);
    in_time.wait_for("2. Five");
    in_time.wait_for("❯ ");
    in_time.move_clock();
    in_time.wait_for(MOVED);
    in_time.press(b"2\r");
    in_time.wait_for("Your answer: Five");
}
