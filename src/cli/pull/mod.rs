//! `drydock pull`: writes a prepared change into the files of the person's checkout. Only files of the work tree are
//! written: the index, the refs and the objects of the repository stay as they are, and no program is started.

mod plan;

use super::CliError;
use super::login::{LoginFile, MachineLogin, PersonalServer, server_url};
use super::output::Output;
use super::serve::host;
use crate::base::model::{ChangeName, ChangeNumber, PulledChange};
use crate::state::workspace::{Directory, Repository};
use clap::Args;
use plan::{Checkout, FileStep, PlannedFile};
use std::path::Path;

pub(super) const EXAMPLES: &str = "\
Examples:
  drydock pull CHG-42                            write the change into this checkout
  drydock pull 42 --check                        only say what would be written
  drydock pull 42 --patch | git apply --3way     print the patch instead
  drydock pull 42 --server https://drydock.example.com

A file that you edited is merged. If you and the change edit the same lines, nothing is written at all.
A repeated pull changes nothing. `drydock login` logs this machine in.";

#[derive(Debug, Args)]
pub(super) struct PullArguments {
    /// The change, such as `CHG-42` or `42`
    #[arg(value_parser = change_number)]
    change: ChangeNumber,
    /// The address of the server; not needed if there is one login only
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Says what would be written, and changes nothing
    #[arg(long, conflicts_with = "patch")]
    check: bool,
    /// Prints the patch to standard output, and changes nothing
    #[arg(long)]
    patch: bool,
}

/// The effect of a pull on the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PullEffect {
    /// It writes them.
    Write,
    /// It only says what it would write.
    Check,
}

/// Parses the name of a change. A revision is refused, because only the newest one can be pulled.
pub(super) fn change_number(text: &str) -> Result<ChangeNumber, String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text
            .parse()
            .map(ChangeNumber)
            .map_err(|_| "no change has such a number".to_owned());
    }
    let name: ChangeName = text
        .parse()
        .map_err(|_| "write a change as CHG-42 or 42".to_owned())?;
    match name.revision {
        None => Ok(name.number),
        Some(_) => Err(format!(
            "only the newest revision can be pulled; write CHG-{}",
            name.number
        )),
    }
}

/// Pulls a change.
pub(super) async fn run(arguments: PullArguments, output: &Output) -> Result<(), CliError> {
    let url = arguments.server.as_deref().map(server_url).transpose()?;
    let (url, login) = LoginFile::of_this_user()?.read()?.choose(url.as_deref())?;
    // A wrong directory is reported before anything is fetched.
    let checkout = match arguments.patch {
        true => None,
        false => Some(open_checkout()?),
    };
    let change = PersonalServer::new(&url)?
        .change(&login, arguments.change)
        .await?;
    if let Some(warning) = &change.warning {
        output.message(warning);
    }
    let Some(checkout) = checkout else {
        print_patch(&change, output);
        return Ok(());
    };
    let planned = checkout.plan(&change)?;
    let effect = match arguments.check {
        true => PullEffect::Check,
        false => PullEffect::Write,
    };
    if effect == PullEffect::Write {
        write(&checkout.directory, &planned)?;
    }
    report(&change, &planned, effect, output);
    Ok(())
}

/// Opens the repository of the working directory.
fn open_checkout() -> Result<Checkout, CliError> {
    #[allow(
        clippy::disallowed_methods,
        reason = "the shell is where the working directory is read"
    )]
    let here = std::env::current_dir().map_err(CliError::failed)?;
    checkout_at(&here)
}

/// Opens the repository of a directory.
fn checkout_at(directory: &Path) -> Result<Checkout, CliError> {
    let directory = Directory::open(directory).map_err(CliError::failed)?;
    let repository = Repository::open_personal("repository", directory.root()).map_err(CliError::failed)?;
    Ok(Checkout {
        repository,
        directory,
    })
}

/// Writes the files of a plan, each at once. After a failure the same pull can be repeated.
fn write(directory: &Directory, planned: &[PlannedFile]) -> Result<(), CliError> {
    directory.remove_leftovers(planned.iter().map(|file| &file.path), (host().now)());
    let mut written = 0;
    for file in planned.iter().filter(|file| file.step != FileStep::Unchanged) {
        let put = directory.put_expected(&file.path, file.current.as_ref(), file.after.clone());
        let why = match put {
            Ok(true) => {
                written += 1;
                continue;
            }
            Ok(false) => format!("`{}` was edited just now", file.path),
            Err(error) => error.to_string(),
        };
        return Err(CliError::failed(format!(
            "{why}; {written} of the files are written; run the same command again for the rest"
        )));
    }
    Ok(())
}

/// Prints a line for each file.
fn report(change: &PulledChange, planned: &[PlannedFile], effect: PullEffect, output: &Output) {
    let last = match effect {
        PullEffect::Check => "Nothing was written.",
        PullEffect::Write => "Nothing was staged or committed.",
    };
    if output.json() {
        let files: Vec<serde_json::Value> = planned
            .iter()
            .map(|file| serde_json::json!({ "path": file.path, "step": file.step }))
            .collect();
        output.value(&serde_json::json!({
            "change": format!("CHG-{}", change.change),
            "revision": change.revision,
            "repository": change.repository,
            "base": change.base,
            "written": effect == PullEffect::Write,
            "files": files,
        }));
        return;
    }
    for file in planned {
        output.line(&line_of(file));
    }
    output.message(last);
}

fn line_of(file: &PlannedFile) -> String {
    format!("{:<9}  {}", file.step.word(), file.path)
}

/// Pulls a change into the checkout at a directory, with a login that is at hand. Returns the line of each file.
pub(super) async fn pull_into(
    directory: &Path,
    (url, login): (&str, &MachineLogin),
    number: ChangeNumber,
) -> Result<Vec<String>, CliError> {
    let checkout = checkout_at(directory)?;
    let change = PersonalServer::new(url)?.change(login, number).await?;
    let planned = checkout.plan(&change)?;
    write(&checkout.directory, &planned)?;
    Ok(planned.iter().map(line_of).collect())
}

/// Prints the patch, byte for byte.
fn print_patch(change: &PulledChange, output: &Output) {
    match output.json() {
        true => output.value(&serde_json::json!({
            "change": format!("CHG-{}", change.change),
            "revision": change.revision,
            "patch": change.patch,
        })),
        false => output.bytes(change.patch.as_bytes()),
    }
}
