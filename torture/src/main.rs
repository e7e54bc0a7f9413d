//! `drydock-torture` breaks a running Drydock on purpose. It checks from outside that every acknowledged message is
//! answered once and that each effect happens once. It uses HTTP, signals and the command line. It also runs the Slack
//! and the model that the server connects to, so it knows the expected state. It uses the emulators and the HTTP client
//! of the crate. Its checks share no code with the server.

mod arguments;
mod check;
mod explain;
// Shared with the tests of the server.
#[path = "../../tests/it/support/git_server.rs"]
#[allow(dead_code, clippy::unwrap_used, clippy::expect_used)]
mod git_server;
mod hook;
mod long_run;
mod model;
mod program;
mod reserved_address;
mod slack_thread;
#[path = "../../tests/it/support/require.rs"]
#[allow(dead_code, clippy::expect_used)]
mod require;
mod scenario;
mod final_checks;
mod conversation;
mod tally;
mod task;
mod testbed;

use arguments::{Lane, TortureArguments};
use clap::Parser;
use scenario::{ALL, Scenario, ScenarioContext};
use std::process::ExitCode;
use std::time::Instant;
use tally::Tally;

fn main() -> ExitCode {
    let arguments = TortureArguments::parse();
    if arguments.list {
        for scenario in ALL {
            println!("{:<12} {:<10} {}", scenario.name, scenario.goals, scenario.what);
        }
        return ExitCode::SUCCESS;
    }
    let chosen = match chosen(&arguments) {
        Ok(chosen) => chosen,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("the runtime did not start: {error}");
            return ExitCode::from(2);
        }
    };
    let mut is_sound = true;
    for scenario in chosen {
        is_sound &= runtime.block_on(run(scenario, &arguments));
    }
    if is_sound {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn chosen(arguments: &TortureArguments) -> Result<Vec<&'static Scenario>, String> {
    if arguments.scenarios.is_empty() {
        let is_in = |scenario: &&Scenario| scenario.lane == Lane::Ci || arguments.lane == Lane::Full;
        return Ok(ALL.iter().filter(is_in).collect());
    }
    let find = |name: &String| {
        let known = ALL
            .iter()
            .map(|scenario| scenario.name)
            .collect::<Vec<_>>()
            .join(", ");
        let found = ALL.iter().find(|scenario| scenario.name == name);
        found.ok_or_else(|| format!("there is no scenario `{name}`; there are {known}"))
    };
    arguments.scenarios.iter().map(find).collect()
}

/// Runs one scenario and prints the result. Returns true if nothing was violated.
async fn run(scenario: &Scenario, arguments: &TortureArguments) -> bool {
    let began = Instant::now();
    let cx = ScenarioContext::new(scenario, arguments);
    let (tally, broken) = match scenario.run(&cx).await {
        Ok(tally) => (tally, None),
        Err(error) => (Tally::default(), Some(format!("{error:#}"))),
    };
    let seconds = began.elapsed().as_secs();
    let is_sound = tally.failures.is_empty() && broken.is_none();
    let verdict = match is_sound {
        true if tally.testbeds == 0 => "SKIP",
        true => "PASS",
        false => "FAIL",
    };
    if arguments.json {
        let failures: Vec<serde_json::Value> = tally.failures.iter().map(|failure| {
            serde_json::json!({"violations": failure.violations, "replay": failure.replay, "kept": failure.kept, "schedule": failure.schedule})
        }).collect();
        println!(
            "{}",
            serde_json::json!({"goals": scenario.goals, "scenario": scenario.name, "verdict": verdict, "seed": arguments.seed,
                "ends": tally.ends, "messages": tally.messages, "faults": tally.faults, "violations": tally.violations(),
                "slowest_start_ms": tally.slowest_start.as_millis(), "seconds": seconds, "measured": tally.measured, "skipped": tally.skipped,
                "failures": failures, "error": broken})
        );
        return is_sound;
    }
    println!(
        "{} {verdict} {} {}, {seconds} s",
        scenario.goals,
        scenario.name,
        tally.summary()
    );
    for skipped in &tally.skipped {
        println!("SKIPPED {}: {skipped}", scenario.name);
    }
    for failure in &tally.failures {
        println!("{}", failure.report());
    }
    if let Some(broken) = broken {
        println!("  it could not be run: {broken}");
    }
    is_sound
}
