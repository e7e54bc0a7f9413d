//! Fallback models: what people, operators and scripts see when the default model does not answer, and what it costs.

use crate::support::app::TestApp;
use crate::support::shell::{BlockingModel, Shell};
use drydock::base::config::WireFormat;
use drydock::base::model::Usage;
use drydock::simulation::emulator::model::{
    AnswerFault, AnswerScript, ModelEmulator, ModelRequest, ScriptedAnswer, calls, queue, says,
};
use serde_json::{Value, json};

const ALICE: &str = "U0ALICE";

/// Returns an answer with this status, after which the next attempt may follow at once.
fn fails(status: u16, body: &str) -> ScriptedAnswer {
    says("never").with_fault(AnswerFault::Status {
        status,
        headers: vec![("retry-after".to_owned(), "0".to_owned())],
        body: body.to_owned(),
    })
}

fn overloaded() -> ScriptedAnswer {
    fails(529, "")
}

/// The gateway with a second model at a service of its own.
struct TwoModels {
    app: TestApp,
    backup: ModelEmulator,
}

impl TwoModels {
    async fn start(
        first: impl AnswerScript + 'static,
        second: impl AnswerScript + 'static,
        settings: &[(&str, &str)],
    ) -> Self {
        Self::of_format(WireFormat::OpenaiChat, first, second, settings).await
    }

    /// Starts the gateway with a second model of this wire format.
    async fn of_format(
        wire: WireFormat,
        first: impl AnswerScript + 'static,
        second: impl AnswerScript + 'static,
        settings: &[(&str, &str)],
    ) -> Self {
        let backup = ModelEmulator::start(second).unwrap();
        let url = backup.base_url(wire);
        let chain = [
            ("model.fallbacks", "backup/second"),
            ("providers.backup.wire", wire.word()),
            ("providers.backup.base_url", url.as_str()),
            ("providers.backup.attempts_max", "1"),
            ("providers.anthropic.attempts_max", "2"),
        ];
        let app = TestApp::with_settings(first, &[&chain, settings].concat()).await;
        app.admit_slack_editor(ALICE).await;
        Self { app, backup }
    }

    fn assert_in_order(&self) {
        assert_eq!(self.backup.problems(), Vec::<String>::new());
        assert_eq!(self.backup.unused(), Vec::<String>::new());
    }
}

/// R9
#[tokio::test]
async fn a_fallback_answers_for_a_model_that_does_not_and_everybody_sees_which() {
    let first = queue([overloaded(), overloaded(), overloaded(), says("I am back.")]);
    let second = |_: &ModelRequest| says("From the second.");
    let models = TwoModels::start(first, second, &[]).await;
    let app = &models.app;
    let result = app.ask(ALICE, "how many replicas has web?").await;
    let line = "did not answer: the model provider is overloaded (529)";
    assert!(result.text.contains("From the second."), "{}", result.text);
    assert!(result.text.contains("anthropic/demo"), "{}", result.text);
    assert!(result.text.contains(line), "{}", result.text);
    assert!(result.text.contains(" · backup/second"), "{}", result.text);
    let (status, ready) = app.readyz().await;
    let degraded = "model anthropic/demo: the model provider is overloaded; backup/second is asked instead";
    assert!(status == 200 && ready.contains(degraded), "{status} {ready}");
    // The next turn tests the default model with one attempt.
    let result = app.ask_in(ALICE, &result.thread, "and api?").await;
    assert!(result.text.contains("From the second."), "{}", result.text);
    let result = app.ask_in(ALICE, &result.thread, "and db?").await;
    assert!(result.text.contains("I am back."), "{}", result.text);
    assert!(!result.text.contains("backup/second"), "{}", result.text);
    assert!(!app.readyz().await.1.contains("anthropic/demo"));
    let answered = app.column("SELECT provider || '/' || model FROM usage ORDER BY id");
    assert_eq!(answered, ["backup/second", "backup/second", "anthropic/demo"]);
    let used = app.run_slash_command(ALICE, "usage").await;
    assert!(
        used.contains("backup/second") && used.contains("anthropic/demo"),
        "{used}"
    );
    let recorded: Vec<Value> = app
        .recordings()
        .iter()
        .flat_map(|(_, text)| text.lines().map(serde_json::from_str).collect::<Vec<_>>())
        .collect::<Result<_, _>>()
        .unwrap();
    let recorded = serde_json::to_string(&recorded).unwrap();
    assert!(
        recorded.contains("\"second\"") && recorded.contains("\"demo\""),
        "{recorded}"
    );
    models.assert_in_order();
}

/// R9
#[tokio::test]
async fn if_no_model_answers_one_message_names_each() {
    let models = TwoModels::start(queue([overloaded(), overloaded()]), queue([fails(401, "")]), &[]).await;
    let result = models.app.ask(ALICE, "how many replicas has web?").await;
    let text = &result.text;
    assert!(text.contains("No model answered."), "{text}");
    for part in [
        "anthropic/demo",
        "the model provider is overloaded (529)",
        "backup/second",
        "the key was not accepted (401); check",
    ] {
        assert_eq!(text.matches(part).count(), 1, "{part}: {text}");
    }
    assert_eq!(models.app.count("SELECT COUNT(*) FROM usage"), 0);
    models.assert_in_order();
}

/// R9: a spend limit is reported and not retried. While another model answers, nobody asks again for a minute.
#[tokio::test]
async fn a_model_that_an_operator_has_to_enable_is_asked_once() {
    let spent =
        r#"{"type":"error","error":{"type":"rate_limit_error","code":"enforced_spend_limit_reached"}}"#;
    let first = queue([says("never").with_fault(AnswerFault::Status {
        status: 429,
        headers: Vec::new(),
        body: spent.to_owned(),
    })]);
    let models = TwoModels::start(first, |_: &ModelRequest| says("From the second."), &[]).await;
    for _ in 0..2 {
        let result = models.app.ask(ALICE, "how many replicas has web?").await;
        assert!(result.text.contains("From the second."), "{}", result.text);
        assert!(
            result
                .text
                .contains("reached its spend limit or has no credit (429)"),
            "{}",
            result.text
        );
    }
    assert_eq!(models.app.model_requests().len(), 1);
    models.assert_in_order();
}

/// R9
#[tokio::test]
async fn an_invalid_request_goes_to_no_other_model() {
    let models = TwoModels::start(queue([fails(400, "")]), queue([]), &[]).await;
    let result = models.app.ask(ALICE, "how many replicas has web?").await;
    let expected = "No answer: the model provider rejected the request";
    assert!(result.text.contains(expected), "{}", result.text);
    models.assert_in_order();
}

/// T92
#[tokio::test]
async fn the_budget_reserves_the_most_expensive_model_and_counts_the_price_of_the_one_that_answered() {
    let prices = [
        ("models.anthropic/demo.price_input", "3"),
        ("models.anthropic/demo.price_output", "15"),
        ("models.backup/second.price_input", "10"),
        ("models.backup/second.price_output", "100"),
    ];
    let usage = Usage {
        input: 15_000,
        output: 1_000,
        ..Usage::default()
    };
    let second = move |_: &ModelRequest| says("From the second.").with_usage(usage);
    let settings = [&prices[..], &[("budgets.day_cents_max", "150")]].concat();
    let models = TwoModels::start(queue([overloaded(), overloaded()]), second, &settings).await;
    let app = &models.app;
    let result = app.ask(ALICE, "how many replicas has web?").await;
    assert!(result.text.contains("From the second."), "{}", result.text);
    // 15,000 tokens for $10 and 1,000 tokens for $100 a million.
    let used = app.run_slash_command(ALICE, "usage").await;
    assert!(used.contains("16,000 tokens in 1 model call, $0.2500"), "{used}");
    assert_eq!(app.count("SELECT COUNT(*) FROM reservation"), 0);
    models.assert_in_order();
    // The default model alone would stay within this budget: an answer of it costs at most $0.13.
    let settings = [&prices[..], &[("budgets.day_cents_max", "60")]].concat();
    let models = TwoModels::start(queue([]), queue([]), &settings).await;
    let refused = models.app.ask(ALICE, "how many replicas has web?").await;
    let expected = "the budget of this server for one day is $0.6000";
    assert!(refused.text.contains(expected), "{}", refused.text);
    models.assert_in_order();
}

/// Each emulator refuses what its service would refuse, such as a signature that it did not write. R13, TK-76
#[tokio::test]
async fn a_conversation_goes_from_one_model_to_another_and_back_without_the_thoughts_of_either() {
    let thinks = |words: &str| {
        says("I look.")
            .with_thinking(words)
            .with_call("file_read", json!({ "path": "environments/dev/main.jsonnet" }))
    };
    for wire in WireFormat::ALL {
        let word = wire.word();
        let second = queue([
            calls("file_list", json!({})).with_thinking("The second thinks."),
            says("Two replicas."),
        ]);
        let first = queue([
            thinks("The first thinks."),
            overloaded(),
            overloaded(),
            says("As I said."),
        ]);
        let models = TwoModels::of_format(*wire, first, second, &[]).await;
        let app = &models.app;
        let result = app.ask(ALICE, "how many replicas has web?").await;
        assert!(result.text.contains("Two replicas."), "{word}: {}", result.text);
        let sent = models.backup.requests();
        assert_eq!(sent.len(), 2, "{word}");
        assert!(
            !sent.iter().any(|sent| sent.raw.contains("The first thinks.")),
            "{word}"
        );
        // The signature that the first one wrote.
        assert!(!sent[0].raw.contains("c2lnbmVk"), "{word}: {}", sent[0].raw);
        let result = app.ask_in(ALICE, &result.thread, "are you sure?").await;
        assert!(result.text.contains("As I said."), "{word}: {}", result.text);
        let sent = app.model_requests();
        let last = &sent.last().unwrap().raw;
        assert!(
            !last.contains("The second thinks.") && last.contains("The first thinks."),
            "{word}"
        );
        models.assert_in_order();
    }
}

const KEY: (&str, &str) = ("ANTHROPIC_API_KEY", "sk-ant-test-0123456789");

/// A terminal with a second model, and the options that name both.
fn terminal(first: &BlockingModel, second: &BlockingModel) -> (Shell, Vec<String>) {
    let settings = [
        format!("providers.anthropic.base_url={}", first.url()),
        "providers.anthropic.attempts_max=1".to_owned(),
        "model.default=anthropic/claude-opus-4-6".to_owned(),
        "model.fallbacks=backup/second,backup/third".to_owned(),
        "providers.backup.keyless=true".to_owned(),
        "providers.backup.attempts_max=1".to_owned(),
        format!("providers.backup.base_url={}", second.url()),
    ];
    let options = settings
        .into_iter()
        .flat_map(|setting| ["--set".to_owned(), setting]);
    let shell = Shell::with_repository(&[("a", "one\n")]).set(KEY.0, KEY.1);
    (shell, options.collect())
}

#[test]
fn a_terminal_shows_the_model_that_goes_on_and_scripts_get_an_event() {
    let models = || {
        (
            BlockingModel::start(|_: &ModelRequest| overloaded()),
            BlockingModel::start(|_: &ModelRequest| says("From the second.")),
        )
    };
    let (first, second) = models();
    let (shell, options) = terminal(&first, &second);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let arguments = [&["chat"], &options[..]].concat();
    let ended = shell.run_with_input(&arguments, "how many?\n/usage\n/model\n");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let shown =
        "anthropic/claude-opus-4-6 does not answer: the model provider is overloaded; backup/second goes on";
    assert!(ended.err.contains(shown), "{ended:?}");
    let line = "`anthropic/claude-opus-4-6` did not answer: the model provider is overloaded (529)";
    assert!(ended.err.contains(line), "{ended:?}");
    assert!(
        ended.out.starts_with("From the second.\n1050 tokens: ")
            && ended
                .out
                .ends_with("; backup/second answered last\nanthropic/claude-opus-4-6\n"),
        "{ended:?}"
    );
    let (first, second) = models();
    let (shell, options) = terminal(&first, &second);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let ended = shell.run(&[&["ask", "--json", "--events"], &options[..], &["how many?"]].concat());
    let events: Vec<Value> = ended
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let expected = json!({
        "event": "falling_back", "from": "anthropic/claude-opus-4-6", "to": "backup/second",
        "reason": "the model provider is overloaded",
    });
    assert!(events.contains(&expected), "{events:?}");
    let result = &events.last().unwrap()["result"];
    assert_eq!(result["model"], "backup/second");
    assert!(result["fallback"].as_str().unwrap().starts_with(line), "{result}");
}

/// A chosen model keeps the other fallbacks.
#[test]
fn a_model_that_is_chosen_in_a_terminal_keeps_the_other_fallbacks() {
    let first = BlockingModel::start(queue([]));
    let second = BlockingModel::start(|asked: &ModelRequest| match asked.model.as_str() {
        "second" => overloaded(),
        _ => says("From the third."),
    });
    let (shell, options) = terminal(&first, &second);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let arguments = [&["chat"], &options[..]].concat();
    let ended = shell.run_with_input(&arguments, "/model backup/second\nhow many?\n");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.out, "backup/second\nFrom the third.\n");
    let listed = shell.run(&[&["models", "--json"], &options[..]].concat()).json();
    assert_eq!(listed["fallbacks"], json!(["backup/second", "backup/third"]));
    let listed = shell.run(&[&["models"], &options[..]].concat()).out;
    for row in ["anthropic/claude-opus-4-6 *", "backup/second 1", "backup/third 2"] {
        assert!(listed.contains(row), "{row}: {listed}");
    }
}
