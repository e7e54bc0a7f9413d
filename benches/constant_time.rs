//! Tests that the time of a refusal does not reveal parts of the secret: `cargo bench --bench constant_time`.
//!
//! Real webhooks refuse requests in random order. In some, the first character of the signature or secret is wrong. In
//! the others, only the last one is wrong. A second webhook with another secret refuses the same requests. A t-test
//! shows whether the first webhook takes longer than the second one for either kind. The method follows dudect
//! (Reparaz, Balasch, Verbauwhede: "Dude, is my code constant time?", 2017) and drops the slower half of the samples,
//! which is noise of the machine. A |t| above 4.5 means that the kinds can be distinguished. The control is a
//! comparison that stops at the first difference. The test is only valid if it detects the control.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods
)]

mod support;

use bytes::Bytes;
use drydock::base::config::{
    ChannelSettings, Grants, HookChange, HookScheme, HookSettings, PostTo, RichMessages, SlackSettings,
    TelegramMode, TelegramSettings,
};
use drydock::base::model::{Account, Installation, Platform, Role, Secret};
use drydock::base::webhook::{Rejected, SecretPairs, Webhook, hook_webhook};
use drydock::interfaces::channel::webhook as channel_webhook;
use hmac::{Hmac, KeyInit, Mac};
use http::Request;
use jiff::Timestamp;
use sha2::Sha256;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use support::{header, value};

/// The number of refusals of each kind.
const SAMPLES: usize = 100_000;
const ROUNDS: usize = 100;
/// The number of requests in a round, of both kinds in random order.
const COPIES: usize = 64;
/// The |t| above which the kinds can be distinguished.
const T_MAX: f64 = 4.5;
/// The secret that was nearly guessed, and an unrelated one.
const SECRETS: [&str; 2] = [
    "5f0d1c9a7be24c6f8a1b3d5e7f9012345f0d1c9a7be24c6f8a1b3d5e7f901234",
    "c2e4a60899b1d3f5172b3948a6e0fd7c1b8d3f2a4c6e5d7f90817263a4b5c6d7",
];
/// The current secret beside a previous one.
const CURRENT: &str = "0a9b8c7d6e5f40312233445566778899a0b1c2d3e4f5061728394a5b6c7d8e9f";
const BODY: &str = r#"{"action":"published","repository":{"full_name":"acme/web"}}"#;
const AT: i64 = 1_795_300_000;

fn main() {
    header("constant_time");
    let samples = if std::env::args().any(|argument| argument == "--quick") {
        SAMPLES / 10
    } else {
        SAMPLES
    };
    for (what, webhooks, requests) in [slack(), slack_with_previous_secret(), github(), telegram()] {
        let at = Timestamp::from_second(AT).unwrap();
        let t = told_apart(&requests, samples, |request, whose| {
            let refused = webhooks[whose].receive(black_box(request), at);
            assert!(matches!(refused, Err(Rejected::Unauthenticated(_))));
        });
        value(
            &format!("{what}: first or last character wrong"),
            t,
            "|t|",
            "<= 4.5",
        );
    }
    let wrong = forged(SECRETS[0]).map(String::into_bytes);
    let t = told_apart(&wrong, samples, |wrong, whose| {
        black_box(is_same(black_box(wrong), black_box(SECRETS[whose].as_bytes())));
    });
    value("control: a comparison that stops early", t, "|t|", "> 4.5");
    assert!(t > T_MAX, "the test does not detect the difference");
}

fn is_same(given: &[u8], right: &[u8]) -> bool {
    given
        .iter()
        .zip(right)
        .all(|(given, right)| black_box(given) == right)
}

/// Returns the |t| of how much longer the first kind takes than the second one with the nearly guessed secret, minus
/// the same difference with the other secret. The time to read a text and its place in memory are the same for both
/// secrets, so they cancel out. Returns one value per round. Each round has its own copies of the requests.
fn told_apart<T: Clone>(kinds: &[T; 2], samples: usize, refuse: impl Fn(&T, usize)) -> f64 {
    // xorshift64 (Marsaglia, 2003): a branch predictor cannot learn its sequence.
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut draw = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 33) as usize % below
    };
    let differences: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let copies: Vec<(usize, T)> = (0..COPIES)
                .map(|_| draw(2))
                .map(|kind| (kind, kinds[kind].clone()))
                .collect();
            let mut times = [const { Vec::new() }; 4];
            for _ in 0..4 * samples / ROUNDS {
                let (kind, copy) = &copies[draw(COPIES)];
                let (given, whose) = (copy.clone(), draw(2));
                let started = Instant::now();
                refuse(&given, whose);
                times[2 * whose + kind].push(started.elapsed().as_nanos() as f64);
            }
            let [near_first, near_last, far_first, far_last] = times.map(fast_mean);
            (near_first - near_last) - (far_first - far_last)
        })
        .collect();
    let rounds = ROUNDS as f64;
    let mean = differences.iter().sum::<f64>() / rounds;
    let squares = differences.iter().map(|difference| (difference - mean).powi(2));
    mean.abs() / (squares.sum::<f64>() / (rounds - 1.0) / rounds).sqrt()
}

/// Returns the mean of the faster half. The slower half is noise of the machine.
fn fast_mean(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    let fast = &times[..times.len() / 2];
    fast.iter().sum::<f64>() / fast.len() as f64
}

/// Returns the text of hex digits with a wrong first character, and with a wrong last one. A digit becomes a digit and
/// a letter a letter: the time to read the sent text may depend on the text, but must not reveal which part was right.
fn forged(right: &str) -> [String; 2] {
    let wrong = |digit: char| match digit {
        '9' => '8',
        'f' => 'e',
        digit => char::from_u32(u32::from(digit) + 1).unwrap(),
    };
    [0, right.len() - 1].map(|place| {
        let digits = right.chars().enumerate();
        digits
            .map(|(at, digit)| if at == place { wrong(digit) } else { digit })
            .collect()
    })
}

/// A webhook for each secret, and two forged requests for the first secret.
type Case = (&'static str, [Arc<dyn Webhook>; 2], [Request<Bytes>; 2]);

fn slack() -> Case {
    slack_case("slack", |secret| (secret, None))
}

/// The secret that was nearly guessed is the previous one.
fn slack_with_previous_secret() -> Case {
    slack_case("slack, previous secret", |secret| {
        (Secret::new(CURRENT.to_owned()), Some(secret))
    })
}

/// Returns a case of webhooks with the current and the previous secret that `pair` makes.
fn slack_case(what: &'static str, pair: fn(Secret) -> (Secret, Option<Secret>)) -> Case {
    let webhooks = secrets().map(|secret| {
        let (current, previous) = pair(secret.clone());
        let settings = ChannelSettings::Slack(SlackSettings {
            bot_token: secret,
            signing_secret: Some(current),
            previous_signing_secret: previous,
            app_token: None,
            code_channels: false,
            slash_commands: Vec::new(),
            api_base_url: String::new(),
            paced: true,
            repository: None,
        });
        channel_webhook(
            "slack",
            &settings,
            &installation(Platform::Slack),
            &SecretPairs::default(),
        )
        .unwrap()
    });
    let requests = forged(&signature(&format!("v0:{AT}:{BODY}"))).map(|hex| {
        post([
            ("x-slack-request-timestamp", AT.to_string()),
            ("x-slack-signature", format!("v0={hex}")),
        ])
    });
    (what, webhooks, requests)
}

fn github() -> Case {
    let settings = |secret| HookSettings {
        scheme: HookScheme::Github,
        secret,
        previous_secret: None,
        events: Vec::new(),
        sources: Vec::new(),
        repository: "infra".to_owned(),
        prompt: "prompt.md".to_owned(),
        fields: BTreeMap::new(),
        starts_pipelines: false,
        change: HookChange::New,
        comments: None,
        post_to: PostTo {
            channel: "slack".to_owned(),
            chat: "C1".to_owned(),
        },
        grants: Grants {
            role: Role::Editor,
            environments: vec!["**".to_owned()],
        },
    };
    let webhooks =
        secrets().map(|secret| hook_webhook("release", &settings(secret), &SecretPairs::default()));
    let requests = forged(&signature(BODY)).map(|hex| {
        post([
            ("x-github-event", "release".to_owned()),
            ("x-github-delivery", "d-1".to_owned()),
            ("x-hub-signature-256", format!("sha256={hex}")),
        ])
    });
    ("github", webhooks, requests)
}

fn telegram() -> Case {
    let webhooks = secrets().map(|secret| {
        let settings = ChannelSettings::Telegram(TelegramSettings {
            bot_token: secret.clone(),
            mode: TelegramMode::Webhook,
            secret_token: Some(secret),
            previous_secret_token: None,
            rich_messages: RichMessages::Auto,
            api_base_url: String::new(),
            paced: true,
            repository: None,
        });
        channel_webhook(
            "telegram",
            &settings,
            &installation(Platform::Telegram),
            &SecretPairs::default(),
        )
        .unwrap()
    });
    let requests = forged(SECRETS[0]).map(|token| post([("x-telegram-bot-api-secret-token", token)]));
    ("telegram", webhooks, requests)
}

fn secrets() -> [Secret; 2] {
    SECRETS.map(|secret| Secret::new(secret.to_owned()))
}

fn installation(platform: Platform) -> Installation {
    Installation {
        account: Account {
            platform,
            id: "T1".to_owned(),
        },
        bot_id: "U1".to_owned(),
        bot_name: "drydock".to_owned(),
    }
}

fn signature(message: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRETS[0].as_bytes()).unwrap();
    mac.update(message.as_bytes());
    let digest = mac.finalize().into_bytes();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn post<const N: usize>(headers: [(&str, String); N]) -> Request<Bytes> {
    let request = Request::post("/in/bench").header("content-type", "application/json");
    headers
        .into_iter()
        .fold(request, |request, (name, value)| request.header(name, value))
        .body(Bytes::from_static(BODY.as_bytes()))
        .unwrap()
}
