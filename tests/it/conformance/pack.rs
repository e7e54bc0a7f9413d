//! The recorded packs. Those of other programs are beside the checkout, our own are in it.

use std::io::Read as _;
use std::path::Path;

/// Returns the text of a recorded pack. Returns `None`, with a notice, if there is none.
pub(super) fn read_pack(name: &str) -> Option<String> {
    // A worktree of the repository is one directory deeper than the repository.
    let places = ["../shared/oracle", "../../shared/oracle"];
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = places
        .iter()
        .find_map(|place| std::fs::File::open(root.join(place).join(name)).ok());
    let Some(file) = file else {
        eprintln!("SKIPPED needs ../shared/oracle/{name}");
        return None;
    };
    let mut text = String::new();
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut text)
        .expect("a pack is compressed text");
    Some(text)
}

/// Returns the text of a file beside this one: a pack of our own programs, or the list of known differences.
pub(super) fn read_own_file(name: &str) -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/conformance");
    std::fs::read_to_string(directory.join(name)).expect("the file exists")
}
