//! The container image: its final stage runs without a shell, as nobody, on a read-only root.

use crate::support::require::{Component, component};
use crate::support::source::root;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// T96
#[test]
fn the_image_has_no_shell_no_root_and_one_program() {
    let dockerfile = fs::read_to_string(root().join("Dockerfile")).expect("the Dockerfile");
    let last_stage = dockerfile.rsplit("\nFROM ").next().expect("a stage");
    assert!(last_stage.starts_with("scratch\n"), "{last_stage}");
    assert!(last_stage.contains("\nUSER 65532:65532\n"), "{last_stage}");
    assert!(
        last_stage.contains("\nENTRYPOINT [\"/drydock\"]\n"),
        "{last_stage}"
    );
    assert!(!last_stage.contains("\nRUN "), "{last_stage}");
}

/// T96
#[test]
fn the_final_stage_runs_as_nobody_on_a_read_only_root_without_a_network() {
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
    let image = Image { docker, tag };
    assert!(!built.is_empty());

    let printed = output(image.docker.command().args([
        "run",
        "--rm",
        "--read-only",
        "--cap-drop",
        "ALL",
        "--user",
        "65532",
        "--network",
        "none",
        "--security-opt",
        "no-new-privileges",
        &image.tag,
        "--version",
    ]));
    assert_eq!(printed.split_whitespace().next(), Some("drydock"), "{printed}");
    assert!(printed.contains(env!("CARGO_PKG_VERSION")), "{printed}");
}

/// An image that is removed again.
struct Image {
    docker: Component,
    tag: String,
}

impl Drop for Image {
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

/// The last stage of the Dockerfile as a context of its own: this build of the program, and the
/// shared objects it names where it is linked dynamically.
fn assemble(context: &Path) {
    let program = Path::new(env!("CARGO_BIN_EXE_drydock"));
    let files = context.join("files");
    fs::create_dir_all(files.join("data")).expect("a folder");
    fs::copy(program, files.join("drydock")).expect("the program is copied");
    for object in shared_objects(program) {
        let target = files.join(object.strip_prefix("/").expect("an absolute path"));
        fs::create_dir_all(target.parent().expect("a parent")).expect("a folder");
        fs::copy(&object, target).expect("a shared object is copied");
    }
    let dockerfile = "FROM scratch\nCOPY files/ /\nUSER 65532:65532\nENTRYPOINT [\"/drydock\"]\n";
    fs::write(context.join("Dockerfile"), dockerfile).expect("a Dockerfile");
}

/// What the loader would load, the loader included; nothing for a static program.
fn shared_objects(program: &Path) -> Vec<PathBuf> {
    let listed = Command::new("ldd").arg(program).output().expect("ldd runs");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let paths = listed
        .lines()
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    paths.map(PathBuf::from).collect()
}

/// What a command printed; a failed one fails the test with what it said.
fn output(command: &mut Command) -> String {
    let output = command.output().expect("the command runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
