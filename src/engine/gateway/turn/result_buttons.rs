//! The buttons below a result. Each has a token from the start; the change that is stored at the end decides which of
//! them are shown. They are for one revision, never for a later one.

use super::{OpenedTurn, TurnRunner};
use crate::base::model::{Button, ButtonStyle, Change, ChangeName};
use crate::engine::command::Verb;
use crate::engine::gateway::change_view;
use crate::engine::gateway::commands::{ResultButton, discard_question};
use crate::state::store::{ActionOwner, NewAction};

/// A token with the action to store for it.
type NewButton = (String, NewAction);

/// The buttons that a result may have.
#[derive(Clone)]
pub(super) struct ResultButtons {
    patch: NewButton,
    diff: NewButton,
    show: NewButton,
    revise: NewButton,
    undo: NewButton,
    discard: NewButton,
    /// Discards the change of a hook. The platform cannot ask, because the button belongs to no conversation of it.
    ask_discard: NewButton,
    take_over: NewButton,
    /// True if the platform asks before the change is discarded.
    confirms_presses: bool,
    /// True for the change of a service, whose buttons belong to everybody who is admitted.
    is_of_service: bool,
}

impl ResultButtons {
    pub(super) fn new(runner: &TurnRunner, opened: &OpenedTurn) -> Self {
        let platform = opened.conversation.key.place.account.platform;
        let confirms_presses = platform.chat().is_some_and(|chat| chat.confirms_presses);
        let new = |word: &str| runner.button(word, String::new(), opened);
        Self {
            patch: new(Verb::Patch.word()),
            diff: new(ResultButton::FullDiff.word()),
            show: new(ResultButton::Show.word()),
            revise: new(ResultButton::Revise.word()),
            undo: new(Verb::Undo.word()),
            ask_discard: new(ResultButton::AskDiscard.word()),
            discard: new(match confirms_presses {
                true => Verb::Discard.word(),
                false => ResultButton::AskDiscard.word(),
            }),
            take_over: new(ResultButton::TakeOver.word()),
            confirms_presses,
            is_of_service: opened.identity.sender().platform.chat().is_none(),
        }
    }

    /// Returns the buttons below the result of an event, with their actions. Those of a service are for everybody who is
    /// admitted, and those of a person's schedule for that person.
    pub(super) fn of_hook(&self, change: &Change) -> (Vec<Button>, Vec<NewAction>) {
        let shown = [
            (patch_label(change), ButtonStyle::Plain, &self.patch),
            ("Full diff", ButtonStyle::Plain, &self.diff),
            ("Take over", ButtonStyle::Primary, &self.take_over),
            ("Discard", ButtonStyle::Danger, &self.ask_discard),
        ];
        let buttons = shown.map(|(label, style, new)| {
            let (button, action) = bound(label, style, new, change);
            let owner = match self.is_of_service {
                true => ActionOwner::ADMITTED,
                false => action.owner.clone(),
            };
            (button, NewAction { owner, ..action })
        });
        buttons.into_iter().unzip()
    }

    /// Returns the buttons below the result of a new revision, with their actions.
    pub(super) fn of_change(&self, change: &Change) -> (Vec<Button>, Vec<NewAction>) {
        let mut shown = vec![
            (patch_label(change), ButtonStyle::Primary, &self.patch),
            ("Full diff", ButtonStyle::Plain, &self.diff),
            ("Revise", ButtonStyle::Plain, &self.revise),
        ];
        // The first revision is undone by a discard.
        if change.revision > 1 {
            shown.push(("Undo", ButtonStyle::Plain, &self.undo));
        }
        let (mut buttons, mut actions): (Vec<_>, Vec<_>) = shown
            .into_iter()
            .map(|(label, style, new)| bound(label, style, new, change))
            .unzip();
        let (mut discard, action) = bound("Discard", ButtonStyle::Danger, &self.discard, change);
        discard.confirmation = self.confirms_presses.then(|| discard_question(&action.argument));
        buttons.push(discard);
        actions.push(action);
        (buttons, actions)
    }

    /// Returns the button below the result of a turn that left the change as it was, with its action.
    pub(super) fn of_unchanged(&self, change: &Change) -> (Button, NewAction) {
        let label = format!("Show CHG-{}", change.number);
        bound(&label, ButtonStyle::Plain, &self.show, change)
    }
}

fn patch_label(change: &Change) -> &'static str {
    match change_view::failing_count(change) {
        Some(_) => "Get patch anyway",
        None => "Get patch",
    }
}

/// Returns a button for one revision, with its action.
fn bound(
    label: &str,
    style: ButtonStyle,
    (token, action): &NewButton,
    change: &Change,
) -> (Button, NewAction) {
    let name = ChangeName {
        number: change.number,
        revision: Some(change.revision),
    };
    let action = NewAction {
        argument: name.to_string(),
        ..action.clone()
    };
    (Button::new(label, token, style), action)
}
