//! Tests of the facts about the known providers, and of the tables that show them to operators.

use super::{problems, sources, with};
use crate::base::config::{Config, KNOWN_PROVIDERS, KnownProvider, ProviderId, WireFormat};

const README: &str = include_str!("../../../../README.md");
const REFERENCE: &str = include_str!("../../../../config/drydock.toml");

/// Returns the name of a provider and its aliases.
fn names(known: &KnownProvider) -> Vec<&'static str> {
    [&[known.name], known.aliases].concat()
}

#[test]
fn a_name_means_one_provider() {
    for known in KNOWN_PROVIDERS {
        for name in names(known) {
            assert_eq!(ProviderId::of(name), known.id, "{name}");
        }
    }
    assert_eq!(ProviderId::of("my-house"), ProviderId::Custom);
}

/// CI-21
#[test]
fn every_known_provider_finds_its_key_in_each_of_its_variables() {
    for known in KNOWN_PROVIDERS {
        let own_url = known.base_url.unwrap_or("https://models.example.com");
        let section = match known.base_url {
            Some(_) => String::new(),
            None => format!("[providers.{}]\nbase_url = \"{own_url}\"\n", known.name),
        };
        for name in names(known) {
            let file = format!("[model]\ndefault = \"{name}/m\"\n{section}");
            for variable in known.variables {
                let config = Config::load(with(&file, &[(variable, "key-0123456789")])).unwrap();
                let account = &config.providers[known.name];
                let key = account.api_key.as_ref().map(|key| key.expose());
                assert_eq!(key, Some("key-0123456789"), "{variable}");
                assert_eq!(account.base_url, own_url, "{name}");
            }
            if known.variables.is_empty() {
                assert_eq!(problems(sources(&file)), [""; 0], "{name}");
            }
        }
    }
}

/// CI-20
#[test]
fn each_provider_has_its_format_and_an_operator_chooses_another() {
    let wire = |name: &str, settings: &str| {
        let file = format!(
            "[model]\ndefault = \"{name}/m\"\n[providers.{name}]\napi_key = {{ env = \"HOOK_SECRET\" }}\n{settings}"
        );
        Config::load(sources(&file)).unwrap().providers[name].wire.word()
    };
    let house = "base_url = \"https://models.example.com/v1\"\n";
    for (name, expected) in [
        ("anthropic", "anthropic-messages"),
        ("openai", "openai-responses"),
        ("google", "gemini-generate"),
        ("openrouter", "openai-chat"),
    ] {
        assert_eq!(wire(name, ""), expected);
    }
    assert_eq!(wire("azure", house), "openai-chat");
    assert_eq!(wire("my-house", house), "openai-chat");
    let chat = "base_url = \"https://generativelanguage.googleapis.com/v1beta/openai/\"\n";
    assert_eq!(wire("google", chat), "openai-chat");
    for word in WireFormat::WORDS {
        for name in ["openai", "google", "my-house"] {
            assert_eq!(
                wire(name, &format!("{house}wire = \"{word}\"\n")),
                *word,
                "{name}"
            );
        }
    }
    let file = "[providers.openai]\nwire = \"openai\"\n";
    let refused = "drydock.toml:2: providers.openai.wire: expected one of anthropic-messages, openai-chat, openai-responses, gemini-generate";
    assert!(
        problems(sources(file)).contains(&refused.to_owned()),
        "{:?}",
        problems(sources(file))
    );
}

/// Returns the columns of the rows that `begin` and `end` enclose.
fn rows<'a>(text: &'a str, begin: &str, end: &str, separator: &str) -> Vec<Vec<&'a str>> {
    let (_, table) = text.split_once(begin).expect(begin);
    let (table, _) = table.split_once(end).expect(end);
    let cells = |line: &'a str| -> Vec<&'a str> {
        let cells = line.trim_matches(['#', '|', ' ']).split(separator);
        cells.map(str::trim).filter(|cell| !cell.is_empty()).collect()
    };
    table.lines().map(cells).filter(|row| !row.is_empty()).collect()
}

#[test]
fn the_tables_of_providers_list_the_known_ones() {
    let code = |words: &[&str]| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>();
    let mut reference = rows(REFERENCE, "of the key:\n#\n", "\n#\n", "  ");
    let other = reference.pop();
    assert_eq!(other.map(|row| row[0]), Some("my-name"));
    let expected = KNOWN_PROVIDERS.iter().map(|known| {
        let mut key = known.variables.join(" or ");
        if key.is_empty() {
            key = "needs no key".to_owned();
        }
        for alias in known.aliases {
            key.push_str(&format!("; also {alias}"));
        }
        let base_url = known.base_url.unwrap_or("needs base_url");
        vec![known.name.to_owned(), base_url.to_owned(), key]
    });
    assert_eq!(reference, expected.collect::<Vec<_>>());

    let readme = rows(
        README,
        "| provider | key, unless `api_key` is set | where |\n|---|---|---|\n",
        "\n\n",
        " | ",
    );
    assert_eq!(readme.len(), KNOWN_PROVIDERS.len());
    for (row, known) in readme.iter().zip(KNOWN_PROVIDERS) {
        let [name, key, place] = row.as_slice() else {
            panic!("three columns: {row:?}");
        };
        assert!(name.starts_with(&code(&names(known)).join(", also ")), "{row:?}");
        match known.variables {
            [] => assert_eq!(*key, "none"),
            variables => assert!(key.starts_with(&code(variables).join(" or ")), "{row:?}"),
        }
        assert_eq!(*place == "`base_url`", known.base_url.is_none(), "{row:?}");
    }
}

#[test]
fn the_reference_file_lists_the_default_models_in_order() {
    let models = KNOWN_PROVIDERS.iter().filter_map(|known| {
        let model = known.usual_model?;
        Some(format!("{}/{model}", known.name))
    });
    let models: Vec<String> = models.collect();
    let (last, others) = models.split_last().expect("a default model");
    let listed = format!("key they find: {} or {last}, in this order.", others.join(", "));
    let prose = REFERENCE.replace("\n# ", " ");
    assert!(prose.contains(&listed), "{listed}");
}
