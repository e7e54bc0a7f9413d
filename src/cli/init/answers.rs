//! The answers of a person, or of options and defaults. A secret is never shown, and is kept until the configuration is
//! written.

use crate::base::config::{ConfigSources, NewValue, SecretReference};
use crate::base::model::Secret;
use crate::cli::CliError;
use crate::cli::input::{InputLine, InputReader};
use crate::cli::output::Output;
use crate::cli::secret_input::HiddenEcho;
use std::io::{IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tokio::io::{BufReader, Stdin};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The maximum number of bytes of an answer.
const ANSWER_BYTES_MAX: usize = 16_384;
/// The number of empty answers to a question without a default after which nobody is asked again.
const EMPTY_ANSWERS_MAX: usize = 5;

/// A question for a text.
pub(super) struct SetupQuestion<'a> {
    /// The question.
    pub(super) text: &'a str,
    /// The option that answers it.
    pub(super) option: &'static str,
    /// The answer if nothing is typed.
    pub(super) default: Option<&'a str>,
}

/// The source of answers.
pub(super) struct Answers {
    output: Output,
    /// The terminal and its interrupts; none if nothing may be asked.
    input: Option<(InputReader<BufReader<Stdin>>, Signal)>,
    /// The typed secrets, with the names of their files.
    typed: Vec<(String, Secret)>,
}

impl Answers {
    /// Asks at the terminal, unless `options_only`; fails if there is no terminal.
    pub(super) fn new(options_only: OptionsOnly, output: Output) -> Result<Self, CliError> {
        let input = match options_only {
            OptionsOnly::Yes => None,
            OptionsOnly::No if std::io::stdin().is_terminal() => {
                // The signal handler is installed before the first question, so that no Ctrl-C is missed.
                let interrupts = signal(SignalKind::interrupt()).map_err(CliError::failed)?;
                Some((InputReader::standard(ANSWER_BYTES_MAX), interrupts))
            }
            OptionsOnly::No => {
                return Err(CliError::usage(
                    "there is no terminal to ask at; give the answers as options, with --non-interactive --yes",
                ));
            }
        };
        Ok(Self {
            output,
            input,
            typed: Vec::new(),
        })
    }

    /// Tells a person something.
    pub(super) fn say(&self, text: &str) {
        self.output.message(text);
    }

    /// Returns the answer to a question: that of its option, a typed one, or the default.
    pub(super) async fn text(
        &mut self,
        question: &SetupQuestion<'_>,
        given: Option<&str>,
    ) -> Result<String, CliError> {
        if let Some(given) = given {
            return Ok(given.to_owned());
        }
        let missing = || CliError::usage(format!("give {}: {}", question.option, question.text));
        if self.input.is_none() {
            return question.default.map(str::to_owned).ok_or_else(missing);
        }
        let default = question.default.map(|default| format!(" [{default}]"));
        for _ in 0..EMPTY_ANSWERS_MAX {
            self.output.prompt(&format!(
                "{}{}: ",
                question.text,
                default.as_deref().unwrap_or_default()
            ));
            let typed = self.line().await?;
            match (typed.trim(), question.default) {
                ("", None) => {}
                ("", Some(default)) => return Ok(default.to_owned()),
                (typed, _) => return Ok(typed.to_owned()),
            }
        }
        Err(missing())
    }

    /// Asks for a yes, which is the default.
    pub(super) async fn confirm(&mut self, question: &str) -> Result<bool, CliError> {
        self.output.prompt(&format!("{question} [Y/n]: "));
        let typed = self.line().await?;
        Ok(matches!(typed.trim().to_lowercase().as_str(), "" | "y" | "yes"))
    }

    /// Returns the reference to a secret: that of its option, the variable, or a file for a typed secret.
    pub(super) async fn secret(
        &mut self,
        option: &str,
        given: Option<&str>,
        variable: &str,
        file: &str,
        sources: &ConfigSources,
    ) -> Result<NewValue, CliError> {
        if let Some(given) = given {
            let reference = SecretReference::parse(given);
            return reference
                .map(NewValue::Secret)
                .map_err(|why| CliError::usage(format!("{option}: {why}")));
        }
        let by_variable = NewValue::Secret(SecretReference::Variable(variable.to_owned()));
        let is_set = sources
            .environment
            .get(variable)
            .is_some_and(|value| !value.is_empty());
        if is_set || self.input.is_none() {
            return Ok(by_variable);
        }
        self.output.prompt(&format!(
            "{variable} is not set. Paste the secret for the file {file}, or press Enter to set the variable later: "
        ));
        let typed = {
            let _hidden = HiddenEcho::begin();
            self.line().await?
        };
        self.output.message("");
        match typed.trim() {
            "" => Ok(by_variable),
            secret => {
                self.typed.push((file.to_owned(), Secret::new(secret.to_owned())));
                Ok(NewValue::Secret(SecretReference::File(file.to_owned())))
            }
        }
    }

    /// Writes the typed secrets into files beside the configuration, which only this user can read. An existing file is
    /// not overwritten. If one cannot be written, none is left.
    pub(super) fn write_secrets(&self, configuration: &Path) -> Result<SecretFiles, CliError> {
        let directory = configuration.parent().unwrap_or(Path::new(""));
        let mut files = SecretFiles::default();
        for (name, secret) in &self.typed {
            let path = directory.join(name);
            if let Err(error) = files.write(&path, secret) {
                files.remove();
                let path = path.display();
                return Err(CliError::failed(format!(
                    "the secret file {path}: {error}; nothing was written"
                )));
            }
        }
        Ok(files)
    }

    /// Reads a line. The end of the input and an interrupt end the command.
    async fn line(&mut self) -> Result<String, CliError> {
        let stopped = || CliError::failed("stopped; nothing was written");
        let Some((input, interrupts)) = &mut self.input else {
            return Err(stopped());
        };
        tokio::select! {
            line = input.next() => match line.map_err(CliError::failed)? {
                InputLine::Text(text) => Ok(text),
                InputLine::NotText | InputLine::TooLong => Err(CliError::usage("the answer is too long or is no text")),
                InputLine::End => Err(stopped()),
            },
            _ = interrupts.recv() => Err(stopped()),
        }
    }
}

/// The rule that only options and defaults answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OptionsOnly {
    Yes,
    No,
}

/// The secret files that were written.
#[derive(Debug, Default)]
pub(super) struct SecretFiles(Vec<PathBuf>);

impl SecretFiles {
    fn write(&mut self, path: &Path, secret: &Secret) -> std::io::Result<()> {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
        self.0.push(path.to_owned());
        file.write_all(secret.expose().as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()
    }

    /// Removes the files again.
    pub(super) fn remove(self) {
        for path in self.0 {
            // The reason why the files are removed is reported.
            let _gone = std::fs::remove_file(path);
        }
    }
}
