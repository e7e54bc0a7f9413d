//! A person who does what a chapter says, and nothing else: runs its commands with the real program, does on the pages of
//! the platform what its words say, and writes its messages. The error says which step did not work.

use super::chapter::StepPart;
use crate::support::shell::{BOUND, ProgramOutput, RunningProgram, Shell, commit, run_to_end};
use drydock::base::http_client::api_client;
use drydock::simulation::emulator::model::{ModelEmulator, ModelRequest, says};
use std::time::{Duration, Instant};

/// The key of the model.
const KEY: &str = "sk-ant-test-0123456789";
/// The answer of the model to every request.
pub(crate) const ANSWER: &str = "There are no environments.";
/// The repository of the document.
const REPOSITORY: &str = "/srv/git/infra";
/// The public address of the document, which a proxy passes on to the server.
pub(crate) const ORIGIN: &str = "https://drydock.example.com";

/// A platform with its pages, and its chats.
pub(crate) trait VisitedPlatform {
    /// Returns the variable with the address of the emulator, and its value.
    fn api(&self) -> (&'static str, String);

    /// Does what the words of a step say about the pages of the platform. `printed` is the output of the last command.
    async fn visit(&mut self, words: &str, printed: &ProgramOutput) -> Result<(), String>;

    /// Returns the secret for a variable, if the person knows by now where it is.
    fn secret(&self, variable: &str) -> Option<&'static str>;

    /// Connects the platform to a running server, as a proxy at the public address would.
    async fn reach(&mut self, server: &str);

    /// Writes a message as the person.
    async fn say(&mut self, words: &str) -> Result<(), String>;

    /// Waits for an answer with this text to the last message.
    async fn wait_for_answer(&self, text: &str) -> Result<(), String>;

    /// Returns what the platform found wrong, and what it lacks at the end.
    fn problems(&self) -> Vec<String>;

    /// Returns all secrets, which no command may print.
    fn secrets(&self) -> Vec<&'static str>;
}

/// A person at a terminal.
struct Walk<'a, P> {
    platform: &'a mut P,
    shell: Shell,
    variables: Vec<(String, String)>,
    printed: ProgramOutput,
    server: Option<RunningProgram>,
    /// The token of the last invite.
    token: Option<String>,
    was_answered: bool,
    was_diagnosed: bool,
}

/// Does all steps. The error names the part of a step that did not work.
pub(crate) async fn walk(platform: &mut impl VisitedPlatform, steps: &[Vec<StepPart>]) -> Result<(), String> {
    let model = ModelEmulator::start(|_: &ModelRequest| says(ANSWER)).unwrap();
    let shell = Shell::new()
        .set("DRYDOCK_PROVIDERS__ANTHROPIC__BASE_URL", model.url())
        .set("DRYDOCK_SERVER__LISTEN", "127.0.0.1:0")
        .set("DRYDOCK_DATA__DIRECTORY", "data");
    let infra = shell.home().join("infra");
    std::fs::create_dir(&infra).unwrap();
    commit(&infra, &[("main.jsonnet", "{}\n")]);
    let mut walk = Walk {
        platform,
        shell,
        variables: Vec::new(),
        printed: ProgramOutput {
            code: None,
            out: String::new(),
            err: String::new(),
        },
        server: None,
        token: None,
        was_answered: false,
        was_diagnosed: false,
    };
    let mut done = Ok(());
    for (number, step) in steps.iter().enumerate() {
        for part in step {
            if done.is_ok() {
                let result = Box::pin(walk.part(part)).await;
                done = result.map_err(|why| format!("step {}, {part:?}: {why}", number + 1));
            }
        }
    }
    done = done.and_then(|()| walk.conclusion());
    if let Some(server) = walk.server.take() {
        server.terminate();
        let ended = tokio::task::block_in_place(|| server.end());
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    model.shutdown().await;
    done
}

impl<P: VisitedPlatform> Walk<'_, P> {
    async fn part(&mut self, part: &StepPart) -> Result<(), String> {
        let (language, lines) = match part {
            StepPart::Words(words) => return self.platform.visit(words, &self.printed).await,
            StepPart::Block(language, lines) => (language, lines),
        };
        match language.as_str() {
            "sh" => {
                for line in lines {
                    self.command(line).await?;
                }
                Ok(())
            }
            "toml" => self.find_in_configuration(lines),
            "json" => self.find_manifest(lines),
            "text" if lines.iter().any(|line| line.starts_with("you: ")) => self.talk(lines).await,
            "text" => self.find_in_output(lines),
            other => Err(format!("a person knows no `{other}`")),
        }
    }

    /// Runs a line of a shell.
    async fn command(&mut self, line: &str) -> Result<(), String> {
        if let Some(assignment) = line.strip_prefix("export ") {
            let (name, _) = assignment.split_once('=').ok_or("no assignment")?;
            let value = match name {
                "ANTHROPIC_API_KEY" => Some(KEY),
                name => self.platform.secret(name),
            };
            let value = value.ok_or_else(|| format!("nothing says where {name} is"))?;
            self.variables.push((name.to_owned(), value.to_owned()));
            return Ok(());
        }
        let infra = self.shell.home().join("infra").display().to_string();
        let line = line.replace(REPOSITORY, &infra);
        let mut words = line.split_whitespace();
        if words.next() != Some("drydock") {
            return Err("a person has no other program".to_owned());
        }
        let arguments: Vec<&str> = words.collect();
        let mut command = self.shell.drydock(&arguments);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        // The address of the emulator is a key of a channel, which the configuration has or gets.
        let is_configured = self.shell.work().join("drydock.toml").exists();
        let adds_channel = arguments.first() == Some(&"init") && !line.contains("--chat none");
        command.envs((is_configured || adds_channel).then(|| self.platform.api()));
        if arguments == ["serve"] {
            if !is_configured {
                return Err("there is no configuration".to_owned());
            }
            return self.serve(RunningProgram::start(command)).await;
        }
        let printed = tokio::task::block_in_place(|| run_to_end(command));
        let shown = format!("{printed:?}");
        let mut secrets = self.platform.secrets().into_iter().chain([KEY]);
        if let Some(secret) = secrets.find(|secret| shown.contains(*secret)) {
            return Err(format!("it prints the secret {secret}: {shown}"));
        }
        if printed.code != Some(0) {
            return Err(shown);
        }
        self.was_diagnosed |= arguments == ["doctor"];
        if arguments.first() == Some(&"invite") {
            self.token = token_in(&printed.out);
        }
        self.printed = printed;
        Ok(())
    }

    /// Waits until a server is ready.
    async fn serve(&mut self, mut running: RunningProgram) -> Result<(), String> {
        let line = tokio::task::block_in_place(|| running.wait_for_stderr_line("listening on http://"));
        self.server = Some(running);
        let line: serde_json::Value = serde_json::from_str(&line).map_err(|error| error.to_string())?;
        let url = format!("http://{}", line["address"].as_str().unwrap());
        let (client, started) = (api_client().unwrap(), Instant::now());
        loop {
            let asked = client.get(format!("{url}/readyz")).send().await;
            if asked.is_ok_and(|answer| answer.status().is_success()) {
                break;
            }
            if started.elapsed() > BOUND {
                return Err("the server is never ready".to_owned());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.platform.reach(&url).await;
        Ok(())
    }

    /// Finds each section of a block in the configuration file.
    fn find_in_configuration(&self, lines: &[String]) -> Result<(), String> {
        let file = self.shell.work().join("drydock.toml");
        let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
        let block = lines.join("\n");
        match block.split("\n\n").find(|section| !text.contains(*section)) {
            None => Ok(()),
            Some(section) => Err(format!("no {section:?} in {text}")),
        }
    }

    /// Compares a block with the printed manifest.
    fn find_manifest(&self, lines: &[String]) -> Result<(), String> {
        let parsed = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
        let documented = parsed(&lines.join("\n"));
        match documented.is_some() && documented == parsed(&self.printed.out) {
            true => Ok(()),
            false => Err(format!(
                "it is not what the program printed: {}",
                self.printed.out
            )),
        }
    }

    /// Finds each line of a block in the output of the last command.
    fn find_in_output(&self, lines: &[String]) -> Result<(), String> {
        let printed = format!("{}\n{}", self.printed.out, self.printed.err);
        let missing = lines
            .iter()
            .find(|shown| !printed.lines().any(|line| is_shown(line, shown)));
        match missing {
            None => Ok(()),
            Some(line) => Err(format!("no {line:?} in {printed}")),
        }
    }

    /// Writes the messages of a conversation, and waits for the answers.
    async fn talk(&mut self, lines: &[String]) -> Result<(), String> {
        if self.server.is_none() {
            return Err("no server runs".to_owned());
        }
        for line in lines {
            if let Some(words) = line.strip_prefix("you: ") {
                let words = match words.strip_suffix("...") {
                    Some(start) => format!("{start}{}", self.token.as_ref().ok_or("there is no invite")?),
                    None => words.to_owned(),
                };
                self.platform.say(&words).await?;
            } else if line == "Drydock: ..." {
                self.platform.wait_for_answer(ANSWER).await?;
                self.was_answered = true;
            } else {
                let text = line.strip_prefix("Drydock: ").ok_or("nobody says this")?;
                self.platform.wait_for_answer(text).await?;
            }
        }
        Ok(())
    }

    /// Returns what a person lacks after all steps.
    fn conclusion(&self) -> Result<(), String> {
        let mut problems = self.platform.problems();
        problems.extend((!self.was_answered).then(|| "no question was answered".to_owned()));
        problems.extend((!self.was_diagnosed).then(|| "nothing says how to find a fault".to_owned()));
        match problems.is_empty() {
            true => Ok(()),
            false => Err(problems.join("\n")),
        }
    }
}

/// Returns the token in the words of an invite.
fn token_in(printed: &str) -> Option<String> {
    let words = printed
        .split_once("join ")
        .or_else(|| printed.split_once("start="));
    let is_of_token = |next: &char| next.is_ascii_alphanumeric() || matches!(next, '-' | '_');
    words.map(|(_, token)| token.chars().take_while(is_of_token).collect())
}

/// Returns true if a line is as a document shows it, where `...` stands for any text and a space for several.
fn is_shown(line: &str, shown: &str) -> bool {
    let spaced = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (line, shown) = (spaced(line), spaced(shown));
    let mut pieces = shown.split("...");
    let Some(mut rest) = line.strip_prefix(pieces.next().unwrap_or_default()) else {
        return false;
    };
    let mut is_open = false;
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
        is_open = piece.is_empty();
    }
    is_open || rest.is_empty()
}

#[test]
fn a_line_of_a_document_stands_for_those_that_fill_its_gaps() {
    assert!(is_shown(
        "slack   token  ok  drydock in Acme",
        "slack  token  ok  drydock in ..."
    ));
    assert!(is_shown("a: send `join x-y` to b", "a: send `join ...` to b"));
    for line in [
        "a: send `join x-y` to c",
        "a: send `join x-y` to b and c",
        "the a: send `join x` to b",
    ] {
        assert!(!is_shown(line, "a: send `join ...` to b"), "{line}");
    }
    assert_eq!(
        token_in("slack: send `join A_b-9` to @x"),
        Some("A_b-9".to_owned())
    );
    assert_eq!(
        token_in("telegram: https://t.me/x?start=A_b-9\n"),
        Some("A_b-9".to_owned())
    );
}
