//! `drydock ask --review`: the files that the tools, the prompt and the checks of a review see. They are those of the
//! reviewed change, on the commit that it begins with, whatever happens in the working directory meanwhile.

use crate::support::shell::{
    BlockingModel, LARGE_FILE_LOCK, ProgramOutput, Shell, commit_again, commit_changes,
};
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, ScriptedAnswer, calls, queue, says};
use gix::objs::tree::EntryKind;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;

const MAIN: &str = "environments/dev/main.jsonnet";
const SPEC: (&str, &str) = (
    "environments/dev/spec.json",
    r#"{"apiVersion":"tanka.dev/v1alpha1","kind":"Environment","metadata":{"name":"environments/dev"},"spec":{"namespace":"dev"}}"#,
);
const TOOLS: [&str; 5] = ["git_status", "git_diff", "file_read", "file_search", "tanka_diff"];

fn main(replicas: u32) -> String {
    format!(
        "{{ web: {{ apiVersion: 'apps/v1', kind: 'Deployment', metadata: {{ name: 'web' }}, spec: {{ replicas: {replicas} }} }} }}\n"
    )
}

fn shell(files: &[(&str, &str)]) -> Shell {
    Shell::with_repository(files).set("ANTHROPIC_API_KEY", "sk-ant-test-0123456789")
}

fn tanka_shell() -> Shell {
    shell(&[
        ("jsonnetfile.json", "{}\n"),
        (MAIN, &main(2)),
        SPEC,
        ("README.md", "# infra\n"),
    ])
}

fn concludes(verdict: &str) -> ScriptedAnswer {
    calls("conclude", json!({ "verdict": verdict, "summary": "Looked at." }))
}

fn review(shell: &Shell, model: &BlockingModel, arguments: &[&str]) -> ProgramOutput {
    let url = format!("providers.anthropic.base_url={}", model.url());
    shell.run(&[&["ask", "--set", &url], arguments].concat())
}

/// Calls these tools in one step, and concludes.
fn looks(tools: &[(&str, serde_json::Value)]) -> [ScriptedAnswer; 2] {
    let calls = tools.iter().fold(says("I look."), |answer, (name, arguments)| {
        answer.with_call(*name, arguments.clone())
    });
    [calls, concludes("pass")]
}

fn look_everywhere() -> [ScriptedAnswer; 2] {
    let arguments = [
        json!({}),
        json!({}),
        json!({ "path": MAIN }),
        json!({ "glob_pattern": "**", "text_query": "replicas" }),
        json!({ "env_path": "environments/dev" }),
    ];
    let tools: Vec<_> = TOOLS.into_iter().zip(arguments).collect();
    looks(&tools)
}

fn results(asked: &ModelRequest) -> Vec<String> {
    asked
        .last_results()
        .iter()
        .map(|result| result.content.clone())
        .collect()
}

fn assert_shows_three_replicas(results: &[String]) {
    let [status, diff, read, search, effect] = results else {
        panic!("{results:?}");
    };
    assert_eq!(status, &format!("M {MAIN}\n"));
    for (tool, shown, parts) in [
        ("git_diff", diff, &["replicas: 2", "+{ web: ", "replicas: 3"][..]),
        ("file_read", read, &["replicas: 3"]),
        ("file_search", search, &["replicas: 3"]),
        (
            "tanka_diff",
            effect,
            &[
                "1 of 1 environment changes",
                "-  replicas: 2\n",
                "+  replicas: 3\n",
            ],
        ),
    ] {
        for part in parts {
            assert!(shown.contains(part), "{tool}: {part}: {shown}");
        }
        assert!(!shown.contains("replicas: 9"), "{tool}: {shown}");
    }
}

/// The tools show the reviewed change as if it had just been made, for a range and for the working directory.
#[test]
fn the_tools_of_a_review_show_the_reviewed_change() {
    let shell = tanka_shell();
    commit_again(&shell.work(), &[(MAIN, &main(3))]);
    shell.put(MAIN, &main(9));
    let model = BlockingModel::start(queue(look_everywhere()));
    let ended = review(&shell, &model, &["--review", "HEAD~1..HEAD"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_shows_three_replicas(&results(&model.asked()[1]));

    let shell = tanka_shell();
    shell.put(MAIN, &main(3));
    let model = BlockingModel::start(queue(look_everywhere()));
    let ended = review(&shell, &model, &["--review"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.err.contains("Checks passed: "), "{ended:?}");
    assert_shows_three_replicas(&results(&model.asked()[1]));
    assert!(!shell.work().join(".git/drydock").exists());
    assert_eq!(shell.leftover_files(), Vec::<String>::new());
}

/// The tools, the checks and the report are of the files as they were when the review began.
#[test]
fn what_is_edited_during_a_review_is_not_part_of_it() {
    let shell = tanka_shell();
    shell.put(MAIN, &main(3));
    let [looks, concludes] = look_everywhere();
    let first = calls("git_status", json!({})).with_fault(AnswerFault::Held);
    let model = BlockingModel::start(queue([first, looks, concludes]));
    let url = format!("providers.anthropic.base_url={}", model.url());
    let running = shell.start(&["ask", "--set", &url, "--json", "--review"]);
    model.wait_for_requests(1);
    shell.put(MAIN, &main(9));
    shell.put("config/limits.json", "{ nope\n");
    std::fs::remove_file(shell.work().join("README.md")).unwrap();
    model.release();
    let ended = running.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_shows_three_replicas(&results(&model.asked()[2]));
    let shown = ended.json();
    assert!(
        shown["environments"]
            .as_str()
            .unwrap()
            .contains("spec.replicas: 2 -> 3"),
        "{shown}"
    );
    assert_eq!(shown["verdict"], "pass", "{shown}");
}

/// The prompt describes the files of the reviewed change, not those that are checked out.
#[test]
fn the_prompt_of_a_review_describes_the_reviewed_files() {
    let shell = shell(&[("README.md", "# infra\n")]);
    commit_changes(
        &shell.work(),
        &[(MAIN, Some((EntryKind::Blob, main(2).as_bytes())))],
    );
    let model = BlockingModel::start(queue([concludes("pass"), concludes("pass")]));
    let ended = review(&shell, &model, &["--review", "HEAD~1..HEAD"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    commit_changes(&shell.work(), &[(MAIN, None)]);
    shell.put(MAIN, &main(2));
    let ended = review(&shell, &model, &["--review", "HEAD~1..HEAD"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let asked = model.asked();
    let is_tanka = asked
        .iter()
        .map(|asked| asked.system.contains("# This is a Tanka repository"));
    assert_eq!(is_tanka.collect::<Vec<_>>(), [true, false], "{}", asked[0].system);
}

/// Makes the same changes as a commit, or in the working directory.
fn change_of_every_kind(shell: &Shell, is_committed: bool) {
    let binary: &[u8] = b"\0\x01\x02";
    let work = shell.work();
    if is_committed {
        let changes = [
            ("gone.txt", None),
            ("old-name.txt", None),
            ("new-name.txt", Some((EntryKind::Blob, &b"moved\n"[..]))),
            ("run.sh", Some((EntryKind::BlobExecutable, b"#!/bin/sh\n"))),
            ("logo.bin", Some((EntryKind::Blob, binary))),
            ("link", Some((EntryKind::Link, b"new-name.txt"))),
        ];
        commit_changes(&work, &changes);
        return;
    }
    std::fs::remove_file(work.join("gone.txt")).unwrap();
    std::fs::rename(work.join("old-name.txt"), work.join("new-name.txt")).unwrap();
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(work.join("run.sh"), executable).unwrap();
    std::fs::write(work.join("logo.bin"), binary).unwrap();
    std::os::unix::fs::symlink("new-name.txt", work.join("link")).unwrap();
}

#[test]
fn deleted_renamed_executable_binary_and_linked_files_are_reviewed() {
    for is_committed in [true, false] {
        let shell = shell(&[
            ("gone.txt", "gone\n"),
            ("old-name.txt", "moved\n"),
            ("run.sh", "#!/bin/sh\n"),
        ]);
        change_of_every_kind(&shell, is_committed);
        let tools = [
            ("git_status", json!({})),
            ("git_diff", json!({})),
            ("file_read", json!({ "path": "link" })),
            ("file_read", json!({ "path": "gone.txt" })),
        ];
        let model = BlockingModel::start(queue(looks(&tools)));
        let arguments = match is_committed {
            true => &["--review", "HEAD~1..HEAD"][..],
            false => &["--review"],
        };
        let ended = review(&shell, &model, arguments);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let results = results(&model.asked()[1]);
        let status = "D gone.txt\nA link\nA logo.bin\nA new-name.txt\nD old-name.txt\nM run.sh\n";
        assert_eq!(results[0], status);
        for part in [
            "old mode 100644\nnew mode 100755\n",
            "deleted file mode 100644\n",
            "new file mode 120000\n",
            "binary file logo.bin: absent → 3 bytes\n",
        ] {
            assert!(results[1].contains(part), "{part}: {}", results[1]);
        }
        assert!(results[2].contains("moved"), "{}", results[2]);
        assert!(results[3].contains("no file `gone.txt`"), "{}", results[3]);
    }
}

/// A large file that the range does not change is no obstacle. Changes that are too large are refused with the file.
#[test]
fn a_change_that_is_too_large_is_refused_and_names_the_file() {
    let _alone = LARGE_FILE_LOCK.blocking_lock();
    let shell = shell(&[("a", "one\n")]);
    let large = vec![0; 17 << 20];
    commit_changes(&shell.work(), &[("large.bin", Some((EntryKind::Blob, &large)))]);
    commit_changes(&shell.work(), &[("a", Some((EntryKind::Blob, b"two\n")))]);
    let model = BlockingModel::start(queue(looks(&[("git_status", json!({}))])));
    let ended = review(&shell, &model, &["--review", "HEAD~1..HEAD"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(results(&model.asked()[1]), ["M a\n"]);
    let larger = vec![0; (64 << 20) + 1];
    commit_changes(&shell.work(), &[("larger.bin", Some((EntryKind::Blob, &larger)))]);
    let ended = review(&shell, &model, &["--review", "HEAD~1..HEAD"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let why = "`larger.bin` and other changed files have more than 67108864 bytes together";
    assert!(ended.err.contains(why), "{ended:?}");
    // A file without data on the disk, of the same length.
    let file = std::fs::File::create(shell.work().join("huge.bin")).unwrap();
    file.set_len((256 << 20) + 1).unwrap();
    let ended = review(&shell, &model, &["--review"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.err.contains("`huge.bin` has 268435457 bytes") && ended.err.contains("have git ignore it"),
        "{ended:?}"
    );
}

/// A repository without commits has no range, but its files are reviewed.
#[test]
fn the_files_of_a_repository_without_commits_are_reviewed() {
    let shell = shell(&[]);
    std::fs::remove_file(shell.work().join(".git/refs/heads/main")).unwrap();
    shell.put("a", "one\n");
    let model = BlockingModel::start(queue(looks(&[
        ("git_status", json!({})),
        ("git_diff", json!({})),
    ])));
    let ended = review(&shell, &model, &["--review"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let results = results(&model.asked()[1]);
    assert!(
        results[0] == "A a\n" && results[1].contains("+one\n"),
        "{results:?}"
    );
    let ended = review(&shell, &model, &["--review", "main..HEAD"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.err.contains("the repository has no commits yet"),
        "{ended:?}"
    );
}

const BORROWED: &str = "Not checked: packages are those of the reviewed commits: git ignores files in `vendor`, so those of \
                        the working directory were used";

fn packaged_main(replicas: u32) -> String {
    let main = main(replicas);
    format!("local k = import 'k.libsonnet';\nassert k.name == 'k';\n{main}")
}

/// Returns a repository that ignores its packages and has two commits.
fn packaged_shell() -> Shell {
    let dependencies = r#"{"version":1,"dependencies":[{"source":{"git":{"remote":"https://github.com/acme/k.git","subdir":""}},"version":"main"}],"legacyImports":true}"#;
    let shell = shell(&[
        (".gitignore", "vendor/\nlocal.libsonnet\n"),
        ("jsonnetfile.json", dependencies),
        (MAIN, &packaged_main(2)),
        SPEC,
    ]);
    commit_again(&shell.work(), &[(MAIN, &packaged_main(3))]);
    shell
}

/// No commit has the packages of a repository that ignores `vendor/`. Those of the working directory are used.
#[test]
fn a_range_is_rendered_with_the_ignored_packages_of_the_working_directory() {
    let shell = packaged_shell();
    shell.put("vendor/k.libsonnet", "{ name: 'k' }\n");
    let show = ("tanka_show", json!({ "env_path": "environments/dev" }));
    let diff = ("tanka_diff", json!({ "env_path": "environments/dev" }));
    let model = BlockingModel::start(queue(looks(&[show, diff])));
    let ended = review(&shell, &model, &["--review", "HEAD~1..HEAD"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended.err.contains(BORROWED) && ended.err.contains("every affected environment renders"),
        "{ended:?}"
    );
    let results = results(&model.asked()[1]);
    assert!(results[0].contains("replicas: 3"), "{results:?}");
    assert!(
        results[1].contains("-  replicas: 2\n") && results[1].contains("+  replicas: 3\n"),
        "{results:?}"
    );
}

/// The reason of a review without its packages names the command that installs them.
#[test]
fn a_review_without_its_packages_says_what_installs_them() {
    let shell = packaged_shell();
    let model = BlockingModel::start(queue([concludes("pass"), concludes("pass")]));
    let ended = review(&shell, &model, &["--review", "HEAD~1..HEAD"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let remedy = "`vendor` is missing; run `drydock jb install`, then review again";
    assert!(
        ended.err.contains("I could not check all of this change: ") && ended.err.contains(remedy),
        "{ended:?}"
    );
    let shown = review(&shell, &model, &["--json", "--review", "HEAD~1..HEAD"]).json();
    assert_eq!(shown["verdict"], "incomplete", "{shown}");
    let check = json!({ "name": "packages are installed", "state": "not_run", "detail": remedy });
    assert!(shown["checks"].as_array().unwrap().contains(&check), "{shown}");
}

/// A review of the working directory uses all its ignored files, as every other command there does.
#[test]
fn a_review_of_the_working_directory_uses_its_ignored_files() {
    let shell = packaged_shell();
    shell.put("vendor/k.libsonnet", "{ name: 'k' }\n");
    shell.put("local.libsonnet", "{ replicas: 4 }\n");
    let text = packaged_main(3).replace(
        "replicas: 3",
        "replicas: (import '../../local.libsonnet').replicas",
    );
    shell.put(MAIN, &text);
    let model = BlockingModel::start(queue(looks(&[
        ("git_status", json!({})),
        ("tanka_diff", json!({ "env_path": "environments/dev" })),
    ])));
    let ended = review(&shell, &model, &["--review"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!ended.err.contains("git ignores"), "{ended:?}");
    let results = results(&model.asked()[1]);
    assert_eq!(results[0], format!("M {MAIN}\n"));
    assert!(results[1].contains("+  replicas: 4\n"), "{results:?}");
}

/// An environment that the change breaks makes the review fail; one that also fails without it leaves it incomplete.
#[test]
fn an_environment_that_also_fails_without_the_change_leaves_the_review_incomplete() {
    let broken = "{ web: error 'no image' }\n";
    for (before, verdict, source, reason) in [
        (main(2), "fail", "verified", "A check of mine fails"),
        (
            broken.replace("no image", "no name"),
            "incomplete",
            "harness",
            "I could not check all of this change: `environments/dev`, which also fails on the base: ",
        ),
    ] {
        let shell = shell(&[("jsonnetfile.json", "{}\n"), (MAIN, &before), SPEC]);
        shell.put(MAIN, broken);
        let set = "limits.repairs_max=0";
        let model = BlockingModel::start(queue([concludes("pass"), concludes("pass")]));
        let ended = review(&shell, &model, &["--set", set, "--review"]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let failed = "Check failed: every affected environment renders: ";
        assert!(
            ended.err.contains(failed) && ended.err.contains(reason),
            "{ended:?}"
        );
        let shown = review(&shell, &model, &["--json", "--set", set, "--review"]).json();
        assert_eq!(
            (&shown["verdict"], &shown["source"]),
            (&json!(verdict), &json!(source)),
            "{shown}"
        );
    }
}
