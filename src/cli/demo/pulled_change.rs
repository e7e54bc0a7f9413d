//! The scene in which a change reaches a checkout: alice logs her machine in with a code from the chat, and pulls. It
//! calls the code of `drydock login` and `drydock pull` in this process.

use crate::base::model::{FileChange, Secret};
use crate::cli::CliError;
use crate::cli::login::{LoginFile, exchange, logged_in, server_url};
use crate::cli::pull::{change_number, pull_into};
use crate::simulation::demo::demo_script::{ALICE, slack_text};
use crate::simulation::demo::environment::DemoEnvironment;
use crate::simulation::demo::repository;
use crate::simulation::demo::transcript::Transcript;
use crate::state::workspace::{Directory, Repository, Tree, patch};
use anyhow::Context;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const DIRECT: &str = "Slack, direct";
const MACHINE: &str = "alice's machine";

pub(super) async fn play(
    environment: &DemoEnvironment,
    transcript: &mut Transcript<'_>,
) -> anyhow::Result<()> {
    transcript.scene("A change is pulled into a checkout");
    let (url, code) = ask_for_code(environment, transcript).await?;
    let machine = environment.directory().join("alice");
    let logins = LoginFile::within(machine.join("config"));
    transcript.says(MACHINE, "alice", &format!("drydock login {url} <the code>"));
    let login = exchange(&logins, &url, &code).await.map_err(failure)?;
    transcript.expect_answer(MACHINE, &logged_in(&url, &login), &[" as alice, until "]);

    let checkout = machine.join("infra");
    repository::check_out(&checkout)?;
    let before = git_files(&checkout)?;
    let change = pull_command(environment).context("no result names `drydock pull`")?;
    transcript.says(MACHINE, "alice", &format!("drydock pull {change}"));
    let number = change_number(&change).map_err(anyhow::Error::msg)?;
    let pulled = pull_into(&checkout, (url.as_str(), &login), number)
        .await
        .map_err(failure)?;
    let path = "environments/dev/main.jsonnet";
    transcript.expect_answer(MACHINE, &pulled.join("\n"), &["written", path]);
    let changed = changed_lines(&checkout, &environment.base)?;
    let expected = [
        "-    image: 'registry.example.com/cache:7.4.1',",
        "+    image: 'registry.example.com/cache:7.4.2',",
    ];
    transcript.expect(
        MACHINE,
        &format!("the files differ from the commit by:\n{}", changed.join("\n")),
        pulled.len() == 1 && changed == expected,
    );
    transcript.expect(
        MACHINE,
        "nothing was staged or committed: everything below .git is as it was",
        !before.is_empty() && git_files(&checkout)? == before,
    );
    Ok(())
}

fn failure(error: CliError) -> anyhow::Error {
    anyhow::Error::msg(error.message)
}

/// Asks for a code in a direct message. Returns the address and the code of the command in the answer.
async fn ask_for_code(
    environment: &DemoEnvironment,
    transcript: &mut Transcript<'_>,
) -> anyhow::Result<(String, Secret)> {
    const COMMAND: &str = "drydock login ";
    transcript.says(DIRECT, "alice", "login");
    environment.slack.dm(ALICE, "login").await?;
    let chat = format!("D{ALICE}");
    let answer = environment.slack.wait_until(|state| {
        let answers = state.messages.iter().filter(|message| message.channel == chat);
        answers.map(slack_text).find(|text| text.contains(COMMAND))
    });
    let answer = answer.await.context("no answer to login")?;
    let (_, command) = answer.split_once(COMMAND).unwrap_or_default();
    let mut words = command.split_whitespace();
    let (url, code) = words
        .next()
        .zip(words.next())
        .context("the command has no code")?;
    let shown = answer.replace(code, "<the code>");
    transcript.expect_answer(DIRECT, &shown, &["works once", &environment.url()]);
    let url = server_url(url).map_err(failure)?;
    Ok((url, Secret::new(code.to_owned())))
}

/// Returns the change in the command of alice's newest result.
fn pull_command(environment: &DemoEnvironment) -> Option<String> {
    environment.slack.with_state(|state| {
        let texts = state.messages.iter().rev().map(slack_text);
        let mut named = texts.filter_map(|text| {
            let (_, change) = text.split_once("drydock pull ")?;
            let name = change
                .chars()
                .take_while(|next| next.is_ascii_alphanumeric() || *next == '-');
            Some(name.collect())
        });
        named.next()
    })
}

/// Returns the lines by which the files of a checkout differ from a commit.
fn changed_lines(checkout: &Path, commit: &str) -> anyhow::Result<Vec<String>> {
    let tree = Directory::open(checkout)?;
    let repository = Repository::open_personal("infra", checkout)?;
    let mut changes = Vec::new();
    for path in tree.files()?.iter() {
        let (before, after) = (repository.file_at(commit, path)?, tree.read_stored(path)?);
        if before != after {
            changes.push(FileChange {
                path: path.clone(),
                before,
                after,
            });
        }
    }
    let text = patch::write(&changes).text;
    let is_changed =
        |line: &&str| line.starts_with(['+', '-']) && !line.starts_with("+++ ") && !line.starts_with("--- ");
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok(text.lines().filter(is_changed).map(str::to_owned).collect())
}

/// Returns all files below `.git`.
#[allow(clippy::disallowed_methods, reason = "the demo reads its own checkout")]
fn git_files(checkout: &Path) -> anyhow::Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let mut waiting = vec![checkout.join(".git")];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            match path.is_dir() {
                true => waiting.push(path),
                false => drop(files.insert(path.clone(), std::fs::read(&path)?)),
            }
        }
    }
    Ok(files)
}
