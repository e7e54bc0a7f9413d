//! The checks of a session's changes, and the answers to questions about environments, which need no model.

use super::{ChangeCheck, Terminal};
use crate::cli::CliError;
use crate::cli::failure_format::FailureFormatter;
use crate::rendering::compare::BrokenEnvironment;
use crate::rendering::inspect::{InspectAnswer, InspectError, Inspector, Question};
use tokio::signal::unix::{SignalKind, signal};

impl Terminal {
    /// Checks the session's changes and their effects on environments; the result is empty without changes. Ctrl-C
    /// cancels it.
    pub(in crate::cli) async fn check_changes(&self) -> Result<ChangeCheck, CliError> {
        let stop = self.ended.child_token();
        let mut nobody = |_| {};
        let checking = self.checking.check(&mut nobody, &stop);
        tokio::pin!(checking);
        let checked = tokio::select! {
            checked = &mut checking => checked,
            _ = tokio::signal::ctrl_c() => {
                stop.cancel();
                checking.await
            }
        };
        checked.map_err(CliError::failed)
    }

    /// Answers a question about environments; Ctrl-C cancels it.
    pub(in crate::cli) async fn inspect(&self, question: &Question) -> Result<(), CliError> {
        let cancel = self.ended.child_token();
        let mut interrupts = signal(SignalKind::interrupt()).map_err(CliError::failed)?;
        let inspector = Inspector {
            workspace: &self.workspace,
            comparer: &self.checking.comparer,
            cancel: &cancel,
        };
        let answer = tokio::select! {
            answer = inspector.answer(question) => answer,
            _ = interrupts.recv() => Err(InspectError::Cancelled),
            () = self.ended.cancelled() => Err(InspectError::Cancelled),
        };
        cancel.cancel();
        match answer {
            Ok(InspectAnswer {
                summary,
                document,
                broken,
            }) => {
                self.output.line(&summary);
                if let Some(document) = document {
                    self.output.line(&match document.language {
                        "diff" => self.output.diff(&document.text),
                        _ => document.text.trim_end().to_owned(),
                    });
                }
                self.show_failures(&broken);
            }
            Err(InspectError::Fails { why, broken }) => {
                let places = self.sources().format_trace(&broken.trace);
                self.output.reply(&format!("{why}{places}"));
            }
            Err(why) => self.output.reply(&why.to_string()),
        }
        Ok(())
    }

    fn sources(&self) -> FailureFormatter<'_> {
        FailureFormatter {
            tree: self.workspace.tree.as_ref(),
            redactor: &self.redactor,
        }
    }

    /// Shows the locations where environments fail.
    pub(super) fn show_failures(&self, broken: &[BrokenEnvironment]) {
        for place in self.sources().format_failures(broken) {
            self.output.message(&place);
        }
    }
}
