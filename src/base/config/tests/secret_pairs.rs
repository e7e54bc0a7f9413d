//! Tests of secrets in pairs: a previous secret needs a current one that differs.

use super::*;
use crate::base::config::ChannelSettings;

const PREVIOUS: (&str, &str) = ("PREVIOUS_SECRET", "canary-previous-4a1b2c3d4e5f");
const SIGNING: &str = "signing_secret = { env = \"SLACK_SIGNING_SECRET\" }";
const TOKEN: &str = "secret_token = { env = \"TELEGRAM_SECRET_TOKEN\" }";
const HOOK: &str = "\nsecret = { env = \"HOOK_SECRET\" }";

/// T22
#[test]
fn every_section_takes_a_second_secret_which_is_redacted() {
    let mut text = GOOD.to_owned();
    for line in [SIGNING, TOKEN, HOOK] {
        let (name, _) = line.trim().split_once(' ').unwrap();
        let second = format!("{line}\nprevious_{name} = {{ env = \"PREVIOUS_SECRET\" }}");
        text = text.replacen(line, &second, 1);
    }
    let config = Config::load(with(&text, &[PREVIOUS])).unwrap();
    let of_channel = |name: &str| match config.channels[name].common().with_previous_secret() {
        Some(ChannelSettings::Slack(slack)) => slack.signing_secret,
        Some(ChannelSettings::Telegram(telegram)) => telegram.secret_token,
        Some(ChannelSettings::Discord(_)) | None => None,
    };
    let hook = config.hooks["ci"].previous_secret.clone();
    for secret in [of_channel("team"), of_channel("phone"), hook] {
        assert_eq!(secret.unwrap().expose(), PREVIOUS.1);
    }
    let redactor = crate::base::redact::Redactor::new(config.secrets());
    assert!(!redactor.redact(PREVIOUS.1).contains(PREVIOUS.1));
    let single = Config::load(sources(GOOD)).unwrap();
    let is_pair = |name: &str| single.channels[name].common().with_previous_secret().is_some();
    assert!(!is_pair("team") && !is_pair("phone") && single.hooks["ci"].previous_secret.is_none());
}

/// CI-27
#[test]
fn a_secret_of_hooks_with_different_schemes_is_refused() {
    let found = |scheme: &str, secrets: &str| {
        let rest = "repository = \"infra\"\nprompt = \".drydock/ci.md\"\npost_to.channel = \"team\"\npost_to.chat = \"C1\"\n";
        let text = format!("{GOOD}[hooks.other]\nscheme = {scheme}\n{secrets}\n{rest}");
        Config::load(with(&text, &[PREVIOUS]))
            .err()
            .map(|error| error.to_string())
    };
    let (shared, own) = ("{ env = \"HOOK_SECRET\" }", "{ env = \"PREVIOUS_SECRET\" }");
    let why = "hooks.ci has the same secret and another scheme; give each a secret of its own";
    for (scheme, secrets, expected) in [
        ("\"github\"", format!("secret = {shared}"), None),
        ("\"generic\"", format!("secret = {own}"), None),
        (
            "\"generic\"",
            format!("secret = {shared}"),
            Some("24: hooks.other.secret"),
        ),
        (
            "\"generic-body\"\nallow_replayable = true",
            format!("secret = {own}\nprevious_secret = {shared}"),
            Some("26: hooks.other.previous_secret"),
        ),
    ] {
        let expected = expected.map(|place| format!("drydock.toml:{place}: {why}"));
        assert_eq!(found(scheme, &secrets), expected, "{scheme} {secrets}");
    }
}

/// T22
#[test]
fn a_previous_secret_without_a_current_one_or_equal_to_it_is_refused() {
    let previous = |name: &str, variable: &str| format!("previous_{name} = {{ env = \"{variable}\" }}");
    for (line, replacement, expected) in [
        (
            HOOK,
            format!("{HOOK}\n{}", previous("secret", "HOOK_SECRET")),
            "18: hooks.ci.previous_secret: is the same as secret; set secret to the new one, or remove this key",
        ),
        (
            HOOK,
            format!("{HOOK}\n{}", previous("secret", "UNSET_SECRET")),
            "18: hooks.ci.previous_secret: the environment variable UNSET_SECRET is not set",
        ),
        (
            SIGNING,
            format!(
                "app_token = {{ env = \"SLACK_APP_TOKEN\" }}\n{}",
                previous("signing_secret", "PREVIOUS_SECRET")
            ),
            "9: channels.team.previous_signing_secret: is used only beside signing_secret, which is not set",
        ),
        (
            SIGNING,
            format!("{SIGNING}\n{}", previous("signing_secret", "SLACK_BOT_TOKEN")),
            "9: channels.team.previous_signing_secret: this is a token; the signing secret is under Basic Information, App Credentials, of the Slack app",
        ),
        (
            TOKEN,
            format!("{TOKEN}\n{}", previous("secret_token", "DOTTED_SECRET")),
            "15: channels.phone.previous_secret_token: Telegram allows 1 to 256 of A-Z, a-z, 0-9, _ and - only",
        ),
        (
            TOKEN,
            format!("{TOKEN}\n{}", previous("signing_secret", "PREVIOUS_SECRET")),
            "15: channels.phone.previous_signing_secret: is only for kind = \"slack\"",
        ),
    ] {
        assert!(GOOD.contains(line), "{line}");
        let environment = [PREVIOUS, APP_TOKEN, ("DOTTED_SECRET", "canary.previous.4a1b2c3d")];
        let found = problems(with(&GOOD.replacen(line, &replacement, 1), &environment));
        assert_eq!(found, [format!("drydock.toml:{expected}")]);
    }
}

/// T22
#[test]
fn a_previous_public_key_needs_a_current_one_and_both_are_read() {
    let (one, two) = ("1".repeat(64), "2".repeat(64));
    let guild = |keys: &str| {
        let text = format!(
            "{GOOD}\n[channels.guild]\nkind = \"discord\"\nbot_token = {{ env = \"DISCORD_BOT_TOKEN\" }}\n{keys}"
        );
        Config::load(with(&text, &[DISCORD_TOKEN]))
    };
    let pair = guild(&format!(
        "public_key = \"{one}\"\nprevious_public_key = \"{two}\"\n"
    ))
    .unwrap();
    let Some(ChannelSettings::Discord(previous)) = pair.channels["guild"].common().with_previous_secret()
    else {
        panic!("a pair");
    };
    assert_eq!(previous.public_key, Some([0x22; 32]));
    for (keys, expected) in [
        (
            format!("previous_public_key = \"{two}\"\n"),
            "is used only beside public_key, which is not set",
        ),
        (
            format!("public_key = \"{one}\"\nprevious_public_key = \"{one}\"\n"),
            "is the same as public_key; set public_key to the new one, or remove this key",
        ),
        (
            format!("public_key = \"{one}\"\nprevious_public_key = \"12\"\n"),
            "is not a public key;",
        ),
    ] {
        let refused = guild(&keys).map(drop).unwrap_err().to_string();
        let expected = format!("channels.guild.previous_public_key: {expected}");
        assert!(refused.contains(&expected), "{refused}");
    }
}
