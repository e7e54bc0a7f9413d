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
use std::time::Duration;

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
        let output = *output;
        let (lines, following) = (arguments.lines, arguments.following());
        let printing =
            tokio::task::spawn_blocking(move || print_journal(service.scope, lines, following, output));
        return printing.await.map_err(CliError::failed)?;
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
        _ => CliError::failed(error),
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

fn print_journal(
    scope: ServiceScope,
    lines: u32,
    following: LogFollowing,
    output: Output,
) -> Result<(), CliError> {
    let mut journal = start_journal(scope, lines, following)
        .map_err(|error| CliError::failed(format!("the journal of systemd cannot be read: {error}")))?;
    let mut stream = BufReader::new(
        journal
            .stdout
            .take()
            .ok_or_else(|| CliError::failed("no journal"))?,
    );
    let mut line = Vec::new();
    while !is_reader_gone() {
        line.clear();
        let read = (&mut stream).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        if read.map_err(CliError::failed)? == 0 {
            break;
        }
        print_line(String::from_utf8_lossy(&line).trim_end_matches('\n'), &output);
    }
    // It may still wait for lines that nobody reads.
    let _ended = journal.kill();
    journal.wait().map_err(CliError::failed)?;
    Ok(())
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

fn shown_fields(fields: &Map<String, Value>) -> Vec<String> {
    let shown = fields.iter().map(|(name, value)| match value {
        Value::String(text) => format!("{name}={text}"),
        value => format!("{name}={value}"),
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::{object_of, shown_line};
    use serde_json::json;

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
