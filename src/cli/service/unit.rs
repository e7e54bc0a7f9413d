//! The unit of systemd that runs a server. It takes away everything that a server does not need, and leaves what the
//! sandbox of its workers needs: Landlock, filters of system calls, and limits of resources.

use super::processes::ServiceScope;
use crate::base::config::credential_name;
use crate::cli::CliError;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The first words of each file that `drydock up` writes. A comment of XML may not have two hyphens.
pub(super) const MARK: &str = "Written by `drydock up`; changes are overwritten.";

/// The facts of a server that a service manager has to know.
#[derive(Clone, Debug)]
pub(super) struct ServiceFacts {
    pub(super) scope: ServiceScope,
    /// The absolute path of this program.
    pub(super) program: PathBuf,
    /// The arguments after the verb.
    pub(super) arguments: Vec<String>,
    /// The absolute path of the working directory, to which paths of the configuration are relative.
    pub(super) directory: PathBuf,
    /// The absolute path of the data directory.
    pub(super) data: PathBuf,
    /// The file with the variables of the server, which may be absent.
    pub(super) variables: PathBuf,
    /// The user and the group of the server; none if they are those of the service manager.
    pub(super) owner: Option<(u32, u32)>,
    /// Their names, if the service manager needs them.
    pub(super) owner_names: Option<(String, String)>,
    /// The files of secrets, which the service manager reads for the server.
    pub(super) secrets: Vec<PathBuf>,
    /// Other paths that the server reads, such as repositories.
    pub(super) read: Vec<PathBuf>,
    /// The port of the listener.
    pub(super) port: u16,
}

/// Options that need only the flag "no new privileges" and filters, so that they also work for the services of a user.
const FILTERS: &str = "\
NoNewPrivileges=yes
RestrictSUIDSGID=yes
RestrictRealtime=yes
RestrictNamespaces=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallFilter=~@clock @cpu-emulation @debug @module @mount @obsolete @raw-io @reboot @swap
SystemCallErrorNumber=EPERM
UMask=0077
";

/// Options that change the files and devices that the server sees, or its rights. Processes stay visible: the server reads
/// the size of its workers, which are protected from other processes and would be hidden.
const ISOLATION: &str = "\
ProtectSystem=strict
ProtectHome=read-only
ProtectClock=yes
ProtectHostname=yes
ProtectControlGroups=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
PrivateDevices=yes
RemoveIPC=yes
";

/// Below this port, a listener needs a right of its own.
const FREE_PORT_MIN: u16 = 1_024;

impl ServiceFacts {
    /// Returns the text of the unit.
    pub(super) fn unit(&self) -> Result<String, CliError> {
        self.check_paths()?;
        let mut unit = format!("# {MARK}\n{}\n\n", data_line(&self.data));
        unit.push_str("[Unit]\nDescription=Drydock, which prepares changes to configuration repositories\n");
        unit.push_str("Wants=network-online.target\nAfter=network-online.target\n");
        // It is started again for as long as it fails; a wrong configuration ends that.
        unit.push_str("StartLimitIntervalSec=0\n\n[Service]\nType=notify\nNotifyAccess=main\n");
        let _ = writeln!(unit, "ExecStart={}", self.command());
        let _ = writeln!(unit, "WorkingDirectory={}", specifiers(&self.directory));
        let _ = writeln!(unit, "EnvironmentFile=-{}", specifiers(&self.variables));
        unit.push_str("Restart=on-failure\nRestartSec=5\nRestartPreventExitStatus=2 78\n");
        unit.push_str("TimeoutStartSec=90\nTimeoutStopSec=30\nWatchdogSec=60\nKillMode=mixed\n");
        if let Some((user, group)) = self.owner {
            let _ = writeln!(unit, "User={user}\nGroup={group}");
        }
        unit.push_str(FILTERS);
        let target = match self.scope {
            ServiceScope::System => {
                self.write_isolation(&mut unit);
                "multi-user.target"
            }
            ServiceScope::User(_) => "default.target",
        };
        let _ = writeln!(unit, "\n[Install]\nWantedBy={target}");
        Ok(unit)
    }

    fn write_isolation(&self, unit: &mut String) {
        unit.push_str(ISOLATION);
        let all = [&self.program, &self.directory, &self.data, &self.variables];
        let mut all = all.into_iter().chain(&self.read).chain(&self.secrets);
        if !all.any(|path| path.starts_with("/tmp") || path.starts_with("/var/tmp")) {
            unit.push_str("PrivateTmp=yes\n");
        }
        let right = match (1..FREE_PORT_MIN).contains(&self.port) {
            true => "CAP_NET_BIND_SERVICE",
            false => "",
        };
        let _ = writeln!(unit, "CapabilityBoundingSet={right}\nAmbientCapabilities={right}");
        match state_directory(&self.data) {
            Some(name) => {
                let _ = writeln!(unit, "StateDirectory={name}\nStateDirectoryMode=0700");
            }
            None => {
                let _ = writeln!(
                    unit,
                    "ReadWritePaths={}",
                    quoted(&self.data.display().to_string())
                );
            }
        }
        for secret in &self.secrets {
            let _ = writeln!(
                unit,
                "LoadCredential={}:{}",
                credential_name(secret),
                specifiers(secret)
            );
        }
    }

    fn command(&self) -> String {
        let program = self.program.display().to_string();
        let words = [program.as_str(), "serve"].into_iter();
        let words = words.chain(self.arguments.iter().map(String::as_str));
        words.map(quoted_argument).collect::<Vec<_>>().join(" ")
    }

    /// Refuses texts that a line of a unit cannot hold.
    pub(super) fn check_paths(&self) -> Result<(), CliError> {
        let paths = [&self.program, &self.directory, &self.data, &self.variables];
        let paths = paths.into_iter().chain(&self.secrets);
        let texts = paths.map(|path| path.to_str().unwrap_or("\u{fffd}"));
        let mut texts = texts.chain(self.arguments.iter().map(String::as_str));
        match texts.find(|text| text.chars().any(|c| c.is_control() || c == '\u{fffd}')) {
            None => Ok(()),
            Some(text) => Err(CliError::usage(format!(
                "`{}` has characters that a service file cannot hold; rename it",
                text.escape_debug()
            ))),
        }
    }
}

/// Returns the line that names the data directory of a unit's server.
pub(super) fn data_line(data: &Path) -> String {
    format!("# Data: {}", data.display())
}

/// Returns the name of the state directory, if systemd can prepare the data directory as one.
fn state_directory(data: &Path) -> Option<&str> {
    let name = data.strip_prefix("/var/lib").ok()?.to_str()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    (!name.is_empty() && name.chars().all(is_plain)).then_some(name)
}

/// Returns a word of a command line, in which a dollar sign would begin a variable.
fn quoted_argument(word: &str) -> String {
    quoted(word).replace('$', "$$")
}

/// Returns an entry of a list.
fn quoted(entry: &str) -> String {
    let escaped = entry.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", escaped.replace('%', "%%"))
}

/// Returns a path as the whole value of an option.
fn specifiers(path: &Path) -> String {
    path.display().to_string().replace('%', "%%")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use super::ServiceFacts;
    use crate::base::config::credential_name;
    use crate::cli::service::processes::ServiceScope;
    use std::path::Path;

    /// Returns the facts of a service of the system with a data directory.
    pub(in crate::cli::service) fn facts(data: &str) -> ServiceFacts {
        ServiceFacts {
            scope: ServiceScope::System,
            program: "/usr/bin/drydock".into(),
            arguments: vec!["--config".to_owned(), "/etc/drydock.toml".to_owned()],
            directory: "/srv".into(),
            data: data.into(),
            variables: "/etc/drydock.env".into(),
            owner: Some((1_000, 1_001)),
            owner_names: Some(("dock".to_owned(), "harbour".to_owned())),
            secrets: vec!["/etc/bot token".into()],
            read: vec!["/srv/git/infra".into()],
            port: 7_700,
        }
    }

    /// STK-4
    #[test]
    fn the_unit_of_the_system_gives_the_server_its_data_directory_and_its_secrets_only() {
        let unit = facts("/var/lib/drydock").unit().unwrap();
        let credential = credential_name(Path::new("/etc/bot token"));
        for line in [
            "User=1000\nGroup=1001\n",
            "StateDirectory=drydock\nStateDirectoryMode=0700\n",
            "PrivateTmp=yes\nCapabilityBoundingSet=\nAmbientCapabilities=\n",
            &format!("LoadCredential={credential}:/etc/bot token\n"),
            "WantedBy=multi-user.target\n",
        ] {
            assert!(unit.contains(line), "{line}: {unit}");
        }
        let mut other = facts("/tmp/data");
        other.port = 443;
        let unit = other.unit().unwrap();
        assert!(
            unit.contains("ReadWritePaths=\"/tmp/data\"\n") && !unit.contains("PrivateTmp"),
            "{unit}"
        );
        assert!(
            unit.contains("AmbientCapabilities=CAP_NET_BIND_SERVICE\n"),
            "{unit}"
        );
        // A manager of a user may not isolate a service everywhere.
        other.scope = ServiceScope::User(1_000);
        let unit = other.unit().unwrap();
        assert!(
            !unit.contains("ProtectSystem") && !unit.contains("LoadCredential"),
            "{unit}"
        );
        assert!(unit.contains("NoNewPrivileges=yes\n") && unit.ends_with("WantedBy=default.target\n"));
    }

    #[test]
    fn names_are_written_so_that_systemd_reads_them_unchanged() {
        let mut facts = facts("/srv/a b%n$x\"c");
        facts.arguments = vec!["--config".to_owned(), "/srv/$HOME \"%n\\".to_owned()];
        let unit = facts.unit().unwrap();
        for line in [
            "ExecStart=\"/usr/bin/drydock\" \"serve\" \"--config\" \"/srv/$$HOME \\\"%%n\\\\\"\n",
            "ReadWritePaths=\"/srv/a b%%n$x\\\"c\"\n",
        ] {
            assert!(unit.contains(line), "{line}: {unit}");
        }
        facts.directory = "/srv/a\nUser=0".into();
        let refused = facts.unit().map(|_| ()).unwrap_err();
        assert_eq!(refused.code, 2);
        assert!(refused.message.contains("cannot hold"), "{}", refused.message);
    }
}
