//! The first lines of a conversation at a terminal.

use crate::cli::output::{Output, OutputStyle};

/// The logo: a ship in a dock.
const LOGO: &str = r"
      _|__|_
  |   \____/   |
  |~~~~~~~~~~~~|
  |____________|  drydock";

/// The line about the program.
const TAGLINE: &str = "Prepares changes to configuration repositories, and never applies them.";

/// Prints the logo and one line about the program on a terminal that can show them, and nothing elsewhere.
pub(in crate::cli) fn print(output: &Output) {
    if !output.is_interactive() {
        return;
    }
    for line in LOGO.trim_start_matches('\n').lines() {
        output.styled_message(OutputStyle::Logo, line);
    }
    output.message(TAGLINE);
}
