//! The real program on a terminal: a pseudo-terminal of the system, and an emulator of a screen. Tests type keys, wait
//! for a condition on the screen, and compare what a person sees.

use crate::support::shell::{BOUND, Shell};
use pty_process::Size;
use pty_process::blocking::Pty;
use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::process::Child;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// The number of rows of every screen.
const ROWS: u16 = 40;
/// The number of rows above the screen that are kept.
const SCROLLBACK_ROWS: usize = 1_000;

/// The keys that a test presses.
pub(crate) mod key {
    pub(crate) const ENTER: &str = "\r";
    pub(crate) const ALT_ENTER: &str = "\u{1b}\r";
    pub(crate) const TAB: &str = "\t";
    pub(crate) const UP: &str = "\u{1b}[A";
    pub(crate) const HOME: &str = "\u{1b}[H";
    pub(crate) const CTRL_C: &str = "\u{3}";
    pub(crate) const CTRL_D: &str = "\u{4}";
    pub(crate) const CTRL_R: &str = "\u{12}";
}

/// The answer of a terminal to the question for its cursor, and that question.
const CURSOR_QUESTION: &[u8] = b"\x1b[6n";

/// The state of a screen.
struct ScreenState {
    parser: vt100::Parser,
    // All bytes of the program, for checks of escape sequences.
    written: Vec<u8>,
    is_closed: bool,
}

/// A program that runs on a screen. It is killed when a test fails.
pub(crate) struct ScreenProgram {
    child: Child,
    pty: Arc<Pty>,
    state: Arc<(Mutex<ScreenState>, Condvar)>,
}

impl ScreenProgram {
    /// Starts the program on a screen with so many columns and this `TERM`.
    pub(crate) fn start(shell: &Shell, arguments: &[&str], columns: u16, term: &str) -> Self {
        let (pty, pts) = pty_process::blocking::open().unwrap();
        pty.resize(Size::new(ROWS, columns)).unwrap();
        let mut command = std::process::Command::new(crate::support::built::built());
        command.args(arguments);
        shell.prepare(&mut command);
        command.env("TERM", term);
        let child = pty_process::blocking::Command::from(command).spawn(pts).unwrap();
        let cells = |count| NonZeroU16::new(count).unwrap();
        let state = ScreenState {
            parser: vt100::Parser::new(cells(ROWS), cells(columns), SCROLLBACK_ROWS),
            written: Vec::new(),
            is_closed: false,
        };
        let state = Arc::new((Mutex::new(state), Condvar::new()));
        let pty = Arc::new(pty);
        std::thread::spawn({
            let (pty, state) = (Arc::clone(&pty), Arc::clone(&state));
            move || read_to_end(&pty, &state)
        });
        Self { child, pty, state }
    }

    /// Types text or keys.
    pub(crate) fn press(&self, keys: &str) {
        (&*self.pty).write_all(keys.as_bytes()).unwrap();
    }

    /// Types a line and presses Enter.
    pub(crate) fn enter(&self, line: &str) {
        self.press(&format!("{line}{}", key::ENTER));
    }

    /// Waits until a condition holds for the text on the screen.
    pub(crate) fn wait_until(&self, what: &str, condition: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + BOUND;
        let (state, changed) = &*self.state;
        let mut state = state.lock().unwrap();
        loop {
            let text = state.parser.screen().contents();
            if condition(&text) {
                return text;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero() && !state.is_closed, "no {what} on:\n{text}");
            state = changed.wait_timeout(state, left).unwrap().0;
        }
    }

    /// Waits until a text is on the screen.
    pub(crate) fn wait_for(&self, text: &str) -> String {
        self.wait_until(text, |screen| screen.contains(text))
    }

    /// Waits for an empty prompt as the last line.
    pub(crate) fn wait_for_prompt(&self) -> String {
        self.wait_until("prompt", |screen| {
            screen.trim_end().ends_with("\n❯") || screen.trim_end() == "❯"
        })
    }

    /// Sends the signal with which a service manager stops it.
    pub(crate) fn terminate(&self) {
        let id = i32::try_from(self.child.id()).unwrap();
        let id = rustix::process::Pid::from_raw(id).unwrap();
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    }

    /// Returns true if the terminal shows typed characters by itself, as it does outside of a program.
    pub(crate) fn has_echo(&self) -> bool {
        let settings = rustix::termios::tcgetattr(&*self.pty).unwrap();
        let wanted = rustix::termios::LocalModes::ECHO | rustix::termios::LocalModes::ICANON;
        settings.local_modes.contains(wanted)
    }

    /// Waits for the end, and returns the exit code and all written bytes.
    pub(crate) fn end(mut self) -> ScreenOutput {
        let deadline = Instant::now() + BOUND;
        let code = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status.code(),
                None => assert!(Instant::now() < deadline, "it does not end: {}", self.text()),
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let (state, changed) = &*self.state;
        let mut state = state.lock().unwrap();
        while !state.is_closed {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "the terminal is not closed");
            state = changed.wait_timeout(state, left).unwrap().0;
        }
        ScreenOutput {
            code,
            written: String::from_utf8_lossy(&state.written).into_owned(),
        }
    }

    fn text(&self) -> String {
        self.state.0.lock().unwrap().parser.screen().contents()
    }
}

/// The result of a program on a screen.
#[derive(Debug)]
pub(crate) struct ScreenOutput {
    pub(crate) code: Option<i32>,
    pub(crate) written: String,
}

/// Reads what the program writes, and answers its questions for the cursor.
fn read_to_end(pty: &Pty, state: &(Mutex<ScreenState>, Condvar)) {
    let (state, changed) = state;
    let mut chunk = [0; 4_096];
    let mut answered = 0;
    loop {
        let mut reader = pty;
        // The end of the program is an error of the terminal on Linux.
        let count = reader.read(&mut chunk).unwrap_or(0);
        let mut state = state.lock().unwrap();
        if count == 0 {
            state.is_closed = true;
            changed.notify_all();
            return;
        }
        let mut from = state.written.len();
        state.written.extend_from_slice(&chunk[..count]);
        while let Some(at) = find(&state.written[answered..], CURSOR_QUESTION) {
            answered += at + CURSOR_QUESTION.len();
            let before = state.written[from..answered].to_vec();
            from = answered;
            state.parser.process(&before);
            let (row, column) = state.parser.screen().cursor_position();
            let answer = format!("\x1b[{};{}R", row + 1, column + 1);
            let mut writer = pty;
            writer.write_all(answer.as_bytes()).unwrap();
        }
        let rest = state.written[from..].to_vec();
        state.parser.process(&rest);
        changed.notify_all();
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

impl Drop for ScreenProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
