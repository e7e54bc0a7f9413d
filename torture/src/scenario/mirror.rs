//! A mirror of a remote with many pushes.

use super::ScenarioContext;
use super::directed::DirectedTestbed;
use crate::require::component;
use crate::tally::Tally;
use crate::testbed::{Testbed, TestbedOptions};
use anyhow::Context;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The greatest age of a mirror in this scenario, plus a margin.
const FETCHED_AGAIN: Duration = Duration::from_millis(1_050);

/// R29: each message begins on the newest commit, however often a new one was pushed.
pub(super) async fn run(cx: &ScenarioContext<'_>) -> anyhow::Result<Tally> {
    // Only a test build mirrors a remote on this machine.
    let Some(points) = cx.points() else {
        return Ok(cx.needs_points());
    };
    if component("git").is_none() {
        return Ok(cx.skip("needs git: apt-get install git"));
    }
    let plan = TestbedOptions {
        is_remote: true,
        limits: "mirror_age_seconds_max = 1",
        ..cx.plan(points)
    };
    let mut directed = DirectedTestbed::new(Testbed::start_with_people(plan).await?);
    let remote = directed.testbed.directory().join("infra.git");
    for _ in 0..cx.lane().either(40, 150) {
        let newest = push(&remote)?;
        tokio::time::sleep(FETCHED_AGAIN).await;
        let mut talk = directed.start_conversation();
        talk.ask(talk.task(1)).await;
        talk.check_final_patch().await;
        let against = format!("against {}", newest.get(..7).unwrap_or(&newest));
        if !talk.read().answers.iter().any(|answer| answer.contains(&against)) {
            talk.report_violation(&format!("its change is not {against}, the newest commit"));
        }
        directed.talks.push(talk);
        if !directed.testbed.violations().is_empty() {
            break;
        }
    }
    Ok(directed.close(cx).await)
}

/// Adds one more commit to `main`.
fn push(remote: &Path) -> anyhow::Result<String> {
    let commit = git(
        remote,
        &["commit-tree", "main^{tree}", "-p", "main", "-m", "one more"],
    )?;
    git(remote, &["update-ref", "refs/heads/main", &commit])?;
    Ok(commit)
}

fn git(remote: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new("git");
    command.arg("-C").arg(remote);
    command.args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]);
    let output = command.args(arguments).output()?;
    if !output.status.success() {
        anyhow::bail!("git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8(output.stdout).context("git wrote something else than text")?;
    Ok(text.trim().to_owned())
}
