//! `drydock invite`: the server that an invite is for, and the grants that it cannot have.

use crate::cli_serve::{TOML, shell};
use crate::support::shell::Shell;

#[test]
fn an_invite_needs_the_configuration_of_its_server() {
    let nowhere = Shell::new();
    let ended = nowhere.run(&["invite", "bob"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(78), ""), "{ended:?}");
    let why = "there is no data directory `./drydock-data`; name the server's configuration with --config";
    assert!(ended.err.contains(why), "{ended:?}");
    assert_eq!(std::fs::read_dir(nowhere.work()).unwrap().count(), 0);
    let named = nowhere.run(&["invite", "bob", "--set", "data.directory=data"]);
    assert_eq!(named.code, Some(0), "{named:?}");
    let by_variable = Shell::new().set("DRYDOCK_DATA__DIRECTORY", "data");
    assert_eq!(by_variable.run(&["invite", "bob"]).code, Some(0));
}

#[test]
fn a_grant_without_effect_is_refused_or_pointed_out() {
    let shell = shell(&format!("{TOML}[repositories.infra]\npath = \"infra\"\n"));
    for option in ["--env=", "--env= ", "--repo="] {
        let ended = shell.run(&["invite", "bob", option]);
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{ended:?}");
        assert!(ended.err.contains("an empty glob grants nothing"), "{ended:?}");
    }
    assert!(!shell.work().join("data").exists());
    let warning = "`nope` matches none of the configured repositories, which are infra.\n";
    let unknown = shell.run(&["invite", "bob", "--repo", "nope"]);
    assert_eq!(unknown.code, Some(0), "{unknown:?}");
    assert!(unknown.err.starts_with(warning), "{unknown:?}");
    for known in ["infra", "in*", "*"] {
        let ended = shell.run(&["invite", "bob", "--repo", known]);
        assert!(
            ended.code == Some(0) && ended.err.starts_with("Single use"),
            "{ended:?}"
        );
    }
}
