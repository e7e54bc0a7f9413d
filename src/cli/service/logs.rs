//! `drydock logs`: the log of the service, from the journal of systemd or from the file of the supervisor.

use super::log_file::LogReader;
use super::processes::{LogFollowing, ServiceScope, start_journal};
use super::{data_directory, installed_service};
use crate::base::model::one_line;
use crate::base::system::ServiceManager;
use crate::cli::output::{Output, is_reader_gone};
use crate::cli::{CliError, Global};
use clap::Args;
use serde_json::{Map, Value, json};
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::Path;
use std::process::Child;
use std::time::Duration;
use tokio::sync::mpsc;

pub(in crate::cli) const LOGS_EXAMPLES: &str = "\
Examples:
  drydock logs --config drydock.toml
  drydock logs -f -n 200 --config drydock.toml
  drydock logs --json --config drydock.toml      one JSON object for each line

A server that was started with `drydock serve` prints its log to its own standard error, and has none here.";

/// The interval between two reads of a log that is followed.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(100);
/// Longest line of the journal in bytes. The rest is another line.
const LINE_BYTES_MAX: u64 = 128 << 10;
/// Lines of the journal that are read before they can be printed.
const LINES_AHEAD_MAX: usize = 64;

#[derive(Debug, Args)]
pub(in crate::cli) struct LogsArguments {
    /// Goes on with the lines that are written later
    #[arg(short, long)]
    follow: bool,
    /// The number of lines to begin with
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    lines: u32,
}

impl LogsArguments {
    fn following(&self) -> LogFollowing {
        match self.follow {
            true => LogFollowing::Follows,
            false => LogFollowing::Ends,
        }
    }
}

pub(in crate::cli) async fn logs(
    arguments: LogsArguments,
    global: &Global,
    output: &Output,
) -> Result<(), CliError> {
    let data = data_directory(global)?;
    let service = installed_service(&data)?.filter(|service| service.manager == ServiceManager::Systemd);
    if let Some(service) = service {
        return print_journal(service.scope, arguments.lines, arguments.following(), output).await;
    }
    print_file(&data, &arguments, output).await
}

async fn print_file(data: &Path, arguments: &LogsArguments, output: &Output) -> Result<(), CliError> {
    let lines = usize::try_from(arguments.lines).map_err(CliError::failed)?;
    let (mut reader, last) = LogReader::open(data, lines).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => CliError::failed(format!(
            "there is no log in {}: `drydock up` has not started a service there; a server that was started with \
             `drydock serve` prints its log to its own standard error",
            data.display()
        )),
        _ => CliError::of_data(data, &error),
    })?;
    last.iter().for_each(|line| print_line(line, output));
    while arguments.follow && !is_reader_gone() {
        tokio::time::sleep(FOLLOW_INTERVAL).await;
        reader
            .read_new(|line| print_line(&line, output))
            .map_err(CliError::failed)?;
    }
    Ok(())
}

/// The program that prints the journal. It is stopped with this value, because it may wait for lines that nobody reads.
struct JournalProgram(Child);

impl Drop for JournalProgram {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _ended = self.0.wait();
    }
}

async fn print_journal(
    scope: ServiceScope,
    lines: u32,
    following: LogFollowing,
    output: &Output,
) -> Result<(), CliError> {
    let failed = |why: String| CliError::failed(format!("the journal of systemd cannot be read: {why}"));
    let journal = start_journal(scope, lines, following).map_err(|error| failed(error.to_string()))?;
    let mut journal = JournalProgram(journal);
    let stream = journal.0.stdout.take();
    let stream = stream.ok_or_else(|| failed("it has no output".to_owned()))?;
    let (sender, mut read) = mpsc::channel(LINES_AHEAD_MAX);
    std::thread::spawn(move || read_lines(stream, &sender));
    let mut checks = tokio::time::interval(FOLLOW_INTERVAL);
    while !is_reader_gone() {
        tokio::select! {
            line = read.recv() => match line {
                Some(line) => print_line(&line.map_err(|error| failed(error.to_string()))?, output),
                None => {
                    let status = journal.0.wait().map_err(CliError::failed)?;
                    return match status.success() {
                        true => Ok(()),
                        false => Err(failed(format!(
                            "journalctl ended with {status}; if it has no permission, run this as root or as a member of \
                             the group systemd-journal"
                        ))),
                    };
                }
            },
            _ = checks.tick() => {}
        }
    }
    Ok(())
}

/// Sends the lines of a stream until it ends or nobody receives them.
fn read_lines(stream: impl Read, sender: &mpsc::Sender<std::io::Result<String>>) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        let read = (&mut stream).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        let line = match read {
            Ok(0) => return,
            Ok(_) => Ok(String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned()),
            Err(error) => Err(error),
        };
        if sender.blocking_send(line).is_err() {
            return;
        }
    }
}

fn print_line(line: &str, output: &Output) {
    match output.json() {
        true => output.value(&object_of(line)),
        false => output.line(&shown_line(line)),
    }
}

/// Returns a log line as an object. A line of another program is the message of one.
fn object_of(line: &str) -> Value {
    match serde_json::from_str(line) {
        Ok(Value::Object(object)) => Value::Object(object),
        _ => json!({ "message": line }),
    }
}

/// Returns a log line for people: time, level, message and the other fields.
pub(super) fn shown_line(line: &str) -> String {
    let Ok(Value::Object(mut fields)) = serde_json::from_str::<Value>(line) else {
        return one_line(line);
    };
    let mut parts = Vec::new();
    for name in ["timestamp", "level", "message"] {
        let text = fields
            .remove(name)
            .and_then(|value| value.as_str().map(str::to_owned));
        parts.extend(text.map(|text| match name {
            "level" => format!("{text:<5}"),
            _ => text,
        }));
    }
    for hidden in ["target", "span", "spans"] {
        fields.remove(hidden);
    }
    parts.extend(shown_fields(&fields));
    one_line(&parts.join(" "))
}

/// Returns a message with the last lines of a log, if there are any.
pub(super) fn with_last_lines(message: &str, lines: &[String]) -> String {
    let shown = lines.iter().map(|line| format!("\n  {}", shown_line(line)));
    match lines.is_empty() {
        true => message.to_owned(),
        false => format!(
            "{message}. The last lines of the log:{}",
            shown.collect::<String>()
        ),
    }
}

fn shown_fields(fields: &Map<String, Value>) -> Vec<String> {
    let shown = fields.iter().map(|(name, value)| match value {
        Value::String(text) => format!("{name}={text}"),
        value => format!("{name}={value}"),
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::{object_of, read_lines, shown_line, with_last_lines};
    use serde_json::json;
    use tokio::sync::mpsc;

    /// STK-15
    #[test]
    fn the_lines_of_the_journal_are_read_until_it_ends_or_nobody_receives_them() {
        let (sender, mut lines) = mpsc::channel(4);
        read_lines(&b"one\n\nthree"[..], &sender);
        drop(sender);
        let mut read = Vec::new();
        while let Some(line) = lines.blocking_recv() {
            read.extend(line);
        }
        assert_eq!(read, ["one", "", "three"]);
        let (sender, lines) = mpsc::channel(1);
        drop(lines);
        read_lines(std::io::repeat(b'\n'), &sender);
    }

    #[test]
    fn a_failure_without_a_log_names_none() {
        assert_eq!(with_last_lines("no", &[]), "no");
        let lines = ["one".to_owned(), "two".to_owned()];
        assert_eq!(
            with_last_lines("no", &lines),
            "no. The last lines of the log:\n  one\n  two"
        );
    }

    /// STK-15
    #[test]
    fn a_log_line_is_shown_as_one_line_of_text() {
        let line = r#"{"timestamp":"2026-01-02T03:04:05Z","level":"WARN","message":"slow\nforged","ms":7,"target":"a::b","who":"x"}"#;
        assert_eq!(
            shown_line(line),
            format!(
                "2026-01-02T03:04:05Z WARN  {} ms=7 who=x",
                crate::base::model::one_line("slow\nforged")
            )
        );
        assert_eq!(shown_line("no object"), "no object");
        assert_eq!(object_of("no object"), json!({ "message": "no object" }));
        assert_eq!(object_of("7"), json!({ "message": "7" }));
        assert_eq!(object_of(r#"{"message":"a"}"#), json!({ "message": "a" }));
    }
}
