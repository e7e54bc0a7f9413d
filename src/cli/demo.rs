//! `drydock demo`: plays the story, then lets a visitor type.

use super::input::{Input, Line as Typed};
use super::output::Output;
use super::serve::world;
use super::{Failure, belt, layers};
use crate::config::{SandboxSettings, Sources};
use crate::demo::stage::Stage;
use crate::demo::transcript::{Line, Transcript};
use crate::demo::{script, story, visitor};
use std::io::IsTerminal;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// Bytes of a request a visitor types.
const REQUEST_BYTES_MAX: usize = 16_000;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Plays the story and ends: exit code 0 if every line of it held, 1 if not
    #[arg(long)]
    headless: bool,
    /// Time the model pretends to think, in milliseconds; 0 with --headless, 300 without
    #[arg(long, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u64).range(0..=5_000))]
    pace: Option<u64>,
    /// Layers of the jail that this system may lack, such as `landlock`
    #[arg(long, value_name = "LAYERS", env = MAY_LACK)]
    layers_missing: Option<String>,
}

/// The variable that says the same to every command.
const MAY_LACK: &str = "DRYDOCK_SANDBOX__LAYERS_MISSING";

/// The layers this system may lack, as they are written in a configuration.
fn may_lack(arguments: &Arguments) -> Result<Vec<String>, Failure> {
    let sources = Sources {
        flags: Vec::from_iter(
            arguments
                .layers_missing
                .clone()
                .map(|layers| ("sandbox.layers_missing".to_owned(), layers)),
        ),
        ..Sources::default()
    };
    let settings = SandboxSettings::read(&sources).map_err(Failure::config)?;
    Ok(settings.layers_missing)
}

pub(super) async fn run(arguments: Arguments, output: &Output) -> Result<(), Failure> {
    let may_lack = may_lack(&arguments)?;
    let standing = layers::required(&may_lack)?;
    let interactive = !arguments.headless && !output.json() && std::io::stdin().is_terminal();
    let pace = Duration::from_millis(arguments.pace.unwrap_or(if interactive { 300 } else { 0 }));
    let started = Instant::now();
    if let Some(told) = layers::told(&standing) {
        output.message(&told);
    }
    if !output.json() {
        output.message("Building a Tanka repository, Slack, Telegram and a model on loopback ...");
    }
    let script = move |asked: &_| script::answer(asked, pace);
    // Listening begins before there is anything to clean up.
    let mut interrupts = signal(SignalKind::interrupt()).map_err(Failure::failed)?;
    let mut terminations = signal(SignalKind::terminate()).map_err(Failure::failed)?;
    let mut hang_ups = signal(SignalKind::hangup()).map_err(Failure::failed)?;
    let stop = async move {
        tokio::select! {
            _ = interrupts.recv() => {}
            _ = terminations.recv() => {}
            // The terminal was closed.
            _ = hang_ups.recv() => {}
        }
    };
    tokio::pin!(stop);
    let interrupted = || Failure::failed("interrupted");
    let listed = may_lack.join(",");
    let settings = [("sandbox.layers_missing", listed.as_str())];
    let mut stage = tokio::select! {
        built = Stage::build(script, world(), &settings) => built.map_err(Failure::failed)?,
        () = &mut stop => return Err(interrupted()),
    };
    if !output.json() {
        let directory = stage.directory().display();
        output.message(&format!(
            "Everything lies in {directory} and goes when the demo ends. The gateway is at {}.",
            stage.url()
        ));
    }
    let result = tokio::select! {
        result = play(&stage, output, started) => result,
        () = &mut stop => Err(interrupted()),
    };
    let mut talked = Ok(());
    if interactive && result.is_ok() {
        talked = tokio::select! {
            talked = talk(&stage, output) => talked,
            // Leaving with Ctrl-C is as good as with Ctrl-D.
            () = &mut stop => {
                output.message("");
                Ok(())
            }
        };
    }
    stage.stop().await;
    result.and(talked)
}

async fn play(stage: &Stage, output: &Output, started: Instant) -> Result<(), Failure> {
    let mut scene = "";
    let mut show = |line: &Line| {
        if output.json() {
            output.value(&serde_json::to_value(line).unwrap_or_default());
            return;
        }
        if line.scene != scene {
            output.line(&format!("\n{}", output.bold(line.scene)));
            scene = line.scene;
        }
        output.line(&told(line, output));
    };
    let mut transcript = Transcript::new(&mut show);
    let played = story::play(stage, &mut transcript).await;
    if let Err(error) = &played {
        transcript.fact("demo", &format!("the story broke off: {error:#}"), false);
    }
    let (passed, lines) = (transcript.passed(), transcript.len());
    let seconds = started.elapsed().as_secs_f64();
    if output.json() {
        output.value(&serde_json::json!({ "passed": passed, "lines": lines, "seconds": seconds }));
    } else {
        let word = if passed { "all held" } else { "NOT all held" };
        output.line(&format!("\n{lines} lines, {word}, {seconds:.1} s."));
        output.line("Next: `drydock check --config drydock.toml`, with config/drydock.toml as the reference of every key.");
    }
    if passed {
        Ok(())
    } else {
        Err(Failure::failed("the demo did not play as it should"))
    }
}

fn told(line: &Line, output: &Output) -> String {
    let sign = if line.ok { " " } else { "✗" };
    let head = format!("{sign} {:<26} {:<9}", line.place, line.who);
    let mut lines = line.text.lines();
    let mut text = format!("{} {}", output.dim(&head), lines.next().unwrap_or_default());
    for rest in lines {
        text.push_str(&format!("\n{:39}{rest}", ""));
    }
    text
}

async fn talk(stage: &Stage, output: &Output) -> Result<(), Failure> {
    output.line(&format!("\n{}", visitor::greeting()));
    output.line("`help` lists the tools you have in the terminal.");
    let mut input = Input::standard(REQUEST_BYTES_MAX);
    let mut thread: Option<String> = None;
    loop {
        output.prompt("alice ❯ ");
        let line = match input.next().await.map_err(Failure::failed)? {
            Typed::Text(line) if line.trim() == "help" => {
                output.line(&belt::listed());
                continue;
            }
            Typed::Text(line) if !line.trim().is_empty() => line,
            Typed::TooLong => {
                output.line("That was too long for the demo.");
                continue;
            }
            Typed::NotText => {
                output.line("That was not UTF-8; set the terminal to it.");
                continue;
            }
            Typed::Text(_) => return Ok(()),
            Typed::End => {
                output.message("");
                return Ok(());
            }
        };
        let (at, answer) = visitor::ask(stage, thread.as_deref(), line.trim())
            .await
            .map_err(Failure::failed)?;
        thread = Some(at);
        output.line(&answer);
    }
}
