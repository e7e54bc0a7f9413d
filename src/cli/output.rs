//! Prints the output of commands. It also prints texts of models and repositories, so on a terminal their escape
//! sequences are made visible: they cannot move the cursor, hide text or change the title.

use crate::base::model::{is_invisible, one_line};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The first reason why data could not be written to standard output.
static DATA_LOST: OnceLock<String> = OnceLock::new();

/// True once the reader of standard output has closed it.
static READER_GONE: AtomicBool = AtomicBool::new(false);

/// Returns true if the reader of standard output has closed it, so that nothing more needs to be printed.
pub(super) fn is_reader_gone() -> bool {
    let output = std::io::stdout();
    let mut polled = [PollFd::new(&output, PollFlags::empty())];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let _asked = poll(&mut polled, Some(&at_once));
    let [output] = &polled;
    READER_GONE.load(Ordering::Relaxed) || output.revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// Returns the reason why data could not be written to standard output; `None` if all data was written, or its reader
/// went away.
pub(super) fn data_lost() -> Option<&'static str> {
    DATA_LOST.get().map(String::as_str)
}

/// The colours and weights of Drydock. All other escape sequences are made visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputStyle {
    Bold,
    Dim,
    Call,
    Aside,
    Header,
    Added,
    Removed,
    Hunk,
    Border,
    Title,
    Italic,
    Underlined,
    Struck,
    Code,
    Logo,
}

impl OutputStyle {
    const ALL: [Self; 15] = [
        Self::Bold,
        Self::Dim,
        Self::Call,
        Self::Aside,
        Self::Header,
        Self::Added,
        Self::Removed,
        Self::Hunk,
        Self::Border,
        Self::Title,
        Self::Italic,
        Self::Underlined,
        Self::Struck,
        Self::Code,
        Self::Logo,
    ];

    fn code(self) -> &'static str {
        match self {
            Self::Bold => "\x1b[1m",
            Self::Dim => "\x1b[2m",
            Self::Call => "\x1b[1;36m",
            Self::Aside => "\x1b[33m",
            Self::Header => "\x1b[1;34m",
            Self::Added => "\x1b[32m",
            Self::Removed => "\x1b[31m",
            Self::Hunk => "\x1b[36m",
            Self::Border => "\x1b[38;5;240m",
            Self::Title => "\x1b[1;4m",
            Self::Italic => "\x1b[3m",
            Self::Underlined => "\x1b[4m",
            Self::Struck => "\x1b[9m",
            Self::Code => "\x1b[36m",
            Self::Logo => "\x1b[38;2;250;202;16m",
        }
    }
}

const PLAIN: &str = "\x1b[0m";

/// An output stream of the program.
#[derive(Clone, Copy, Debug)]
struct Stream {
    terminal: bool,
    colour: bool,
}

/// The format of data on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputFormat {
    Text,
    /// One JSON value for each result.
    Json,
    /// One JSON object for each event, and for each text.
    Events,
}

/// Standard output and standard error of the program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    format: OutputFormat,
    data: Stream,
    messages: Stream,
    kind: TerminalKind,
    can_move: bool,
}

/// The capabilities of the terminal of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TerminalKind {
    /// Input and both outputs are a terminal that can move its cursor.
    Interactive,
    /// At least one of them is a file or a pipe, or the terminal can only print.
    Plain,
}

impl Output {
    pub(super) fn new(format: OutputFormat) -> Self {
        #[allow(
            clippy::disallowed_methods,
            reason = "the shell is where the environment is read"
        )]
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let can_move = variable("TERM").is_some_and(|term| term != "dumb");
        let is_wanted = variable("NO_COLOR").is_none();
        let stream = |terminal| Stream {
            terminal,
            colour: terminal && can_move && is_wanted,
        };
        let (data, messages) = (std::io::stdout().is_terminal(), std::io::stderr().is_terminal());
        let is_interactive = can_move && data && messages && std::io::stdin().is_terminal();
        Self {
            format,
            data: stream(data),
            messages: stream(messages),
            kind: match is_interactive {
                true => TerminalKind::Interactive,
                false => TerminalKind::Plain,
            },
            can_move,
        }
    }

    /// Creates an output of a terminal without colours.
    #[cfg(test)]
    pub(super) fn plain() -> Self {
        let stream = Stream {
            terminal: true,
            colour: false,
        };
        Self {
            format: OutputFormat::Text,
            data: stream,
            messages: stream,
            kind: TerminalKind::Plain,
            can_move: true,
        }
    }

    /// Creates an output of a terminal with colours.
    #[cfg(test)]
    pub(super) fn styled() -> Self {
        let stream = Stream {
            terminal: true,
            colour: true,
        };
        Self {
            data: stream,
            messages: stream,
            ..Self::plain()
        }
    }

    /// Returns true if a person reads and types at a terminal that can move its cursor.
    pub(super) fn is_interactive(&self) -> bool {
        self.kind == TerminalKind::Interactive && !self.json()
    }

    /// Returns true if data and messages both go to a terminal, for a person.
    pub(super) fn is_read_by_a_person(&self) -> bool {
        self.data.terminal && self.messages.terminal && !self.json()
    }

    /// Returns true if messages have colours.
    pub(super) fn has_colour(&self) -> bool {
        self.messages.colour
    }

    /// Returns this output with one JSON object for each event.
    pub(super) fn with_events(self) -> Self {
        Self {
            format: OutputFormat::Events,
            ..self
        }
    }

    /// Returns true if the user wants one JSON object for each event.
    pub(super) fn prints_events(&self) -> bool {
        self.format == OutputFormat::Events
    }

    /// Returns true if the user wants JSON.
    pub(super) fn json(&self) -> bool {
        self.format != OutputFormat::Text
    }

    /// Prints a message for the user to standard error.
    pub(super) fn message(&self, text: &str) {
        // If standard error cannot be written, there is no place to say so.
        let _ = write(std::io::stderr().lock(), self.messages, text);
    }

    /// Prints the answer to a line of the user that changed nothing, such as a refusal. A program that reads events gets it
    /// as an event.
    pub(super) fn reply(&self, text: &str) {
        match self.prints_events() {
            true => self.line(text),
            false => self.message(text),
        }
    }

    /// Prints a message in a style.
    pub(super) fn styled_message(&self, style: OutputStyle, text: &str) {
        self.message(&self.messages.paint(style, text));
    }

    /// Prints a dim message with a border at its left.
    pub(super) fn bordered(&self, text: &str) {
        let border = self.messages.paint(OutputStyle::Border, "│");
        let text = self.messages.paint(OutputStyle::Dim, &format!(" {text}"));
        self.message(&format!("{border}{text}"));
    }

    /// Prints a prompt for the user, without a line end.
    pub(super) fn prompt(&self, text: &str) {
        let mut stream = std::io::stderr().lock();
        let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.flush());
    }

    /// Prints data to standard output.
    pub(super) fn line(&self, text: &str) {
        match self.format {
            OutputFormat::Events => self.value(&serde_json::json!({ "event": "output", "text": text })),
            OutputFormat::Text | OutputFormat::Json => self.write_data(text),
        }
    }

    /// Prints bytes to standard output: unchanged to a file or another program, and as lines at a terminal.
    pub(super) fn bytes(&self, bytes: &[u8]) {
        if self.data.terminal {
            return self.write_data(String::from_utf8_lossy(bytes).trim_end_matches('\n'));
        }
        let mut stream = std::io::stdout().lock();
        Self::note_loss(stream.write_all(bytes).and_then(|()| stream.flush()));
    }

    fn write_data(&self, text: &str) {
        Self::note_loss(write(std::io::stdout().lock(), self.data, text));
    }

    /// Remembers that data was lost.
    fn note_loss(written: std::io::Result<()>) {
        match written {
            // A closed pipe is the reader's choice (`drydock user list | head -1`), not an error.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => READER_GONE.store(true, Ordering::Relaxed),
            Err(error) => {
                let _first = DATA_LOST.set(error.to_string());
            }
            Ok(()) => {}
        }
    }

    /// Prints data as one line of JSON.
    pub(super) fn value(&self, value: &serde_json::Value) {
        self.write_data(&value.to_string());
    }

    /// Prints rows as aligned columns.
    pub(super) fn table(&self, header: &[&str], rows: &[Vec<String>]) {
        let all = || {
            std::iter::once(header.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>()).chain(
                rows.iter().map(|row| {
                    row.iter()
                        .map(|cell| one_line(&cell.replace(['\n', '\t'], " ")))
                        .collect()
                }),
            )
        };
        let width = |column: usize| {
            all()
                .filter_map(|row| Some(row.get(column)?.chars().count()))
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..header.len()).map(width).collect();
        for row in all() {
            let cells = row
                .iter()
                .zip(&widths)
                .map(|(cell, width)| format!("{:<width$}", cell));
            self.line(cells.collect::<Vec<_>>().join("  ").trim_end());
        }
    }

    /// Returns true if data goes to a terminal that can show more than plain text.
    pub(super) fn renders_data(&self) -> bool {
        self.data.terminal && self.can_move
    }

    /// Returns data in a style if colours are enabled.
    pub(super) fn paint(&self, style: OutputStyle, text: &str) -> String {
        self.data.paint(style, text)
    }

    /// Returns data in several styles at once if colours are enabled.
    pub(super) fn paint_all(&self, styles: &[OutputStyle], text: &str) -> String {
        match styles {
            _ if !self.data.colour => text.to_owned(),
            [] => text.to_owned(),
            styles => {
                let codes: String = styles.iter().map(|style| style.code()).collect();
                format!("{codes}{text}{PLAIN}")
            }
        }
    }

    /// Returns data in a dim style if colours are enabled.
    pub(super) fn dim(&self, text: &str) -> String {
        self.data.paint(OutputStyle::Dim, text)
    }

    /// Returns data in bold if colours are enabled.
    pub(super) fn bold(&self, text: &str) -> String {
        self.data.paint(OutputStyle::Bold, text)
    }

    /// Returns an untrusted text. If it contains a diff and colours are enabled, the diff's lines are coloured.
    pub(super) fn answer(&self, text: &str) -> String {
        match holds_diff(text) {
            true => self.diff(text),
            false => text.to_owned(),
        }
    }

    /// Returns a text with the lines of its diff coloured if colours are enabled. Other lines stay as they are.
    pub(super) fn diff(&self, text: &str) -> String {
        let mut is_inside = false;
        let mut paint = |line: &str| {
            is_inside = begins_diff(line) || is_inside && continues_diff(line);
            match line.as_bytes().first() {
                _ if !is_inside => line.to_owned(),
                _ if line.starts_with("diff ") => self.data.paint(OutputStyle::Header, line),
                Some(b'+') => self.data.paint(OutputStyle::Added, line),
                Some(b'-') => self.data.paint(OutputStyle::Removed, line),
                Some(b'@') => self.data.paint(OutputStyle::Hunk, line),
                _ => line.to_owned(),
            }
        };
        text.lines().map(&mut paint).collect::<Vec<_>>().join("\n")
    }
}

/// Returns true if a text is or contains a diff.
fn holds_diff(text: &str) -> bool {
    text.starts_with("diff ") || text.starts_with("---") || text.contains("\n+++ ")
}

fn begins_diff(line: &str) -> bool {
    let begins = ["diff ", "--- ", "+++ ", "@@"];
    begins.iter().any(|begin| line.starts_with(begin))
}

/// Returns true if a line after a line of a diff belongs to it.
fn continues_diff(line: &str) -> bool {
    line.starts_with(['+', '-', ' ', '\\'])
}

impl Stream {
    fn paint(self, style: OutputStyle, text: &str) -> String {
        if self.colour {
            format!("{}{text}{PLAIN}", style.code())
        } else {
            text.to_owned()
        }
    }
}

fn write(mut to: impl Write, stream: Stream, text: &str) -> std::io::Result<()> {
    let text = match stream.terminal {
        true => visible(text),
        // A file or another program gets the bytes unchanged.
        false => Cow::Borrowed(text),
    };
    writeln!(to, "{text}").and_then(|()| to.flush())
}

/// Returns the text with terminal controls and invisible characters made visible. Drydock's own styles are kept.
pub(super) fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_terminal_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let ours = OutputStyle::ALL.iter().map(|style| style.code()).chain([PLAIN]);
        let code = ours.into_iter().find(|code| rest.starts_with(code));
        let (taken, kept) = match code {
            Some(code) => (code.len(), code),
            None => (first.len_utf8(), rest.get(..first.len_utf8()).unwrap_or_default()),
        };
        match (code, is_terminal_control(first)) {
            (None, true) => shown.push('\u{fffd}'),
            (Some(_), _) | (None, false) => shown.push_str(kept),
        }
        rest = rest.get(taken..).unwrap_or_default();
    }
    Cow::Owned(shown)
}

/// Returns true for a control character other than line end and tab, and for characters that reorder or hide text.
fn is_terminal_control(c: char) -> bool {
    is_invisible(c)
}

#[cfg(test)]
mod tests {
    use super::{Output, OutputStyle, PLAIN, Stream, visible};

    #[test]
    fn nothing_a_model_writes_steers_the_terminal() {
        for (text, shown) in [
            ("plain\n\ttext ä", "plain\n\ttext ä"),
            ("\x1b]0;title\x07", "\u{fffd}]0;title\u{fffd}"),
            ("\x1b[8mhidden", "\u{fffd}[8mhidden"),
            ("\x1b[2Jgone\r\x08", "\u{fffd}[2Jgone\u{fffd}\u{fffd}"),
            ("a\u{202e}b\u{9b}31m", "a\u{fffd}b\u{fffd}31m"),
            ("\x1b", "\u{fffd}"),
        ] {
            assert_eq!(visible(text), shown);
        }
    }

    /// TK-74
    #[test]
    fn the_lines_of_a_diff_are_coloured_and_nothing_around_it() {
        let output = |colour| match colour {
            true => Output::styled(),
            false => Output::plain(),
        };
        let diff = "diff --git a/a b/a\nindex 1..2 100644\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-old\n+new\n same";
        let coloured = "\x1b[1;34mdiff --git a/a b/a\x1b[0m\nindex 1..2 100644\n\x1b[31m--- a/a\x1b[0m\n\
                        \x1b[32m+++ b/a\x1b[0m\n\x1b[36m@@ -1 +1 @@\x1b[0m\n\x1b[31m-old\x1b[0m\n\x1b[32m+new\x1b[0m\n same";
        assert_eq!(output(true).answer(diff), coloured);
        assert_eq!(output(false).answer(diff), diff);
        let around = |diff: &str| format!("- one\n- two\n```diff\n{diff}\n```\n- three\n+ four");
        assert_eq!(output(true).answer(&around(diff)), around(coloured));
        let list = "- one\n- two\n+ three";
        assert_eq!(output(true).answer(list), list);
    }

    #[test]
    fn our_own_styles_are_kept_where_colours_are_wanted() {
        let coloured = Stream {
            terminal: true,
            colour: true,
        };
        let text = coloured.paint(OutputStyle::Added, "+ a\x1b[2J");
        assert_eq!(visible(&text), format!("\x1b[32m+ a\u{fffd}[2J{PLAIN}"));
        let plain = Stream {
            colour: false,
            ..coloured
        };
        assert_eq!(plain.paint(OutputStyle::Added, "+ a"), "+ a");
    }
}
