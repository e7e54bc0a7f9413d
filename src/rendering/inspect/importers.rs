//! The programs that import a file directly or indirectly.

use super::{
    AnswerDocument, InspectAnswer, InspectError, Inspector, blocking, environment_choice, file_name,
};
use crate::base::model::{RepoPath, by_number, pluralize};
use crate::rendering::tanka::importers::Importer;
use crate::state::workspace::{Tree, TreeError};
use std::sync::Arc;

impl Inspector<'_> {
    pub(super) async fn importers(&self, path: &str) -> Result<InspectAnswer, InspectError> {
        let path = environment_choice::strip_code_marks(path);
        let path = path.strip_prefix("./").unwrap_or(path).trim_end_matches('/');
        let path = RepoPath::parse(path).map_err(|error| InspectError::NoAnswer(error.to_string()))?;
        let sides = self.sides().await?;
        let tree = Arc::clone(&self.workspace.tree);
        let comparer = Arc::clone(self.comparer);
        let redactor = Arc::clone(&self.workspace.guard.redactor);
        blocking(move || {
            let importers = comparer.importers(&sides, &path)?;
            let file_name = file_name(&format!("importers-{path}"), "txt", &redactor);
            answer(tree.as_ref(), &path, &importers, file_name)
        })
        .await
    }
}

fn answer(
    tree: &dyn Tree,
    path: &RepoPath,
    importers: &[Importer],
    file_name: String,
) -> Result<InspectAnswer, InspectError> {
    let missing = match tree.read(path) {
        Err(error @ TreeError::NotFound { .. }) => Some(error),
        // The path may also be a directory.
        Ok(_) | Err(_) => None,
    };
    let count = pluralize(importers.len(), "entry point", "entry points");
    let verb = |one, many| by_number(importers.len(), one, many);
    let summary = match (missing, importers.is_empty()) {
        (Some(error), true) => return Err(InspectError::NoAnswer(error.to_string())),
        (Some(_), false) => format!("`{path}` does not exist; {count} would import it."),
        (None, true) => return Ok(InspectAnswer::only(format!("No entry point imports `{path}`."))),
        (None, false) => format!("{count} {} `{path}`, directly or not.", verb("imports", "import")),
    };
    let lines = importers
        .iter()
        .map(|importer| format!("{}\n", importer.entrypoint));
    Ok(InspectAnswer {
        summary,
        document: Some(AnswerDocument {
            file_name,
            language: "",
            text: lines.collect(),
        }),
        broken: Vec::new(),
    })
}
