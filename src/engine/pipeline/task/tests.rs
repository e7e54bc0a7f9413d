//! Tests of what needs no program: arguments, copies, and the end of a step.

use super::copies::copy_files;
use super::{
    ARGUMENTS_BYTES_MAX, HomeMeasure, RESULT, RESULT_BYTES_MAX, TaskError, TaskPrograms, check_arguments,
    output,
};
use crate::base::config::{PipelineSettings, SandboxSettings};
use crate::base::model::{RepoPath, StepEnd, StepStatus};
use crate::base::redact::Redactor;
use crate::engine::pipeline::run::TaskWork;
use crate::rendering::sandbox::{CommandError, CommandOutput, ProgramPath, Scratch};
use crate::rendering::tanka::testing::ReadOnlyTree;
use crate::state::workspace::{DeniedFiles, GuardedTree, SecretGuard};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// A secret in a known format.
const SECRET: &str = "AKIAQ7RK2ZPX9VTN4WBY";

fn work(command: &[&str]) -> TaskWork {
    TaskWork {
        command: command.iter().map(|text| (*text).to_owned()).collect(),
        input: "{}".to_owned(),
        env: BTreeMap::new(),
        timeout: Duration::from_secs(10),
    }
}

#[test]
fn arguments_are_bounded_and_have_no_nul_character() {
    assert!(check_arguments(&work(&["lint", "a b; $(id)"])).is_ok());
    let long = "x".repeat(ARGUMENTS_BYTES_MAX);
    assert!(matches!(
        check_arguments(&work(&["lint", &long])),
        Err(TaskError::LongArguments)
    ));
    let mut nul = work(&["lint"]);
    nul.env.insert("NAME".to_owned(), "a\0b".to_owned());
    assert!(matches!(check_arguments(&nul), Err(TaskError::NulCharacter)));
}

#[test]
fn a_program_has_a_home_and_its_two_files_and_nothing_of_the_server() {
    let place = tempfile::tempdir().unwrap();
    let mut sandbox = SandboxSettings::default();
    sandbox.programs.scratch = place.path().to_owned();
    let programs = TaskPrograms::new(ProgramPath::current(), &PipelineSettings::default(), &sandbox);
    let scratch = Scratch::new(place.path()).unwrap();
    let mut work = work(&["lint"]);
    for (name, value) in [("HOME", "/root"), ("DRYDOCK_OUT", "/etc/passwd"), ("LEVEL", "1")] {
        work.env.insert(name.to_owned(), value.to_owned());
    }
    let environment = programs.environment(&work, &scratch, "/input".into());
    let names: Vec<&str> = environment.iter().map(|(name, _)| name.as_str()).collect();
    let expected = [
        "DRYDOCK_IN",
        "DRYDOCK_OUT",
        "GOMEMLIMIT",
        "HOME",
        "LEVEL",
        "TMPDIR",
    ];
    assert_eq!(names, expected);
    let value = |wanted: &str| {
        let mut found = environment.iter().filter(|(name, _)| name == wanted);
        found.next().unwrap().1.as_str()
    };
    assert_eq!((value("HOME"), value("DRYDOCK_IN")), ("/root", "/input"));
    assert!(Path::new(value("DRYDOCK_OUT")).starts_with(scratch.home()));
}

#[test]
fn files_with_secrets_are_not_copied() {
    let place = tempfile::tempdir().unwrap();
    let scratch = Scratch::new(place.path()).unwrap();
    let tree = ReadOnlyTree::new(&[
        ("environments/dev/main.jsonnet", "{}"),
        ("charts/web/.env", "TOKEN=x"),
        ("notes/plan.txt", "private"),
        ("same.jsonnet", "-> environments/dev/main.jsonnet"),
        ("other.txt", "-> notes/plan.txt"),
        ("lost.txt", "-> nowhere.txt"),
    ]);
    let denied = DeniedFiles::new(["notes/**"]).unwrap();
    copy_files(tree.as_ref(), &denied, &scratch, &|| false).unwrap();
    let read = |path: &str| scratch.read_file(&RepoPath::parse(path).unwrap(), 99).unwrap();
    assert_eq!(read("environments/dev/main.jsonnet"), Some(b"{}".to_vec()));
    assert_eq!(read("same.jsonnet"), Some(b"{}".to_vec()));
    for left_out in ["charts/web/.env", "notes/plan.txt", "other.txt", "lost.txt"] {
        assert_eq!(read(left_out), None, "{left_out}");
    }
    let stopped = copy_files(tree.as_ref(), &denied, &scratch, &|| true);
    assert!(matches!(stopped, Err(TaskError::Command(CommandError::Stopped))));
}

#[test]
fn files_are_copied_within_the_time_of_the_program() {
    let place = tempfile::tempdir().unwrap();
    let mut sandbox = SandboxSettings::default();
    sandbox.programs.scratch = place.path().to_owned();
    let settings = PipelineSettings {
        programs: BTreeMap::from([("lint".to_owned(), "/nonexistent/lint".into())]),
        ..PipelineSettings::default()
    };
    let programs = TaskPrograms::new(ProgramPath::current(), &settings, &sandbox);
    let tree = GuardedTree::new(ReadOnlyTree::new(&[("a.yaml", "a: 1")]), SecretGuard::default());
    let mut work = work(&["lint"]);
    assert_eq!(programs.run(&work, &tree, &|| true), None);
    work.timeout = Duration::ZERO;
    let end = programs.run(&work, &tree, &|| false).unwrap();
    assert_eq!(end, StepEnd::failed("it took more than 0 s"));
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn a_program_is_ended_before_it_fills_the_disk() {
    let place = tempfile::tempdir().unwrap();
    let scratch = Scratch::new(place.path()).unwrap();
    let found = HomeMeasure::new(&scratch, u64::MAX).excess().unwrap();
    assert_eq!(
        found.to_string(),
        "it was ended, because the disk has less than 256 MiB left"
    );
    assert!(HomeMeasure::new(&scratch, 0).excess().is_none());
}

/// A program that has ended, with its directory.
struct EndedProgram {
    place: tempfile::TempDir,
    ran: CommandOutput,
}

impl EndedProgram {
    fn new(code: i32, output: &str, errors: &str) -> Self {
        Self {
            place: tempfile::tempdir().unwrap(),
            ran: CommandOutput {
                succeeded: code == 0,
                code: Some(code),
                output: output.as_bytes().to_vec(),
                errors: errors.to_owned(),
                last_errors: errors.to_owned(),
            },
        }
    }

    fn scratch(&self) -> Scratch {
        Scratch::new(self.place.path()).unwrap()
    }
}

#[test]
fn the_result_of_a_program_is_its_file_or_the_end_of_its_output() {
    let ended = EndedProgram::new(0, "\u{1b}[31mstdout\u{1b}[0m\n", "");
    let (scratch, redactor) = (ended.scratch(), Redactor::new([]));
    let end = output::end("lint", &ended.ran, &scratch, &redactor).unwrap();
    assert_eq!(
        (end.status, end.output.as_str()),
        (StepStatus::Succeeded, "stdout\n")
    );
    let result = scratch.home().join(RESULT);
    let text = format!("{}/a.yaml: {SECRET}", scratch.files().display());
    std::fs::write(&result, text).unwrap();
    let end = output::end("lint", &ended.ran, &scratch, &redactor).unwrap();
    assert!(
        end.output.starts_with("a.yaml: ") && !end.output.contains(SECRET),
        "{}",
        end.output
    );
    std::fs::write(&result, b"\xff").unwrap();
    let why = output::end("lint", &ended.ran, &scratch, &redactor).unwrap_err();
    assert!(matches!(why, TaskError::NotText));
    let large = vec![b'x'; usize::try_from(RESULT_BYTES_MAX).unwrap() + 1];
    std::fs::write(&result, large).unwrap();
    let why = output::end("lint", &ended.ran, &scratch, &redactor).unwrap_err();
    assert!(matches!(why, TaskError::LargeResult));
    let long = EndedProgram::new(0, &"x".repeat(100 << 10), "");
    let end = output::end("lint", &long.ran, &long.scratch(), &redactor).unwrap();
    assert!(end.output.starts_with("\n[...truncated ") && end.output.ends_with('x'));
}

/// CI-19
#[test]
fn a_failed_program_says_its_exit_code_and_the_last_lines_of_its_errors_and_keeps_its_output() {
    let redactor = Redactor::new([]);
    let lines: String = (1..=30).map(|line| format!("line {line}\n")).collect();
    let ended = EndedProgram::new(3, "found it", &format!("{lines}key {SECRET}\n"));
    let end = output::end("lint", &ended.ran, &ended.scratch(), &redactor).unwrap();
    assert_eq!(
        (end.status, end.output.as_str()),
        (StepStatus::Failed, "found it")
    );
    let why = end.why.unwrap();
    assert!(
        why.starts_with("lint ended with the exit code 3: line 12\n"),
        "{why}"
    );
    assert!(why.contains("line 30\n") && !why.contains(SECRET), "{why}");
    let silent = EndedProgram::new(1, "", " \n");
    let end = output::end("lint", &silent.ran, &silent.scratch(), &redactor).unwrap();
    assert_eq!(end.why.unwrap(), "lint ended with the exit code 1");
    let long = EndedProgram::new(1, "", &"ä".repeat(5_000));
    let end = output::end("lint", &long.ran, &long.scratch(), &redactor).unwrap();
    let why = end.why.unwrap();
    assert!(why.ends_with('ä') && why.chars().count() < 1_100, "{}", why.len());
}
