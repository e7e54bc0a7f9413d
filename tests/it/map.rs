//! The map of `lib.rs` and its layers is true: a module uses only modules above it, and every test file is run.

use crate::support::source::{root, rust_files, without_comment};
use std::collections::BTreeSet;

/// Returns the modules that a file declares, in order.
fn declared_in(path: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(path)).expect("a file of the project");
    let names = text.lines().filter_map(|line| {
        let declared = ["pub mod ", "pub(crate) mod ", "mod "];
        let declared = declared.iter().find_map(|start| line.strip_prefix(start))?;
        declared.strip_suffix(';').map(str::to_owned)
    });
    names.collect()
}

/// Returns the layers in reading order, which is dependency order, with the modules of each. A layer is a folder whose
/// `mod.rs` only lists modules. Another module of `lib.rs` is alone in a layer of its own name.
fn layers() -> Vec<(String, Vec<String>)> {
    let of_layer = |name: &String| {
        let file = format!("src/{name}/mod.rs");
        let text = std::fs::read_to_string(root().join(&file)).unwrap_or_default();
        let lists = |line: &str| line.is_empty() || line.starts_with("//") || line.contains("mod ");
        match !text.is_empty() && text.lines().all(lists) {
            true => declared_in(&file),
            false => vec![name.clone()],
        }
    };
    let names = declared_in("src/lib.rs");
    names.iter().map(|name| (name.clone(), of_layer(name))).collect()
}

/// Returns the names of the layers that are folders of modules.
fn folders() -> Vec<String> {
    let layers = layers().into_iter();
    let folders = layers.filter(|(layer, modules)| *modules != [layer.clone()]);
    folders.map(|(layer, _)| layer).collect()
}

/// The files of the program itself, which uses the library.
const OF_THE_PROGRAM: [&str; 2] = ["main", "allocator"];

/// Returns the module of a file: `http` for `src/server/http/mod.rs`, `telemetry` for `src/base/telemetry.rs`; `None` for
/// a file that only lists modules.
fn module_of<'a>(path: &'a str, folders: &[String]) -> Option<&'a str> {
    let mut parts = path.strip_prefix("src/")?.split('/');
    let first = parts.next()?;
    let is_folder = folders.iter().any(|folder| folder == first);
    let part = if is_folder { parts.next()? } else { first };
    let module = part.strip_suffix(".rs").unwrap_or(part);
    let lists = module == "lib" || (is_folder && module == "mod");
    (!OF_THE_PROGRAM.contains(&module) && !lists).then_some(module)
}

/// Returns the modules a text names as `crate::module` or `crate::layer::module`, alone or in groups.
fn used_in(text: &str, folders: &[String]) -> BTreeSet<String> {
    let code: String = text.lines().map(without_comment).collect::<Vec<_>>().join("\n");
    let mut used = BTreeSet::new();
    for (position, found) in code.match_indices("crate::") {
        // `$crate::` is this crate too, but `othercrate::` is not.
        let before = code[..position].chars().next_back();
        if before.is_some_and(|before| before.is_alphanumeric() || before == '_') {
            continue;
        }
        used.extend(modules_at(&code[position + found.len()..], folders));
    }
    used
}

/// Returns the modules that a path or a group begins with.
fn modules_at(text: &str, folders: &[String]) -> Vec<String> {
    if let Some(group) = text.strip_prefix('{') {
        let entries = entries_of_group(group).into_iter();
        return entries
            .flat_map(|entry| modules_at(entry.trim(), folders))
            .collect();
    }
    let Some(word) = leading_word(text) else {
        return Vec::new();
    };
    if !folders.contains(&word) {
        return vec![word];
    }
    let rest = text[word.len()..].strip_prefix("::");
    let modules = rest.map(|rest| modules_at(rest, folders)).unwrap_or_default();
    // The name of a layer alone, or of all that it has, would hide what is used.
    if modules.is_empty() { vec![word] } else { modules }
}

/// Returns the entries of a `use` group. Its opening brace is already consumed.
fn entries_of_group(group: &str) -> Vec<String> {
    let mut entries = Vec::new();
    let mut depth = 0;
    let mut entry = String::new();
    for character in group.chars() {
        match character {
            '}' if depth == 0 => break,
            ',' if depth == 0 => entries.push(std::mem::take(&mut entry)),
            _ => {
                depth += i32::from(character == '{') - i32::from(character == '}');
                entry.push(character);
            }
        }
    }
    entries.push(entry);
    entries
}

fn leading_word(text: &str) -> Option<String> {
    let word: String = text
        .chars()
        .take_while(|next| next.is_alphanumeric() || *next == '_')
        .collect();
    (!word.is_empty()).then_some(word)
}

/// SDK-1
#[test]
fn a_module_uses_only_modules_above_it() {
    let (map, folders) = (layers(), folders());
    let map: Vec<String> = map.into_iter().flat_map(|(_, modules)| modules).collect();
    assert!(
        map.len() > 30 && folders.len() > 5,
        "the map was read: {map:?} {folders:?}"
    );
    let position = |module: &str| map.iter().position(|listed| listed == module);
    let mut offences = Vec::new();
    for (path, text) in rust_files("src") {
        let Some(module) = module_of(&path, &folders) else {
            continue;
        };
        let Some(own) = position(module) else {
            offences.push(format!("{path} belongs to no module of a layer"));
            continue;
        };
        for used in used_in(&text, &folders) {
            if folders.contains(&used) {
                offences.push(format!("{path} uses the layer `{used}` without a module"));
            }
            if position(&used).is_some_and(|used| used > own) {
                offences.push(format!("{path} uses `{used}`, which is listed below `{module}`"));
            }
        }
    }
    assert!(offences.is_empty(), "\n{}", offences.join("\n"));
}

/// The engine and its state ask a platform for its properties, so that a new platform changes nothing there.
#[test]
fn the_engine_names_no_platform() {
    const ENGINE: [&str; 6] = [
        "src/state/access/",
        "src/engine/admin",
        "src/engine/agent/",
        "src/engine/command",
        "src/engine/gateway/",
        "src/state/store/",
    ];
    let platforms = drydock::base::model::Platform::ALL;
    let variants: Vec<String> = platforms.iter().map(|platform| format!("{platform:?}")).collect();
    let names = variants
        .iter()
        .flat_map(|variant| ["Platform", "ChannelSettings"].map(|kind| format!("{kind}::{variant}")));
    let names: Vec<String> = names.collect();
    let (mut strays, mut read) = (Vec::new(), 0);
    for (path, text) in rust_files("src") {
        let is_test = ["/tests/", "/tests.rs", "/fixture.rs", "/testing.rs"]
            .iter()
            .any(|part| path.contains(part));
        if is_test || !ENGINE.iter().any(|module| path.starts_with(module)) {
            continue;
        }
        read += 1;
        let code = text.split("\n#[cfg(test)]").next().unwrap_or_default();
        let lines = code.lines().map(without_comment).enumerate();
        let named = lines.filter(|(_, line)| names.iter().any(|name| line.contains(name)));
        strays.extend(named.map(|(number, _)| format!("{path}:{}", number + 1)));
    }
    assert!(read > 50, "the files were read: {read}");
    assert!(strays.is_empty(), "\n{}", strays.join("\n"));
}

/// The modules that only test builds fill, which the diagram leaves out.
const OF_TEST_BUILDS: [&str; 2] = ["crash_point", "planted"];

#[test]
fn diagram_of_the_architecture_lists_every_module_in_order() {
    let document = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the document");
    let (_, section) = document.split_once("\n## Modules\n").expect("the section");
    let (_, diagram) = section.split_once("```text\n").expect("the diagram");
    let (diagram, _) = diagram.split_once("```").expect("the end of the diagram");
    // Each line is a layer and its modules. The diagram is read from below.
    let drawn = diagram.lines().rev().map(|line| {
        let (layer, modules) = line.split_once(' ').expect("a layer and its modules");
        let mut modules: Vec<String> = modules
            .split('·')
            .map(|module| module.trim().to_owned())
            .collect();
        modules.reverse();
        (layer.to_owned(), modules)
    });
    let mut listed = layers();
    listed.retain(|(layer, _)| !OF_TEST_BUILDS.contains(&layer.as_str()));
    assert_eq!(drawn.collect::<Vec<_>>(), listed);
}

#[test]
fn the_check_sees_uses_in_every_form_and_none_in_comments() {
    let text = "use crate::base::model::Inbound;\nuse crate::{base::config::{A, B}, store, webhook::Webhook as W};\n\
                /// See [`crate::gateway`].\n//! crate::app\nlet x = crate::server::http::serve(); // crate::cli\n\
                macro_rules! m { () => { $crate::agent::run() } }\nuse mycrate::session;\n\
                use crate::base::{redact, system::x};\nuse crate::server;\nuse crate::base::*;\n";
    let folders = ["base", "server"].map(str::to_owned);
    let expected = [
        "agent", "base", "config", "http", "model", "redact", "server", "store", "system", "webhook",
    ];
    assert_eq!(used_in(text, &folders), expected.map(str::to_owned).into());
    assert_eq!(module_of("src/server/http/mod.rs", &folders), Some("http"));
    assert_eq!(module_of("src/base/telemetry.rs", &folders), Some("telemetry"));
    assert_eq!(module_of("src/base/mod.rs", &folders), None);
    assert_eq!(module_of("src/cli/mod.rs", &folders), Some("cli"));
}

#[test]
fn no_test_file_is_forgotten() {
    let files = rust_files("tests/it");
    let declared_in = |parent: &str| {
        let (_, text) = files
            .iter()
            .find(|(path, _)| path == parent)
            .expect("the parent module");
        text.lines()
            .filter_map(|line| {
                let line = line
                    .trim_start()
                    .trim_start_matches("pub(crate) ")
                    .strip_prefix("mod ")?;
                line.strip_suffix(';').map(str::to_owned)
            })
            .collect::<BTreeSet<_>>()
    };
    for (path, _) in &files {
        let inside = path.strip_prefix("tests/it/").expect("a file below tests/it");
        let inside = inside.strip_suffix(".rs").expect("a Rust file");
        let inside = inside.strip_suffix("/mod").unwrap_or(inside);
        if inside == "main" {
            continue;
        }
        let (parent, name) = match inside.rsplit_once('/') {
            Some((parent, name)) => (format!("tests/it/{parent}/mod.rs"), name),
            None => ("tests/it/main.rs".to_owned(), inside),
        };
        assert!(
            declared_in(&parent).contains(name),
            "{path} is not declared in {parent}"
        );
    }
}

/// The files that contain `cfg` choices: one of the program, and one of each test program.
const CHOICES: [&str; 3] = ["src/base/system/mod.rs", "tests/dojo/main.rs", "tests/it/main.rs"];

#[test]
fn what_differs_by_system_is_chosen_in_one_place() {
    let asks = [
        "target_os",
        "target_arch",
        "target_env",
        "target_family",
        "target_vendor",
        "cfg(unix",
        "cfg(windows",
    ];
    let mut found = BTreeSet::new();
    for folder in ["src", "tests", "benches", "torture"] {
        for (path, text) in rust_files(folder) {
            // This file contains the words that it searches for.
            let is_this = path == "tests/it/map.rs";
            if !is_this
                && text
                    .lines()
                    .map(without_comment)
                    .any(|line| asks.iter().any(|asked| line.contains(asked)))
            {
                found.insert(path);
            }
        }
    }
    assert_eq!(found, CHOICES.map(str::to_owned).into());
}

#[test]
fn every_system_offers_the_same_and_what_is_only_linux_stays_with_it() {
    let text = |path: &str| std::fs::read_to_string(root().join(path)).expect("a file of the project");
    let offered = |path: &str| -> BTreeSet<String> {
        let text = text(path);
        let uses = text.split(';').filter_map(|item| {
            let item = item
                .trim_start()
                .trim_start_matches("pub(crate) ")
                .trim_start_matches("pub ");
            item.strip_prefix("use ")
        });
        let names = uses.flat_map(|used| {
            let names = used
                .rsplit("::")
                .next()
                .unwrap_or_default()
                .trim_matches(['{', '}', '\n', ' ']);
            names
                .split(',')
                .map(|name| name.trim().to_owned())
                .collect::<Vec<_>>()
        });
        names.filter(|name| !name.is_empty()).collect()
    };
    let linux = offered("src/base/system/linux/mod.rs");
    assert!(
        linux.contains("open_beneath") && linux.contains("LayerName"),
        "{linux:?}"
    );
    assert_eq!(linux, offered("src/base/system/macos/mod.rs"));
    // Words that only Linux knows.
    let only_linux = [
        "landlock::",
        "seccompiler::",
        "openat2",
        "OFlags::PATH",
        "/proc/",
        "pidfd",
        "libc::SYS_",
    ];
    let mut strays = Vec::new();
    for (path, text) in rust_files("src") {
        let code = text.split("\nmod tests {").next().unwrap_or_default();
        let is_test = path.contains("/tests/")
            || path.ends_with("/tests.rs")
            || path == "src/interfaces/tool/testing.rs";
        let is_linux = path.starts_with("src/base/system/linux/");
        let code = code.lines().map(without_comment);
        if !is_test
            && !is_linux
            && code
                .clone()
                .any(|line| only_linux.iter().any(|word| line.contains(word)))
        {
            strays.push(path);
        }
    }
    assert_eq!(strays, Vec::<String>::new());
}

/// Checks that tests for every system read no file of the system that only Linux has. Names of such files in the input of
/// a test are allowed.
#[test]
fn what_only_linux_can_run_is_tested_apart() {
    let reads = [
        r#"read("/proc"#,
        r#"read_dir("/proc"#,
        r#"read_to_string("/proc"#,
        r#"write("/proc"#,
        r#"symlink("/proc"#,
        r#"format!("/proc"#,
        r#"str = "/proc"#,
        "127.0.0.{",
    ];
    let only_linux = [
        "src/base/system/linux/",
        "tests/it/linux/",
        "tests/dojo/memory/linux.rs",
    ];
    let (mut reading, mut seen) = (BTreeSet::new(), BTreeSet::new());
    for (path, text) in ["src", "tests", "torture"].into_iter().flat_map(rust_files) {
        // This file contains the words, and the stand-ins for helm attempt such reads.
        let is_other = path == "tests/it/map.rs" || path.starts_with("tests/programs/");
        if is_other || !reads.iter().any(|read| text.contains(read)) {
            continue;
        }
        match only_linux.iter().find(|place| path.starts_with(**place)) {
            Some(place) => seen.insert((*place).to_owned()),
            None => reading.insert(path),
        };
    }
    assert_eq!(reading, BTreeSet::new());
    assert_eq!(seen, only_linux.map(str::to_owned).into());
}
