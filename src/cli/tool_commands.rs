//! The list of commands about environments, packages and charts in the demo's help. It has each terminal command, its
//! description, and the model's tool with the same function. It is generated from the command-line parser and the
//! toolbox.

use super::{CommandLine, comparer, evaluator};
use crate::bundler::OfflineFetcher;
use crate::config::SandboxSettings;
use crate::helm::Helm;
use crate::redact::Redactor;
use crate::sandbox::ProgramPath;
use crate::tool::{self, ToolServices};
use clap::CommandFactory;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The commands that are listed with their subcommands.
const LISTED_COMMANDS: [&str; 2] = ["tanka", "jb"];

/// The tools, each with the command of the same function.
const TOOL_COMMANDS: [(&str, &str); 14] = [
    ("helm_dependency_build", "tanka charts build"),
    ("helm_dependency_list", "tanka charts dependencies"),
    ("helm_dependency_update", "tanka charts update"),
    ("helm_lint", "tanka charts lint"),
    ("jb_init", "jb init"),
    ("jb_install", "jb install"),
    ("jb_list", "jb list"),
    ("jb_plan", "jb plan"),
    ("jb_update", "jb update"),
    ("tanka_diff", "tanka env diff"),
    ("tanka_find_environments", "tanka env list"),
    ("tanka_format_jsonnet", "tanka fmt"),
    ("tanka_show", "tanka env show"),
    ("tanka_validate_jsonnet", "tanka lint"),
];

/// A command for the list.
struct ListedCommand {
    /// The words of the command, without the program's name.
    path: String,
    about: String,
}

/// Returns the list of commands for the demo's help, one per line.
pub(super) fn command_list() -> String {
    let tools = tool_names();
    let commands = commands();
    let widest = |lengths: &mut dyn Iterator<Item = usize>| lengths.max().unwrap_or_default();
    let command_width = widest(&mut commands.iter().map(|command| command.path.len()));
    let tool_width = widest(&mut TOOL_COMMANDS.iter().map(|(tool, _)| tool.len()));
    let mut lines = vec!["Tools in the terminal, each with --json, and their names for a model:".to_owned()];
    for ListedCommand { path, about } in &commands {
        let tool = TOOL_COMMANDS
            .iter()
            .find(|(tool, command)| command == path && tools.contains(tool))
            .map_or("", |(tool, _)| tool);
        lines.push(format!(
            "  drydock {path:command_width$}  {tool:tool_width$}  {about}"
        ));
    }
    lines.join("\n")
}

/// Returns the names of all tools. Nothing is started or contacted for this.
fn tool_names() -> BTreeSet<&'static str> {
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
    tool::all(&services).iter().map(|tool| tool.spec().name).collect()
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
    use super::{TOOL_COMMANDS, command_list, commands, tool_names};

    #[test]
    fn every_tanka_jb_and_helm_tool_has_a_command_and_the_list_shows_both() {
        let (tools, commands, listed) = (tool_names(), commands(), command_list());
        let is_ours = |tool: &&&str| {
            ["tanka_", "jb_", "helm_"]
                .iter()
                .any(|kind| tool.starts_with(kind))
        };
        let ours: Vec<&str> = tools.iter().filter(is_ours).copied().collect();
        assert_eq!(ours, TOOL_COMMANDS.map(|(tool, _)| tool));
        for (tool, command) in TOOL_COMMANDS {
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
