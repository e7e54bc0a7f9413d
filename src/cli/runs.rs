//! `drydock runs`: lists and shows the runs of pipelines of a server, cancels and repeats them, and answers their questions.

use super::admin_client::{AdminClient, answer_to_show};
use super::output::Output;
use super::{CliError, Global};
use crate::base::model::{RunId, RunStatus, group_thousands};
use crate::engine::admin::{AdminReply, AdminRequest, RunOrder};
use crate::state::recording::run_directory;
use crate::state::store::{RunHead, StepRow};
use clap::Subcommand;
use jiff::{SignedDuration, Timestamp};

pub(super) const EXAMPLES: &str = "\
Examples:
  drydock runs list --status failed
  drydock runs list --repository infra --json
  drydock runs show 7                           the steps, their times, verdicts and changes
  drydock runs show 7 --json                    with the outputs of the steps
  drydock runs show 7 --trace                   and the directory with the files about its steps
  drydock runs cancel 7
  drydock runs retry 7
  drydock runs answer 7 yes                     in the place of those who are asked

A retry is a new run with the same plan and the same inputs. It begins with the first step that
did not succeed.

The directory of --trace has run.json, once the run has ended, and one directory for each step
with trace.json, result.txt, status, and the result of each call of a tool in calls/, without
secrets.";

#[derive(Debug, Subcommand)]
pub(super) enum RunsCommand {
    /// Lists runs, the newest first
    List {
        /// Only those of this repository
        #[arg(long, value_name = "NAME")]
        repository: Option<String>,
        /// Only those in this state: `queued`, `running`, `succeeded`, `failed`, `cancelled` or `skipped`
        #[arg(long, value_parser = status)]
        status: Option<RunStatus>,
    },
    /// Shows a run with its steps
    Show {
        /// The number of the run
        #[arg(value_parser = number)]
        id: i64,
        /// Also prints the directory with the files about its steps
        #[arg(long)]
        trace: bool,
    },
    /// Cancels a run that has not ended, and stops its work
    Cancel {
        /// The number of the run
        #[arg(value_parser = number)]
        id: i64,
    },
    /// Repeats a run that did not succeed
    Retry {
        /// The number of the run
        #[arg(value_parser = number)]
        id: i64,
    },
    /// Answers the question of a run
    Answer {
        /// The number of the run
        #[arg(value_parser = number)]
        id: i64,
        /// One of the choices, or its number
        choice: String,
        /// The step that asks; needed only if several do
        #[arg(long, value_name = "NAME")]
        step: Option<String>,
    },
}

pub(super) async fn run(command: RunsCommand, global: &Global, output: &Output) -> Result<(), CliError> {
    if let RunsCommand::Show { id, trace: true } = command {
        return show_with_trace(RunId(id), global, output).await;
    }
    let of = |id, order| AdminRequest::Run { id: RunId(id), order };
    let request = match command {
        RunsCommand::List { repository, status } => AdminRequest::Runs { repository, status },
        RunsCommand::Show { id, .. } => of(id, RunOrder::Show),
        RunsCommand::Cancel { id } => of(id, RunOrder::Cancel),
        RunsCommand::Retry { id } => of(id, RunOrder::Retry),
        RunsCommand::Answer { id, choice, step } => of(id, RunOrder::Answer { step, choice }),
    };
    let Some(answer) = answer_to_show(request, global, output).await? else {
        return Ok(());
    };
    match answer {
        AdminReply::Runs { runs, .. } if runs.is_empty() => output.message("No run matches."),
        AdminReply::Runs { runs, has_more } => {
            let rows: Vec<Vec<String>> = runs.iter().map(cells).collect();
            let header = [
                "ID",
                "PIPELINE",
                "REPOSITORY",
                "OWNER",
                "TRIGGER",
                "STATUS",
                "REQUESTED",
                "TIME",
            ];
            output.table(&header, &rows);
            if has_more {
                output.message("There are older ones; --repository and --status leave out others.");
            }
        }
        AdminReply::Run {
            run, commit, steps, ..
        } => show(&run, &commit, &steps, output),
        AdminReply::RunChanged { run, done } => output.line(&format!("run {run} is {done}")),
        _ => {}
    }
    Ok(())
}

/// Parses the number of a run.
fn number(text: &str) -> Result<i64, String> {
    let number: Option<i64> = text.parse().ok();
    let known = number.filter(|number| *number > 0);
    known.ok_or_else(|| "expected the number of a run, such as 7; `drydock runs list` shows all".to_owned())
}

/// Shows a run, and the directory with the files about its steps.
async fn show_with_trace(id: RunId, global: &Global, output: &Output) -> Result<(), CliError> {
    let mut client = AdminClient::new(global)?;
    let request = AdminRequest::Run {
        id,
        order: RunOrder::Show,
    };
    let answer = client.send(request).await?;
    let directory = run_directory(client.data(), id);
    let directory = directory.is_dir().then(|| directory.display().to_string());
    if output.json() {
        let mut value = serde_json::to_value(&answer).map_err(CliError::failed)?;
        value["trace"] = directory.into();
        output.value(&value);
        return Ok(());
    }
    if let AdminReply::Run {
        run, commit, steps, ..
    } = &answer
    {
        show(run, commit, steps, output);
    }
    match directory {
        Some(directory) => output.line(&format!("the files about its steps are in {directory}")),
        None => output.message("There are no files about its steps: none has ended, they are not written yet, or they were removed."),
    }
    Ok(())
}

fn cells(run: &RunHead) -> Vec<String> {
    vec![
        run.id.to_string(),
        run.pipeline.clone(),
        run.repository.clone(),
        owner(run),
        run.trigger.clone(),
        run.status.word().to_owned(),
        format!("{:.0}", run.created_at),
        lasted(run.started_at, run.ended_at),
    ]
}

fn show(run: &RunHead, commit: &str, steps: &[StepRow], output: &Output) {
    let why = run
        .why
        .as_ref()
        .map_or_else(String::new, |why| format!(": {why}"));
    let repeats = run
        .retry_of
        .map_or_else(String::new, |id| format!(", repeats run {id}"));
    output.line(&format!("run {} {}{why}", run.id, run.status.phrase()));
    output.line(&format!(
        "{} of {} at commit {}, started by {} for {} at {:.0}{repeats}",
        run.pipeline,
        run.repository,
        commit.chars().take(12).collect::<String>(),
        run.trigger,
        owner(run),
        run.created_at
    ));
    let rows: Vec<Vec<String>> = steps.iter().map(step_cells).collect();
    let header = [
        "STEP", "KIND", "STATUS", "VERDICT", "CHANGE", "BEGAN", "TIME", "TOKENS", "WHY",
    ];
    output.table(&header, &rows);
}

fn step_cells(step: &StepRow) -> Vec<String> {
    let none = || "-".to_owned();
    let end = step.end.as_ref();
    let verdict = end.and_then(|end| {
        let (verdict, source) = end.verdict.zip(end.verdict_source)?;
        Some(format!("{} ({})", word(&verdict), word(&source)))
    });
    let tokens = end.map(|end| end.spent.tokens).filter(|tokens| *tokens > 0);
    vec![
        step.name.clone(),
        step.kind.clone(),
        step.status.word().to_owned(),
        verdict.unwrap_or_else(none),
        step.change.map_or_else(none, |number| format!("CHG-{number}")),
        step.started_at.map_or_else(none, |at| format!("{at:.0}")),
        lasted(step.started_at, step.ended_at),
        tokens.map_or_else(none, group_thousands),
        end.and_then(|end| end.why.clone()).unwrap_or_else(none),
    ]
}

fn owner(run: &RunHead) -> String {
    run.owner_name.clone().unwrap_or_else(|| run.owner.to_string())
}

/// Returns the time between two times, such as `2m 5s`.
fn lasted(began: Option<Timestamp>, ended: Option<Timestamp>) -> String {
    match began.zip(ended) {
        Some((began, ended)) => {
            let seconds = ended.duration_since(began).as_secs();
            format!("{:#}", SignedDuration::from_secs(seconds))
        }
        None => "-".to_owned(),
    }
}

/// Returns the word of a plain enum, as in JSON.
fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// Parses a state.
fn status(text: &str) -> Result<RunStatus, String> {
    let found = RunStatus::ALL.into_iter().find(|status| status.word() == text);
    found.ok_or_else(|| format!("a state is {}", RunStatus::ALL.map(RunStatus::word).join(", ")))
}

#[cfg(test)]
mod tests {
    use super::{lasted, status, step_cells};
    use crate::base::model::{ChangeNumber, RunStatus, StepEnd, StepStatus, Verdict, VerdictSource};
    use crate::state::store::StepRow;
    use jiff::Timestamp;

    #[test]
    fn a_step_is_one_row_with_its_verdict_its_change_and_its_time() {
        let at = |second: i64| Timestamp::from_second(1_800_000_000 + second).ok();
        let mut end = StepEnd {
            verdict: Some(Verdict::Fail),
            verdict_source: Some(VerdictSource::Inferred),
            ..StepEnd::failed("the verdict is fail")
        };
        end.spent.tokens = 12_345;
        let step = StepRow {
            name: "judge".to_owned(),
            kind: "agent".to_owned(),
            status: StepStatus::Failed,
            started_at: at(0),
            ended_at: at(125),
            end: Some(end),
            inbox: None,
            conversation: None,
            change: Some(ChangeNumber(42)),
        };
        let shown = step_cells(&step).join(" | ");
        let expected = "judge | agent | failed | fail (inferred) | CHG-42 | 2027-01-15T08:00:00Z | 2m 5s | 12,345 | \
                        the verdict is fail";
        assert_eq!(shown, expected);
        assert_eq!(
            (lasted(at(0), None), lasted(at(0), at(0))),
            ("-".to_owned(), "0s".to_owned())
        );
        assert_eq!(status("failed"), Ok(RunStatus::Failed));
        assert!(status("broken").is_err_and(|why| why.contains("queued, running, succeeded")));
    }
}
