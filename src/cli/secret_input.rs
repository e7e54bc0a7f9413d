//! Hides what is typed at a terminal.

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// A terminal that does not show what is typed. It shows it again when this is dropped.
pub(super) struct HiddenEcho {
    before: Option<Termios>,
}

impl HiddenEcho {
    pub(super) fn begin() -> Self {
        let terminal = std::io::stdin();
        let before = tcgetattr(&terminal).ok();
        if let Some(modes) = &before {
            let mut hidden = modes.clone();
            hidden.local_modes.remove(LocalModes::ECHO);
            // If it fails, the typed text is shown, as in any other program.
            let _shown = tcsetattr(&terminal, OptionalActions::Now, &hidden);
        }
        Self { before }
    }
}

impl Drop for HiddenEcho {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _lost = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}
