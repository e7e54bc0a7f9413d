//! The file of launchd that runs the supervisor of a server. launchd bounds no log, so the supervisor writes it.

use super::processes::LABEL;
use super::unit::{MARK, ServiceFacts};
use crate::cli::CliError;

const HEAD: &str = "\
<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">
";

impl ServiceFacts {
    /// Returns the text of the file.
    pub(super) fn agent(&self) -> Result<String, CliError> {
        self.check_paths()?;
        let program = self.program.display().to_string();
        let words = [program.as_str(), "supervise", "--launchd"].into_iter();
        let words = words.chain(self.arguments.iter().map(String::as_str));
        let words: String = words
            .map(|word| format!("    <string>{}</string>\n", escaped(word)))
            .collect();
        let account = self.owner_names.as_ref().map(|(user, group)| {
            format!(
                "<key>UserName</key>\n  <string>{}</string>\n  <key>GroupName</key>\n  <string>{}</string>\n  ",
                escaped(user),
                escaped(group)
            )
        });
        let account = account.unwrap_or_default();
        let directory = escaped(&self.directory.display().to_string());
        Ok(format!(
            "{HEAD}<!-- {MARK} -->\n<plist version=\"1.0\">\n<dict>\n  \
             <key>Label</key>\n  <string>{LABEL}</string>\n  \
             <key>ProgramArguments</key>\n  <array>\n{words}  </array>\n  \
             {account}<key>WorkingDirectory</key>\n  <string>{directory}</string>\n  \
             {}\n  \
             <key>RunAtLoad</key>\n  <true/>\n  \
             <key>KeepAlive</key>\n  <dict>\n    <key>SuccessfulExit</key>\n    <false/>\n  </dict>\n  \
             <key>ThrottleInterval</key>\n  <integer>10</integer>\n  \
             <key>ExitTimeOut</key>\n  <integer>30</integer>\n  \
             <key>Umask</key>\n  <integer>63</integer>\n\
             </dict>\n</plist>\n",
            data_entry(&self.data.display().to_string())
        ))
    }
}

/// Returns the entry that names the data directory of the server.
pub(super) fn data_entry(data: &str) -> String {
    let log = format!("{data}/{}", super::log_file::LOG);
    format!(
        "<key>StandardErrorPath</key>\n  <string>{}</string>",
        escaped(&log)
    )
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::cli::service::unit::tests::facts;

    /// STK-4
    #[test]
    fn a_service_of_launchd_runs_as_the_user_of_its_data() {
        let mut facts = facts("/srv/data");
        let text = facts.agent().unwrap();
        for entry in [
            "<key>UserName</key>\n  <string>dock</string>\n",
            "<key>GroupName</key>\n  <string>harbour</string>\n",
        ] {
            assert!(text.contains(entry), "{entry}: {text}");
        }
        facts.owner_names = None;
        let text = facts.agent().unwrap();
        assert!(!text.contains("UserName"), "{text}");
    }
}
