//! Attachments in the requests of a turn. A model that does not take those of the open turn is not asked. Of those of earlier
//! turns, it gets the names.

use super::models::TurnModel;
use super::{LoopEnd, TurnLoop};
use crate::base::model::{History, Turn, Verdict};
use std::borrow::Cow;

/// The beginning of the line that replaces an attachment that a model does not take.
const NOT_TAKEN: &str = "[not sent to this model]";

impl TurnLoop<'_> {
    /// Returns the end of a turn whose model does not take its attachments.
    pub(super) fn refuse_attachments(&self, history: &History) -> Option<LoopEnd> {
        let why = self.model().refusal_of_open_turn(history)?;
        let notice = format!("I did not ask the model: {why}.");
        Some(LoopEnd::notice(Verdict::Limit, notice))
    }
}

impl TurnModel<'_> {
    /// Returns the reason why the model cannot be asked about the attachments of the open turn; `None` if it takes all.
    pub(super) fn refusal_of_open_turn(&self, history: &History) -> Option<String> {
        let turn = history.turns().last();
        self.refusal_of(turn.map_or(&[], Turn::attachments))
    }

    /// Returns turns without the attachments that the model does not take.
    pub(super) fn taken<'t>(&self, turns: Cow<'t, [Turn]>) -> Cow<'t, [Turn]> {
        let takes_all = |turn: &Turn| turn.attachments().iter().all(|attachment| self.takes(attachment));
        if turns.iter().all(takes_all) {
            return turns;
        }
        let taken = |turn: &Turn| match takes_all(turn) {
            true => turn.clone(),
            false => turn.with_attachments_kept(NOT_TAKEN, |attachment| self.takes(attachment)),
        };
        turns.iter().map(taken).collect()
    }
}
