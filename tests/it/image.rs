//! The container image: its final stage runs without a shell, as a user without privileges, on a read-only root, and
//! plays the demo there.

use crate::support::built::built;
use crate::support::require::{Component, component};
use crate::support::source::root;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";

fn dockerfile() -> String {
    fs::read_to_string(root().join("Dockerfile")).expect("the Dockerfile")
}

/// Returns the stages, each without the word that begins it.
fn stages() -> Vec<String> {
    let text = format!("\n{}", dockerfile());
    text.split("\nFROM ").skip(1).map(str::to_owned).collect()
}

/// T96
#[test]
fn the_image_has_no_shell_no_root_and_one_program() {
    let stages = stages();
    let last_stage = &stages[1];
    assert_eq!(stages.len(), 2);
    assert!(last_stage.starts_with("scratch\n"), "{last_stage}");
    assert!(last_stage.contains("\nUSER 65532:65532\n"), "{last_stage}");
    assert!(
        last_stage.contains("\nENTRYPOINT [\"/drydock\"]\n"),
        "{last_stage}"
    );
    assert!(!last_stage.contains("\nRUN "), "{last_stage}");
}

/// Checks that the files assembled below in place of the first stage are the files that its steps produce.
#[test]
fn the_first_stage_builds_what_the_last_one_holds() {
    let stages = stages();
    let first = &stages[0];
    let manifest: toml::Table =
        toml::from_str(&fs::read_to_string(root().join("Cargo.toml")).expect("a file")).expect("a manifest");
    let rust = manifest["package"]["rust-version"].as_str().expect("a version");
    assert!(
        first.starts_with(&format!("rust:{rust}-alpine AS build\n")),
        "{first}"
    );
    let build = "RUN cargo build --profile dist --locked --bin drydock \\\n";
    assert!(first.contains(build), "{first}");
    for left in ["/out/drydock", &format!("/out/{CERTIFICATES}"), "mkdir -p /data "] {
        assert!(first.contains(left), "{left}");
    }
    let ignored = fs::read_to_string(root().join(".dockerignore")).expect("a file");
    let mut rules = ignored.lines().filter(|line| !line.starts_with('#'));
    assert_eq!(rules.next(), Some("*"));
    assert!(
        rules.all(|rule| rule.starts_with('!') && root().join(&rule[1..]).exists()),
        "{ignored}"
    );
}

/// T96
#[test]
fn the_final_stage_plays_the_demo_as_nobody_on_a_read_only_root_without_a_network() {
    let Some(docker) = component("docker") else { return };
    let context = tempfile::tempdir().expect("a folder");
    assemble(context.path());
    let tag = format!("drydock-test:{}", std::process::id());
    let built = output(
        docker
            .command()
            .args(["build", "--quiet", "--tag", &tag])
            .arg(context.path()),
    );
    let image = TemporaryImage { docker, tag };
    assert!(!built.is_empty());

    let printed = image.run(&[], &["--version"]);
    assert_eq!(printed.split_whitespace().next(), Some("drydock"), "{printed}");
    assert!(printed.contains(env!("CARGO_PKG_VERSION")), "{printed}");

    let played = image.run(&[], &["demo", "--headless", "--json"]);
    let last = played.lines().last().expect("a line");
    let last: Value = serde_json::from_str(last).expect("a line of JSON");
    assert_eq!(last["passed"], true, "{played}");

    let checked = image.run(
        &["--env", "ANTHROPIC_API_KEY=sk-ant-api03-Zq8xT4nB2mK7wP9cR5vL"],
        &["check"],
    );
    let sandbox = checked.lines().find(|line| line.starts_with("sandbox "));
    let layers = "death with its parent, resource limits, Landlock, seccomp, no_new_privs";
    assert!(sandbox.is_some_and(|line| line.contains(layers)), "{checked}");
}

/// An image that is removed on drop.
struct TemporaryImage {
    docker: Component,
    tag: String,
}

impl TemporaryImage {
    /// Returns the output of the program in a container of the image, with the default system call filter of the engine
    /// and the user of the image.
    fn run(&self, options: &[&str], arguments: &[&str]) -> String {
        let mut command = self.docker.command();
        command.args(["run", "--rm", "--read-only", "--cap-drop", "ALL"]);
        command.args(["--network", "none", "--security-opt", "no-new-privileges"]);
        output(command.args(options).arg(&self.tag).args(arguments))
    }
}

impl Drop for TemporaryImage {
    fn drop(&mut self) {
        let removed = self
            .docker
            .command()
            .args(["image", "rm", "--force", &self.tag])
            .output();
        if let Err(err) = removed {
            assert!(std::thread::panicking(), "the image stays: {err}");
        }
    }
}

/// Assembles a context with the last stage of the Dockerfile. The result of the first stage is replaced: by the
/// program, certificates and a directory for data, and the shared objects of a dynamically linked program.
fn assemble(context: &Path) {
    let program = built();
    let out = context.join("out");
    fs::create_dir_all(context.join("data")).expect("a folder");
    fs::create_dir_all(out.join(CERTIFICATES).parent().expect("a parent")).expect("a folder");
    fs::write(out.join(CERTIFICATES), "").expect("a file");
    fs::copy(&program, out.join("drydock")).expect("the program is copied");
    for object in shared_objects(&program) {
        let target = out.join(object.strip_prefix("/").expect("an absolute path"));
        fs::create_dir_all(target.parent().expect("a parent")).expect("a folder");
        fs::copy(&object, target).expect("a shared object is copied");
    }
    let last_stage = stages().pop().expect("a stage");
    let dockerfile = format!("FROM scratch AS build\nCOPY out /out\nCOPY data /data\n\nFROM {last_stage}");
    fs::write(context.join("Dockerfile"), dockerfile).expect("a Dockerfile");
}

/// Returns the files that the loader would load, the loader included. A static program has none.
fn shared_objects(program: &Path) -> Vec<PathBuf> {
    let listed = Command::new("ldd").arg(program).output().expect("ldd runs");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let paths = listed
        .lines()
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    paths.map(PathBuf::from).collect()
}

/// Returns the output of a command. A failed command fails the test with its output.
fn output(command: &mut Command) -> String {
    let output = command.output().expect("the command runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
