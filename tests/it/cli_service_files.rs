//! The files for systemd and launchd that `drydock up --print` shows.

use crate::cli_serve::TOML;
use crate::support::require::component;
use crate::support::shell::{Shell, run_to_end};
use std::os::unix::fs::PermissionsExt;

/// Returns a home with a configuration of a service, whose secrets are in files.
fn home_of_a_unit() -> Shell {
    let toml = format!(
        "{TOML}[channels.phone]\nkind = \"telegram\"\nmode = \"polling\"\nrepository = \"infra\"\n\
         bot_token = {{ file = \"bot token\" }}\n[repositories.infra]\npath = \".\"\n"
    );
    let shell = Shell::new();
    shell.put("drydock.toml", &toml);
    shell.put("bot token", "7700000001:AAF0fKqL2mNpR5sTuVwXyZ12345678abcde\n");
    shell.put("drydock.env", "ANTHROPIC_API_KEY=sk-ant-test-0123456789\n");
    for file in ["bot token", "drydock.env"] {
        let only_mine = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(shell.work().join(file), only_mine).unwrap();
    }
    shell
}

/// STK-4
#[test]
fn the_unit_of_systemd_is_valid_and_printing_it_changes_nothing() {
    let shell = home_of_a_unit();
    let print = ["up", "--print", "--manager", "systemd"];
    let printed = shell.run(&print);
    assert_eq!((printed.code, printed.err.as_str()), (Some(0), ""), "{printed:?}");
    let work = shell.work().canonicalize().unwrap();
    let work = work.display();
    for line in [
        format!(" \"serve\" \"--config\" \"{work}/drydock.toml\"\n"),
        format!("WorkingDirectory={work}\n"),
        format!("EnvironmentFile=-{work}/drydock.env\n"),
        "Type=notify\n".to_owned(),
        "WatchdogSec=60\n".to_owned(),
        "Restart=on-failure\n".to_owned(),
        "RestartPreventExitStatus=2 78\n".to_owned(),
        "NoNewPrivileges=yes\n".to_owned(),
    ] {
        assert!(printed.out.contains(&line), "{line}: {}", printed.out);
    }
    if rustix::process::geteuid().is_root() {
        for line in [
            format!("ReadWritePaths=\"{work}/data\"\n"),
            "ProtectSystem=strict\n".to_owned(),
            "CapabilityBoundingSet=\n".to_owned(),
            format!(":{work}/bot token\n"),
        ] {
            assert!(printed.out.contains(&line), "{line}: {}", printed.out);
        }
    }
    assert!(!shell.work().join("data").exists());
    // The other commands would look for the service at another place.
    let variables = shell.get("drydock.env");
    shell.put(
        "drydock.env",
        &format!("{variables}DRYDOCK_DATA__DIRECTORY=other\n"),
    );
    let ended = shell.run(&print);
    assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{ended:?}");
    let advice = format!("; set data.directory in {work}/drydock.toml instead");
    assert!(ended.err.contains(&advice), "{ended:?}");
    // A variable of this shell is none of the service.
    std::fs::remove_file(shell.work().join("drydock.env")).unwrap();
    let shell = shell.set("ANTHROPIC_API_KEY", "sk-ant-test-0123456789");
    let ended = shell.run(&print);
    assert_eq!((ended.code, ended.out.as_str()), (Some(78), ""), "{ended:?}");
    let advice = format!("write NAME=value lines to {work}/drydock.env, with mode 600");
    assert!(
        ended.err.contains("ANTHROPIC_API_KEY") && ended.err.contains(&advice),
        "{ended:?}"
    );
    let Some(systemd) = component("systemd-analyze") else {
        return;
    };
    let unit = shell.home().join("drydock.service");
    std::fs::write(&unit, printed.out).unwrap();
    let mut command = systemd.command();
    shell.prepare(&mut command);
    let scope = match rustix::process::geteuid().is_root() {
        true => "--system",
        false => "--user",
    };
    command.args(["verify", "--man=no", scope]).arg(&unit);
    let verified = run_to_end(command);
    let ours: Vec<&str> = verified
        .err
        .lines()
        .filter(|line| line.contains("drydock"))
        .collect();
    assert_eq!((verified.code, ours), (Some(0), Vec::new()), "{verified:?}");
}

/// STK-4: launchd was not run; the file is read by the parser of another author.
#[test]
fn the_file_of_launchd_says_what_to_run_again_and_where_the_log_is() {
    let shell = home_of_a_unit();
    let print = ["up", "--print", "--manager", "launchd"];
    let refused = shell.run(&print);
    assert_eq!(refused.code, Some(78), "{refused:?}");
    assert!(
        refused.err.contains("name files with { file = \"path\" }"),
        "{refused:?}"
    );
    shell.put("a<&key", "sk-ant-test-0123456789\n");
    let key = shell.work().join("a<&key");
    std::fs::set_permissions(key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let toml = shell.get("drydock.toml");
    shell.put(
        "a&b.toml",
        &format!("{toml}[providers.anthropic]\napi_key = {{ file = \"a<&key\" }}\n"),
    );
    let printed = shell.run(&[&print[..], &["--config", "a&b.toml"]].concat());
    assert_eq!((printed.code, printed.err.as_str()), (Some(0), ""), "{printed:?}");
    let Some(python) = component("python3") else {
        return;
    };
    shell.put("printed.plist", &printed.out);
    let mut command = python.command();
    shell.prepare(&mut command);
    let convert = "import json, plistlib; print(json.dumps(plistlib.load(open('printed.plist', 'rb'))))";
    command.args(["-c", convert]);
    let read = run_to_end(command).json();
    let work = shell.work().canonicalize().unwrap();
    let arguments: Vec<&str> = read["ProgramArguments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap())
        .collect();
    let config = work.join("a&b.toml");
    assert_eq!(
        arguments[1..],
        ["supervise", "--launchd", "--config", config.to_str().unwrap()]
    );
    assert_eq!(
        read["StandardErrorPath"],
        work.join("data/service.log").to_str().unwrap()
    );
    assert_eq!(read["KeepAlive"]["SuccessfulExit"], false);
    assert_eq!(
        (&read["RunAtLoad"], &read["Label"]),
        (&true.into(), &"drydock".into())
    );
}
