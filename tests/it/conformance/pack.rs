//! The recorded packs: those of other programs are read beside the checkout, our own from it.

use std::io::Read as _;
use std::path::Path;

/// The text of a recorded pack, or `None`, said loudly, where there are none.
pub(super) fn read_pack(name: &str) -> Option<String> {
    // A worktree of the repository lies one directory deeper than the repository.
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

/// The text of a file beside this one: a pack of our own programs, or the list of known differences.
pub(super) fn read_own_file(name: &str) -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/conformance");
    std::fs::read_to_string(directory.join(name)).expect("the file is there")
}
