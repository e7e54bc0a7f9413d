//! `drydock demo`: runs the demo script and then reads a visitor's requests.

mod pulled_change;

use super::input::{InputLine as Typed, InputReader};
use super::output::Output;
use super::serve::host;
use super::{CliError, sandbox_layers, tool_commands};
use crate::base::config::{ConfigSources, SandboxSettings};
use crate::simulation::demo::demo_script::ScriptedDemo;
use crate::simulation::demo::environment::DemoEnvironment;
use crate::simulation::demo::transcript::{Transcript, TranscriptLine};
use crate::simulation::demo::visitor;
use std::io::IsTerminal;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// The maximum number of bytes of a visitor's request.
const REQUEST_BYTES_MAX: usize = 16_000;

#[derive(Debug, clap::Args)]
pub(super) struct DemoArguments {
    /// Runs the script and ends: exit code 0 if every line passed, 1 if not
    #[arg(long)]
    headless: bool,
    /// Delay of each model answer in milliseconds; 0 with --headless, 300 without
    #[arg(long, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u64).range(0..=5_000))]
    pace: Option<u64>,
    /// Layers of the sandbox that this system may lack, such as `landlock`
    #[arg(long, value_name = "LAYERS", env = MAY_LACK)]
    layers_missing: Option<String>,
}

/// The environment variable with the same effect for every command.
const MAY_LACK: &str = "DRYDOCK_SANDBOX__LAYERS_MISSING";

/// Returns the layers that may be missing on this system, in the notation of the configuration.
fn may_lack(arguments: &DemoArguments) -> Result<Vec<String>, CliError> {
    let sources = ConfigSources {
        flags: Vec::from_iter(
            arguments
                .layers_missing
                .clone()
                .map(|layers| ("sandbox.layers_missing".to_owned(), layers)),
        ),
        ..ConfigSources::default()
    };
    let settings = SandboxSettings::read(&sources).map_err(CliError::config)?;
    Ok(settings.layers_missing)
}

pub(super) async fn run(arguments: DemoArguments, output: &Output) -> Result<(), CliError> {
    let may_lack = may_lack(&arguments)?;
    let status = sandbox_layers::check_layers(sandbox_layers::find_layers(), &may_lack)?;
    let interactive = !arguments.headless && !output.json() && std::io::stdin().is_terminal();
    let pace = Duration::from_millis(arguments.pace.unwrap_or(if interactive { 300 } else { 0 }));
    let started = Instant::now();
    if let Some(note) = sandbox_layers::absent_layers_note(&status) {
        output.message(&note);
    }
    if !output.json() {
        output.message("Building a Tanka repository, Slack, Telegram, Discord and a model on loopback ...");
    }
    // The signal handlers are installed before there is anything to clean up.
    let mut interrupts = signal(SignalKind::interrupt()).map_err(CliError::failed)?;
    let mut terminations = signal(SignalKind::terminate()).map_err(CliError::failed)?;
    let mut hang_ups = signal(SignalKind::hangup()).map_err(CliError::failed)?;
    let stop = async move {
        tokio::select! {
            _ = interrupts.recv() => {}
            _ = terminations.recv() => {}
            // The terminal was closed.
            _ = hang_ups.recv() => {}
        }
    };
    tokio::pin!(stop);
    let interrupted = || CliError::failed("interrupted");
    let listed = may_lack.join(",");
    let settings = [("sandbox.layers_missing", listed.as_str())];
    let mut demo = tokio::select! {
        built = Box::pin(ScriptedDemo::build(pace, host(), &settings)) => built.map_err(CliError::failed)?,
        () = &mut stop => return Err(interrupted()),
    };
    if !output.json() {
        let directory = demo.environment.directory().display();
        output.message(&format!(
            "All files are in {directory} and are removed when the demo ends. The gateway is at {}.",
            demo.environment.url()
        ));
    }
    let result = tokio::select! {
        result = play(&demo, output, started) => result,
        () = &mut stop => Err(interrupted()),
    };
    let mut talked = Ok(());
    if interactive && result.is_ok() {
        talked = tokio::select! {
            talked = run_visitor(&demo.environment, output) => talked,
            // Ctrl-C ends the demo as Ctrl-D does.
            () = &mut stop => {
                output.message("");
                Ok(())
            }
        };
    }
    demo.stop().await;
    result.and(talked)
}

async fn play(demo: &ScriptedDemo, output: &Output, started: Instant) -> Result<(), CliError> {
    let mut scene = "";
    let mut show = |line: &TranscriptLine| {
        if output.json() {
            output.value(&serde_json::to_value(line).unwrap_or_default());
            return;
        }
        if line.scene != scene {
            output.line(&format!("\n{}", output.bold(line.scene)));
            scene = line.scene;
        }
        output.line(&format_line(line, output));
    };
    let mut transcript = Transcript::new(&mut show);
    let played = Box::pin(play_scenes(demo, &mut transcript)).await;
    if let Err(error) = &played {
        transcript.expect("demo", &format!("the script stopped: {error:#}"), false);
    }
    let (passed, lines) = (transcript.passed(), transcript.len());
    let seconds = started.elapsed().as_secs_f64();
    if output.json() {
        output.value(&serde_json::json!({ "passed": passed, "lines": lines, "seconds": seconds }));
    } else {
        let word = if passed { "all passed" } else { "NOT all passed" };
        output.line(&format!("\n{lines} lines, {word}, {seconds:.1} s."));
        output.line("Next: `drydock check --config drydock.toml`, with config/drydock.toml as the reference of every key.");
    }
    if passed {
        Ok(())
    } else {
        Err(CliError::failed(
            "a line of the demo failed; see the lines with ✗",
        ))
    }
}

/// Plays the script, and the scene of the commands on a person's machine.
async fn play_scenes(demo: &ScriptedDemo, transcript: &mut Transcript<'_>) -> anyhow::Result<()> {
    Box::pin(demo.play(transcript)).await?;
    Box::pin(pulled_change::play(&demo.environment, transcript)).await?;
    demo.conclude(transcript);
    Ok(())
}

fn format_line(line: &TranscriptLine, output: &Output) -> String {
    let sign = if line.ok { " " } else { "✗" };
    let head = format!("{sign} {:<26} {:<9}", line.place, line.who);
    let mut lines = line.text.lines();
    let mut text = format!("{} {}", output.dim(&head), lines.next().unwrap_or_default());
    for rest in lines {
        text.push_str(&format!("\n{:39}{rest}", ""));
    }
    text
}

async fn run_visitor(environment: &DemoEnvironment, output: &Output) -> Result<(), CliError> {
    output.line(&format!("\n{}", visitor::greeting()));
    output.line("`help` lists the tools you have in the terminal.");
    let mut input = InputReader::standard(REQUEST_BYTES_MAX);
    let mut thread: Option<String> = None;
    loop {
        output.prompt("alice ❯ ");
        let line = match input.next().await.map_err(CliError::failed)? {
            Typed::Text(line) if line.trim() == "help" => {
                output.line(&tool_commands::command_list());
                continue;
            }
            Typed::Text(line) if !line.trim().is_empty() => line,
            Typed::TooLong => {
                output.line("That was too long for the demo.");
                continue;
            }
            Typed::NotText => {
                output.line("That was not UTF-8; set the terminal to UTF-8.");
                continue;
            }
            Typed::Text(_) => return Ok(()),
            Typed::End => {
                output.message("");
                return Ok(());
            }
        };
        let (at, answer) = visitor::ask(environment, thread.as_deref(), line.trim())
            .await
            .map_err(CliError::failed)?;
        thread = Some(at);
        output.line(&answer);
    }
}
