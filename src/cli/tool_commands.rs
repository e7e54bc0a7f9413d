//! The list of commands about environments, packages and charts in the demo's help. It has each terminal command, its
//! description, and the model's tool with the same function. It is generated from the command-line parser and the
//! tools, each of which names its command.

use super::{CommandLine, comparer, evaluator};
use crate::base::config::SandboxSettings;
use crate::base::redact::Redactor;
use crate::interfaces::tool::{self, Tool, ToolServices};
use crate::rendering::bundler::OfflineFetcher;
use crate::rendering::helm::Helm;
use crate::rendering::sandbox::ProgramPath;
use clap::CommandFactory;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The commands that are listed with their subcommands.
const LISTED_COMMANDS: [&str; 2] = ["tanka", "jb"];

/// A command for the list.
struct ListedCommand {
    /// The words of the command, without the program's name.
    path: String,
    about: String,
}

/// Returns the list of commands for the demo's help, one per line.
pub(super) fn command_list() -> String {
    let tools = tool_commands();
    let commands = commands();
    let widest = |lengths: &mut dyn Iterator<Item = usize>| lengths.max().unwrap_or_default();
    let command_width = widest(&mut commands.iter().map(|command| command.path.len()));
    let tool_width = widest(&mut tools.values().map(|tool| tool.len()));
    let mut lines = vec!["Tools in the terminal, each with --json, and their names for a model:".to_owned()];
    for ListedCommand { path, about } in &commands {
        let tool = tools.get(path.as_str()).copied().unwrap_or_default();
        lines.push(format!(
            "  drydock {path:command_width$}  {tool:tool_width$}  {about}"
        ));
    }
    lines.join("\n")
}

/// Returns the commands that tools name, each with its tool.
fn tool_commands() -> BTreeMap<&'static str, &'static str> {
    let named = tools()
        .into_iter()
        .filter_map(|tool| Some((tool.command()?, tool.spec().name)));
    named.collect()
}

/// Returns the names of all tools of Drydock.
pub(super) fn tool_names() -> BTreeSet<String> {
    let tools = tools();
    tools.iter().map(|tool| tool.spec().name.to_owned()).collect()
}

/// Returns all tools. Nothing is started or contacted for this.
fn tools() -> Vec<Arc<dyn Tool>> {
    let settings = SandboxSettings::default();
    let mut programs = settings.programs.clone();
    // The list includes the tools that need helm, whether or not it is installed.
    programs.helm = Some("helm".into());
    let evaluator = evaluator(&settings);
    let services = ToolServices {
        packages: Arc::new(OfflineFetcher),
        comparer: comparer(Arc::clone(&evaluator), Arc::new(Redactor::new([]))),
        evaluator,
        helm: Helm::configured(ProgramPath::current(), &programs).map(Arc::new),
    };
    tool::all(&services)
}

/// Returns the commands below [`LISTED_COMMANDS`], in the order of their help.
fn commands() -> Vec<ListedCommand> {
    let program = CommandLine::command();
    let mut typed = Vec::new();
    let mut open: Vec<(String, &clap::Command)> = LISTED_COMMANDS
        .iter()
        .rev()
        .filter_map(|verb| Some(((*verb).to_owned(), program.find_subcommand(verb)?)))
        .collect();
    while let Some((path, command)) = open.pop() {
        let below: Vec<&clap::Command> = command.get_subcommands().collect();
        if below.is_empty() {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            typed.push(ListedCommand { path, about });
            continue;
        }
        let below = below.into_iter().rev();
        open.extend(below.map(|below| (format!("{path} {}", below.get_name()), below)));
    }
    typed
}

#[cfg(test)]
mod tests {
    use super::{command_list, commands, tool_commands, tools};
    use std::collections::BTreeSet;

    #[test]
    fn every_tanka_jb_and_helm_tool_has_a_command_and_the_list_shows_both() {
        let (tool_commands, commands, listed) = (tool_commands(), commands(), command_list());
        let is_ours = |tool: &&str| {
            ["tanka_", "jb_", "helm_"]
                .iter()
                .any(|kind| tool.starts_with(kind))
        };
        let tools = tools();
        let ours: BTreeSet<&str> = tools
            .iter()
            .map(|tool| tool.spec().name)
            .filter(is_ours)
            .collect();
        assert!(ours.len() >= 14, "{ours:?}");
        assert_eq!(ours, tool_commands.values().copied().collect());
        for (command, tool) in tool_commands {
            assert!(commands.iter().any(|typed| typed.path == command), "{command}");
            let line = listed
                .lines()
                .find(|line| line.contains(&format!("drydock {command} ")));
            let line = line.unwrap_or_default();
            assert!(line.split_whitespace().any(|word| word == tool), "{tool}: {line}");
        }
        assert_eq!(listed.lines().count(), commands.len() + 1);
        assert!(commands.iter().all(|typed| !typed.about.is_empty()));
    }
}
