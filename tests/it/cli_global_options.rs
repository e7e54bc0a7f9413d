//! The options of every command, and their variables.

use crate::support::shell::{ProgramOutput, Shell};

fn shell() -> Shell {
    Shell::with_repository(&[("a", "one\n")]).set("ANTHROPIC_API_KEY", "sk-ant-test-0123456789")
}

fn refused(ended: &ProgramOutput, why: &str) {
    assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{ended:?}");
    assert!(ended.err.contains(why), "{why}: {ended:?}");
}

#[test]
fn an_empty_variable_of_an_option_counts_as_not_set() {
    for name in ["DRYDOCK_CONFIG", "DRYDOCK_LOG"] {
        let ended = shell().set(name, "").run(&["models"]);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    }
    let ended = shell()
        .set("DRYDOCK_CONFIG", "")
        .run(&["models", "--config", "nowhere"]);
    assert_eq!(ended.code, Some(78), "{ended:?}");
    refused(&shell().run(&["models", "--config", ""]), "--config");
}

#[test]
fn a_wrong_log_filter_is_refused_by_every_command_with_its_origin() {
    let filter = "drydock=loudly";
    for command in ["models", "serve", "demo"] {
        refused(
            &shell().run(&[command, "--log", filter]),
            "--log: the log filter is wrong: ",
        );
        refused(
            &shell().set("DRYDOCK_LOG", filter).run(&[command]),
            "DRYDOCK_LOG: the log filter is wrong: ",
        );
    }
    let ended = shell().run(&["models", "--log", "drydock=debug"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn the_demo_refuses_a_configuration_instead_of_ignoring_it() {
    let named = shell().run(&["demo", "--headless", "--config", "/nope"]);
    refused(
        &named,
        "--config: the demo has its own configuration and reads no other",
    );
    let set = shell().run(&["demo", "--headless", "--set", "limits.steps_max=3"]);
    refused(
        &set,
        "--set: the demo has its own configuration and reads no other",
    );
}

#[test]
fn the_commands_of_a_persons_machine_refuse_a_configuration_instead_of_ignoring_it() {
    for arguments in [&["pull", "1"][..], &["login", "https://x.example"], &["logout"]] {
        let ended = shell().run(&[arguments, &["--config", "/nope"]].concat());
        refused(
            &ended,
            "--config: this command reads no configuration of a server",
        );
        let ended = shell().run(&[arguments, &["--set", "limits.steps_max=3"]].concat());
        refused(&ended, "--set: this command reads no configuration of a server");
    }
}

#[test]
fn models_cannot_be_set_by_variables() {
    for name in ["DRYDOCK_MODELS__X", "DRYDOCK_MODELS__X__CONTEXT_TOKENS"] {
        let ended = shell().set(name, "1").run(&["models"]);
        assert_eq!((ended.code, ended.out.as_str()), (Some(78), ""), "{ended:?}");
        let why = "[models] cannot be set by variables; write it into the configuration file";
        assert!(ended.err.contains(&format!("{name}: {why}")), "{ended:?}");
    }
}
