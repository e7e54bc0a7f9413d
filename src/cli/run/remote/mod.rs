//! `drydock run --server`: starts a pipeline on a server with the requests of its HTTP API, shows the run while it goes on, and
//! ends like a run at a terminal. The server decides who may do so. A lost answer is asked for again under the same key.

mod client;
mod document;
mod events;
mod following;
mod progress;
mod refusal;
mod token;

use crate::base::model::RunStatus;
use crate::cli::login::server_url;
use crate::cli::output::Output;
use crate::cli::serve::random;
use crate::cli::terminal::CommonTerminalOptions;
use crate::cli::{CliError, Global};
use clap::Args;
use client::{RunOrderToServer, RunServer};
use document::RemoteRun;
use following::FollowedRun;
use progress::RunProgress;
use std::collections::BTreeSet;
use std::path::PathBuf;
use token::RequestToken;
use tokio::signal::unix::{SignalKind, signal};

/// The most characters of a key.
const KEY_CHARS_MAX: usize = 255;
/// The characters of a key that this program makes.
const OWN_KEY_CHARS: usize = 24;

/// The options of a run on a server.
#[derive(Debug, Args)]
pub(super) struct RemoteOptions {
    /// Runs the pipeline on the server at this address, as it is defined on its trusted branch
    #[arg(long, value_name = "URL")]
    pub(super) server: Option<String>,
    /// The repository on the server; by default the only one that you may read there
    #[arg(long, value_name = "NAME", requires = "server")]
    repository: Option<String>,
    /// A file with the token, which only you can read; without it, DRYDOCK_TOKEN or the login of this machine
    #[arg(long, value_name = "FILE", requires = "server")]
    token_file: Option<PathBuf>,
    /// The name of this request: with the same one, the run that it has started is shown, and nothing starts again
    #[arg(long, value_name = "KEY", requires = "server", value_parser = key)]
    key: Option<String>,
    /// Ends as soon as the run has started
    #[arg(long, requires = "server")]
    detach: bool,
}

/// Runs a pipeline on the server at an address.
pub(super) async fn run(
    server: &str,
    (name, params): (&str, &[(String, String)]),
    (options, local): (&RemoteOptions, &CommonTerminalOptions),
    global: &Global,
    output: &Output,
) -> Result<(), CliError> {
    refuse_local_options(local, global)?;
    check_params(params)?;
    let url = server_url(server)?;
    let token = RequestToken::find(options.token_file.as_deref(), &url)?;
    let own_key = || {
        hex::encode(random())
            .chars()
            .take(OWN_KEY_CHARS)
            .collect::<String>()
    };
    let order = RunOrderToServer {
        pipeline: name,
        repository: options.repository.as_deref(),
        params,
        key: options.key.clone().unwrap_or_else(own_key),
    };
    let server = RunServer::new(&url, &token)?;
    let mut interrupts = signal(SignalKind::interrupt()).map_err(CliError::failed)?;
    let started = tokio::select! {
        biased;
        started = Box::pin(following::start(&server, &order, output)) => started?,
        _ = interrupts.recv() => return Err(CliError::failed(format!(
            "it is not known whether the run has started; {}", order.repetition()
        ))),
    };
    if options.detach {
        show_detached(&started.run, &order, output);
        return Ok(());
    }
    let id = started.run.facts.id;
    output.message(&started.line());
    let mut followed = FollowedRun {
        server: &server,
        order: &order,
        progress: RunProgress::new(output),
        output,
    };
    let ended = tokio::select! {
        biased;
        ended = Box::pin(followed.follow(started.run)) => ended?,
        _ = interrupts.recv() => return Err(CliError::failed(format!(
            "run {id} goes on at {url}; `drydock runs cancel {id}` on that server cancels it, and so does `!runs cancel \
             {id}` in a chat; {}", order.repetition()
        ))),
    };
    progress::print_end(&ended, output);
    match ended.facts.status {
        RunStatus::Succeeded => Ok(()),
        _ => Err(CliError::failed(ended.facts.failure())),
    }
}

/// Refuses the options of a run on the files of this machine.
fn refuse_local_options(local: &CommonTerminalOptions, global: &Global) -> Result<(), CliError> {
    global.refuse_configuration("with --server, the run has the configuration of the server")?;
    let Some(option) = local.first_given() else {
        return Ok(());
    };
    let why = match option {
        "--record" => {
            "the files about its steps are on that server, and `drydock runs show NUMBER --trace` there names them"
        }
        "--profile" => "its models and tools are those of the definition and of the server",
        _ => "its steps do not run in this terminal",
    };
    Err(CliError::usage(format!(
        "{option}: with --server, {why}; leave {option} out"
    )))
}

/// Refuses a parameter that is given twice, because a request has one value for each.
fn check_params(params: &[(String, String)]) -> Result<(), CliError> {
    let mut names = BTreeSet::new();
    for (name, _) in params {
        if !names.insert(name) {
            return Err(CliError::usage(format!(
                "--param: {name} is given twice; keep one of them"
            )));
        }
    }
    Ok(())
}

fn show_detached(run: &RemoteRun, order: &RunOrderToServer<'_>, output: &Output) {
    if output.json() {
        return output.value(&run.document);
    }
    output.line(&format!("run {} {}", run.facts.id, run.facts.status.phrase()));
    output.message(&format!("Its steps are not shown here; {}", order.repetition()));
}

/// Parses the key of a request.
fn key(text: &str) -> Result<String, String> {
    let is_key =
        (1..=KEY_CHARS_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    match is_key {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "a key has 1 to {KEY_CHARS_MAX} visible ASCII characters and no space"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::{check_params, key};

    #[test]
    fn a_key_is_what_a_server_takes_for_one() {
        for good in ["one", "build/7", &"k".repeat(255)] {
            assert_eq!(key(good), Ok(good.to_owned()));
        }
        for wrong in ["", "two words", "größe", &"k".repeat(256)] {
            assert!(key(wrong).is_err_and(|why| why.contains("1 to 255")), "{wrong}");
        }
    }

    #[test]
    fn a_parameter_has_one_value() {
        let given = |names: &[&str]| -> Vec<(String, String)> {
            names
                .iter()
                .map(|name| ((*name).to_owned(), "1".to_owned()))
                .collect()
        };
        assert!(check_params(&given(&["one", "two"])).is_ok());
        let twice = check_params(&given(&["one", "two", "one"]));
        assert!(twice.is_err_and(|error| error.code == 2 && error.message.contains("one is given twice")));
    }
}
