//! A table of bad configurations, each with the line that an operator sees.

use super::*;
use crate::base::model::Platform;
use crate::base::webhook::HookScheme;
use std::collections::BTreeSet;

/// T96, STK-7
#[test]
fn every_bad_configuration_has_its_own_line_with_file_line_and_key() {
    // The replaced text, its replacement, and the complete line of the problem. `<kinds>` and `<schemes>` stand for the
    // words that are known.
    let cases = [
        (
            "public_url = ",
            "listne = ",
            "2: server.listne: unknown key; did you mean server.listen?",
        ),
        (
            "[server]",
            "[sever]",
            "1: sever: unknown key; did you mean server?",
        ),
        (
            "[hooks.ci]",
            "[hook.ci]",
            "15: hook: unknown key; did you mean hooks?",
        ),
        (
            "[server]",
            "[server]\nlisten = 7700",
            "2: server.listen: expected an IP address and port, such as 127.0.0.1:7700, found a whole number",
        ),
        (
            "[server]",
            "[server]\nlisten = \"localhost\"",
            "2: server.listen: expected an IP address and port, such as 127.0.0.1:7700",
        ),
        (
            "[server]",
            "[server]\nlisten = \"0.0.0.0:7700\"",
            "2: server.listen: others could reach this address without TLS; listen on 127.0.0.1, or put a TLS proxy in front and set server.behind_proxy = true",
        ),
        (
            "[server]",
            "[server]\nbehind_proxy = \"yes\"",
            "2: server.behind_proxy: expected true or false, found text",
        ),
        (
            "[server]",
            "[server]\nbody_bytes_max = -1",
            "2: server.body_bytes_max: expected a whole number from 1024 to 26214400",
        ),
        (
            "[server]",
            "[server]\nbody_bytes_max = 1.5",
            "2: server.body_bytes_max: expected a whole number from 1024 to 26214400, found a number with a fraction",
        ),
        (
            "[server]",
            "[server]\nconnections_max = 10",
            "1: server.connections_per_ip_max: is more than server.connections_max",
        ),
        (
            "[server]",
            "[server]\nlink_hosts = [\"https://a.b\"]",
            "2: server.link_hosts: expected host names such as grafana.example.com, without scheme or path",
        ),
        (
            "[server]",
            "[server]\nlink_hosts = [1]",
            "2: server.link_hosts: expected a list of texts, such as [\"a\", \"b\"]",
        ),
        (
            "https://drydock",
            "http://drydock",
            "2: server.public_url: expected an https URL without user, query or fragment (http only to loopback)",
        ),
        ("[server]", "server = 1\n[other]", "1: server: expected a table"),
        (
            "[repositories.infra]",
            "[data]\ndelivery_hours_kept = 1\n[repositories.infra]",
            "4: data.delivery_hours_kept: expected a whole number from 24 to 8760",
        ),
        (
            "[repositories.infra]",
            "[data]\ndirectory = \"\"\n[repositories.infra]",
            "4: data.directory: expected a path",
        ),
        (
            "[repositories.infra]",
            "[model]\ndefault = \"llama3\"\n[repositories.infra]",
            "4: model.default: names no provider; expected provider/model, such as anthropic/claude-sonnet-4-5",
        ),
        (
            "[repositories.infra]",
            "[model]\ndefault = \"openai/\"\n[repositories.infra]",
            "4: model.default: expected provider/model, such as anthropic/claude-sonnet-4-5",
        ),
        (
            "[repositories.infra]",
            "[model]\nprovider = \"gemni\"\n[repositories.infra]",
            "4: model.provider: its provider is neither known nor configured; did you mean gemini?",
        ),
        (
            "[repositories.infra]",
            "[model]\nprovider = \"ollama\"\n[repositories.infra]",
            "4: model.provider: this provider has no known default model; set model.default as well",
        ),
        (
            "[repositories.infra]",
            "[providers.groq]\nbase_url = \"https://groq.example.com\"\n[repositories.infra]",
            "3: providers.groq.api_key: the API key is missing; set GROQ_API_KEY or this key, or keyless = true for \
             a service that needs none",
        ),
        (
            "[repositories.infra]",
            "[providers.openai]\nkeyless = true\napi_key = { env = \"ANTHROPIC_API_KEY\" }\n[repositories.infra]",
            "5: providers.openai.api_key: a provider with keyless = true needs no key; remove one of the two",
        ),
        (
            "[repositories.infra]",
            "[model]\ndefault = \"antropic/claude\"\n[repositories.infra]",
            "4: model.default: its provider is neither known nor configured; did you mean anthropic?",
        ),
        (
            "[repositories.infra]",
            "[providers.openai]\n[repositories.infra]",
            "3: providers.openai.api_key: the API key is missing; set OPENAI_API_KEY or this key",
        ),
        (
            "[repositories.infra]",
            "[providers.custom]\n[repositories.infra]",
            "3: providers.custom.base_url: is required: an https URL, or an http URL to this machine",
        ),
        (
            "[repositories.infra]",
            "[providers.ollama]\nbase_url = \"http://gpu.example.com/v1\"\n[repositories.infra]",
            "4: providers.ollama.base_url: expected an https URL without user, query or fragment (http only to loopback)",
        ),
        (
            "[repositories.infra]",
            "[providers.anthropic]\napi_key = \"sk-ant-canary\"\n[repositories.infra]",
            "4: providers.anthropic.api_key: a secret does not belong in this file; write { env = \"NAME\" } or { file = \"path\" }",
        ),
        (
            "[repositories.infra]",
            "[limits]\nsteps_max = 201\n[repositories.infra]",
            "4: limits.steps_max: expected a whole number from 1 to 200",
        ),
        (
            "[repositories.infra]",
            "[limits]\nsteps_max = 0\n[repositories.infra]\ncolour = 1",
            "4: limits.steps_max: expected a whole number from 1 to 200",
        ),
        (
            "path = ",
            "#path = ",
            "3: repositories.infra: needs path (on this machine) or url (an https remote)",
        ),
        (
            "path = ",
            "url = \"https://a.b/c\"\npath = ",
            "4: repositories.infra.url: a repository has a path or a url, not both",
        ),
        (
            "path = \"/srv/git/infra\"",
            "url = \"http://127.0.0.1/c\"",
            "4: repositories.infra.url: expected an https URL",
        ),
        (
            "path = \"/srv/git/infra\"",
            "url = \"https://me:canary@a.b/c\"",
            "4: repositories.infra.url: expected an https URL without user, query or fragment (http only to loopback)",
        ),
        (
            "path = ",
            "branch = \"a..b\"\npath = ",
            "4: repositories.infra.branch: expected the name of a branch, such as main",
        ),
        (
            "path = ",
            "token = { env = \"HOOK_SECRET\" }\npath = ",
            "4: repositories.infra.token: is for a repository with a url",
        ),
        (
            "[repositories.infra]",
            "[repositories.Infra_1]\npath = \"/x\"\n[repositories.infra]",
            "3: repositories.Infra_1: a name is 1 to 32 of a-z, 0-9 and -",
        ),
        (
            "kind = \"slack\"",
            "kind = \"matrix\"",
            "6: channels.team.kind: expected one of <kinds>",
        ),
        (
            "kind = \"slack\"",
            "",
            "5: channels.team.kind: is required: one of <kinds>",
        ),
        (
            "signing_secret = { env = \"SLACK_SIGNING_SECRET\" }",
            "",
            "5: channels.team.signing_secret: is required, or app_token for Socket Mode; write signing_secret = { env = \"NAME\" } or { file = \"path\" }",
        ),
        (
            "\"SLACK_SIGNING_SECRET\"",
            "\"SLACK_SECRET\"",
            "8: channels.team.signing_secret: the environment variable SLACK_SECRET is not set",
        ),
        (
            "{ env = \"SLACK_SIGNING_SECRET\" }",
            "{ env = \"A\", file = \"B\" }",
            "8: channels.team.signing_secret: expected exactly one of { env = \"NAME\" } and { file = \"path\" }",
        ),
        (
            "{ env = \"SLACK_SIGNING_SECRET\" }",
            "{ file = \"/nowhere\" }",
            "8: channels.team.signing_secret: cannot read the secret file: No such file or directory (os error 2)",
        ),
        (
            "{ env = \"SLACK_SIGNING_SECRET\" }",
            "5",
            "8: channels.team.signing_secret: expected { env = \"NAME\" } or { file = \"path\" }, found a whole number",
        ),
        (
            "\"SLACK_BOT_TOKEN\"",
            "\"SLACK_APP_TOKEN\"",
            "7: channels.team.bot_token: this is not a bot token; Slack's bot tokens begin with xoxb-",
        ),
        (
            "signing_secret = { env = \"SLACK_SIGNING_SECRET\" }",
            "app_token = { env = \"SLACK_BOT_TOKEN\" }",
            "8: channels.team.app_token: this is not an app-level token; they begin with xapp- and are under Basic Information, App-Level Tokens, of the Slack app",
        ),
        (
            "kind = \"slack\"",
            "kind = \"slack\"\nslash_commands = [\"/review\", \"Deploy\"]",
            "7: channels.team.slash_commands: entry 2: expected a slash command in lower case, such as /review",
        ),
        (
            "kind = \"slack\"",
            "kind = \"slack\"\nslash_commands = [\"/drydock\"]",
            "7: channels.team.slash_commands: entry 1: /drydock is the command of Drydock itself; choose another one",
        ),
        (
            "mode = \"webhook\"",
            "app_token = { env = \"SLACK_APP_TOKEN\" }",
            "13: channels.phone.app_token: is only for kind = \"slack\"",
        ),
        (
            "\"SLACK_SIGNING_SECRET\"",
            "\"SLACK_BOT_TOKEN\"",
            "8: channels.team.signing_secret: this is a token; the signing secret is under Basic Information, App Credentials, of the Slack app",
        ),
        (
            "\"TELEGRAM_BOT_TOKEN\"",
            "\"HOOK_SECRET\"",
            "12: channels.phone.bot_token: this is not a bot token; Telegram's look like 123456789:letters",
        ),
        (
            "repository = \"infra\"\n[channels",
            "repository = \"infar\"\n[channels",
            "9: channels.team.repository: does not name one of the repositories; did you mean infra?",
        ),
        (
            "repository = \"infra\"\n[channels",
            "mode = \"polling\"\n[channels",
            "9: channels.team.mode: is only for kind = \"telegram\"",
        ),
        (
            "mode = \"webhook\"",
            "rich_messages = \"on\"",
            "13: channels.phone.rich_messages: expected one of auto, off",
        ),
        (
            "repository = \"infra\"\n[channels",
            "rich_messages = \"off\"\n[channels",
            "9: channels.team.rich_messages: is only for kind = \"telegram\"",
        ),
        (
            "repository = \"infra\"\n[channels",
            "api_base_url = \"http://slack.example.com\"\n[channels",
            "9: channels.team.api_base_url: expected an https URL without user, query or fragment (http only to loopback)",
        ),
        (
            "public_url = \"https://drydock.example.com\"",
            "",
            "13: channels.phone.mode: mode = \"webhook\" needs server.public_url, an https URL Telegram can reach",
        ),
        (
            "secret_token = { env = \"TELEGRAM_SECRET_TOKEN\" }",
            "",
            "10: channels.phone.secret_token: is required; write secret_token = { env = \"NAME\" } or { file = \"path\" }",
        ),
        (
            "\"TELEGRAM_SECRET_TOKEN\"",
            "\"TELEGRAM_BOT_TOKEN\"",
            "14: channels.phone.secret_token: Telegram allows 1 to 256 of A-Z, a-z, 0-9, _ and - only",
        ),
        (
            "secret = { env = \"HOOK_SECRET\" }",
            "",
            "15: hooks.ci.secret: is required; write secret = { env = \"NAME\" } or { file = \"path\" }",
        ),
        (
            "{ env = \"HOOK_SECRET\" }",
            "{ env = \"WEAK_SECRET\" }",
            "17: hooks.ci.secret: the secret is too short; it needs at least 16 characters",
        ),
        (
            "{ env = \"HOOK_SECRET\" }",
            "{ env = \"EMPTY_SECRET\" }",
            "17: hooks.ci.secret: the secret is empty",
        ),
        (
            "{ env = \"HOOK_SECRET\" }",
            "{ env = \"UNDEFINED_SECRET\" }",
            "17: hooks.ci.secret: the secret is a placeholder; put the real one there",
        ),
        (
            "scheme = \"github\"",
            "scheme = \"generic-body\"",
            "16: hooks.ci.scheme: generic-body deliveries carry no time, so old ones can be sent again; use generic, or set allow_replayable = true",
        ),
        (
            "scheme = \"github\"",
            "scheme = \"github\"\nallow_replayable = true",
            "17: hooks.ci.allow_replayable: is only for scheme = \"generic-body\"",
        ),
        (
            "scheme = \"github\"",
            "scheme = \"sha1\"",
            "16: hooks.ci.scheme: expected one of <schemes>",
        ),
        (
            "scheme = \"github\"",
            "scheme = \"generic\"\nevents = [\"release\"]",
            "17: hooks.ci.events: is only for scheme = \"github\"; others do not name their events",
        ),
        (
            "scheme = \"github\"",
            "scheme = \"generic\"\ngithub_token = { env = \"SLACK_BOT_TOKEN\" }",
            "17: hooks.ci.github_token: is only for scheme = \"github\"",
        ),
        (
            "scheme = \"github\"",
            "scheme = \"github\"\ngithub_url = \"https://github.example.com/api/v3\"",
            "17: hooks.ci.github_url: is only used with github_token",
        ),
        (
            "scheme = \"github\"",
            "scheme = \"github\"\nevents = [\"push\", \"release.publish\"]",
            "17: hooks.ci.events: entry 2 is not an action of `release`; did you mean release.published?",
        ),
        (
            "repository = \"infra\"\nprompt",
            "repository = \"other\"\nprompt",
            "18: hooks.ci.repository: does not name one of the repositories; there are infra",
        ),
        (
            "prompt = \".drydock/ci.md\"",
            "prompt = \"../ci.md\"",
            "19: hooks.ci.prompt: expected a path inside the repository, such as .drydock/release.md",
        ),
        (
            "prompt = \".drydock/ci.md\"",
            "",
            "15: hooks.ci.prompt: is required",
        ),
        (
            "post_to.channel = \"team\"",
            "post_to.channel = \"tema\"",
            "20: hooks.ci.post_to.channel: does not name one of the channels; did you mean team?",
        ),
        (
            "post_to.chat = \"C1\"",
            "",
            "20: hooks.ci.post_to.chat: is required",
        ),
        (
            "post_to.chat = \"C1\"",
            "post_to.chat = \"C1\"\ngrants.role = \"admin\"",
            "22: hooks.ci.grants.role: expected one of viewer, editor",
        ),
        (
            "post_to.chat = \"C1\"",
            "post_to.chat = \"C1\"\ngrants.environments = []",
            "22: hooks.ci.grants.environments: an empty list allows nothing; name environments, or use role = \"viewer\"",
        ),
        (
            "post_to.chat = \"C1\"",
            "post_to.chat = \"C1\"\ngrants.environments = [\"[\"]",
            "22: hooks.ci.grants.environments: expected globs, such as environments/dev*",
        ),
        (
            "post_to.chat = \"C1\"",
            "post_to.chat = \"C1\"\nfields.tag = \"tag_name\"",
            "22: hooks.ci.fields.tag: expected a JSON pointer, such as /release/tag_name",
        ),
        (
            "post_to.chat = \"C1\"",
            "post_to.chat = \"C1\"\nfields.\"a b\" = \"/a\"",
            "22: hooks.ci.fields.a b: a field's name is 1 to 64 of a-z, A-Z, 0-9, _ and -",
        ),
        (
            "[repositories.infra]",
            "[pipelines]\nprograms.lint = \"bin/lint\"\n[repositories.infra]",
            "4: pipelines.programs.lint: expected an absolute path, such as /usr/local/bin/kubeconform",
        ),
        (
            "[repositories.infra]",
            "[pipelines.programs]\n\"a b\" = \"/bin/lint\"\n[repositories.infra]",
            "4: pipelines.programs.a b: a program's name is 1 to 64 of a-z, A-Z, 0-9, _ and -",
        ),
        (
            "[hooks.ci]",
            "[hooks.team]",
            "15: hooks.team: a channel has this name, and both would use the address /in/<name>; rename one of them",
        ),
    ];
    let environment = [
        ("WEAK_SECRET", "canary-15-chars"),
        ("EMPTY_SECRET", ""),
        ("UNDEFINED_SECRET", "undefined"),
        APP_TOKEN,
    ];
    let mut lines = BTreeSet::new();
    let chats = Platform::ALL.iter().filter(|platform| platform.chat().is_some());
    let kinds: Vec<&str> = chats.map(|platform| platform.as_str()).collect();
    let (kinds, schemes) = (kinds.join(", "), HookScheme::WORDS.join(", "));
    let mut missed = Vec::new();
    for (from, to, expected) in cases {
        assert!(GOOD.contains(from), "{from}");
        let found = problems(with(&GOOD.replacen(from, to, 1), &environment));
        let words = expected.replace("<kinds>", &kinds).replace("<schemes>", &schemes);
        if !found.contains(&format!("drydock.toml:{words}")) {
            missed.push((to, expected, found.clone()));
        }
        assert!(!found.join("\n").contains("canary"), "{found:#?}");
        lines.insert(expected);
    }
    assert_eq!(missed, []);
    assert!(lines.len() >= 40, "{}", lines.len());
}
