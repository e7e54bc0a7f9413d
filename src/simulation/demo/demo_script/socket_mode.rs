//! A second Slack workspace, which has no address of the gateway: its events arrive over a socket that the gateway opens.

use super::{DANA, bot_message, invite, slack_text};
use crate::base::http_client::api_client;
use crate::engine::admin::{AdminReply, AdminRequest};
use crate::server::app::Host;
use crate::simulation::demo::environment::{DemoEnvironment, FIELD_APP_TOKEN, FIELD_BOT_TOKEN};
use crate::simulation::demo::transcript::Transcript;
use crate::simulation::emulator::slack::{RateLimits, SlackEmulator, SlackOptions};
use crate::state::access::Role;
use anyhow::Context;

/// The channel of the workspace.
const FIELD_CHANNEL: &str = "C0FIELD";
const DIRECT: &str = "Slack 2, direct";
const PLACE: &str = "Slack 2, #field";
const PLACE_THREAD: &str = "Slack 2, #field, thread";

/// Starts the workspace with Socket Mode, and tells it no address.
pub(super) async fn start(host: Host) -> anyhow::Result<SlackEmulator> {
    let options = SlackOptions {
        team: "T0FIELD".to_owned(),
        bot_user: "U0FIELDBOT".to_owned(),
        bot_name: "drydock".to_owned(),
        bot_token: FIELD_BOT_TOKEN.to_owned(),
        // It sends no request that could be signed.
        signing_secret: String::new(),
        rate_limits: RateLimits::Off,
        at: host.now,
        http: api_client()?,
    };
    let slack = SlackEmulator::start(options).await?;
    slack.turn_socket_mode_on(FIELD_APP_TOKEN);
    slack.add_channel(FIELD_CHANNEL, &[DANA]);
    Ok(slack)
}

/// Returns the keys of its channel.
pub(super) fn keys(api_base_url: &str) -> [(&str, &str); 5] {
    [
        ("channels.field.kind", "slack"),
        ("channels.field.bot_token.env", "STAGE_FIELD_BOT_TOKEN"),
        ("channels.field.app_token.env", "STAGE_FIELD_APP_TOKEN"),
        ("channels.field.api_base_url", api_base_url),
        ("channels.field.paced", "false"),
    ]
}

pub(super) async fn play(
    environment: &DemoEnvironment,
    slack: &SlackEmulator,
    transcript: &mut Transcript<'_>,
) -> anyhow::Result<()> {
    transcript.scene("A workspace without a public address: Socket Mode");
    let open = slack.wait_until(|state| (state.socket_mode.staying_sockets() > 0).then_some(()));
    open.await.context("the gateway opened no socket")?;
    let token = invite(environment, "dana", Role::Editor, &["staging"]).await?;
    transcript.says(
        "terminal",
        "operator",
        "drydock invite dana --role editor --env staging",
    );
    transcript.says(DIRECT, "dana", "join <the token>");
    slack.dm(DANA, &format!("join {token}")).await?;
    let chat = format!("D{DANA}");
    let welcome = slack.wait_until(|state| bot_message(state, &chat, "You're in, dana"));
    welcome.await.context("dana was not admitted")?;

    let mention = "@drydock give api 1Gi of memory in staging";
    transcript.says(PLACE, "dana", mention);
    let before = stored_messages(environment).await?;
    // The workspace waits for the acknowledgement of both events of the mention.
    slack.say(DANA, FIELD_CHANNEL, mention).await?;
    let stored = stored_messages(environment).await? - before;
    transcript.expect(
        PLACE,
        "both events of the mention were acknowledged over the socket; by then it was stored, once",
        stored == 1,
    );
    let result = slack.wait_until(|state| bot_message(state, FIELD_CHANNEL, "is ready"));
    let result = result.await.context("no result over the socket")?;
    let expected = [
        "is ready: staging, 1 file, +1 −1",
        "api: memory  512Mi -> 1Gi",
        "[Get patch]",
    ];
    transcript.expect_answer(PLACE_THREAD, &slack_text(&result), &expected);
    transcript.says(PLACE_THREAD, "dana", "[Get patch]");
    slack.click(DANA, &result.ts, "Get patch").await?;
    let file = slack.wait_until(|state| {
        let mut files = state.files.iter();
        files.find(|file| file.name.ends_with(".patch")).cloned()
    });
    let file = file.await.context("no patch file")?;
    let patch = String::from_utf8_lossy(&file.content);
    transcript.expect(
        PLACE_THREAD,
        "the press came over the socket as well, and the patch was sent",
        patch.contains("\n+    memory: '1Gi',"),
    );
    let (acknowledged, lost) =
        slack.with_state(|state| (state.socket_mode.acknowledged(), state.socket_mode.lost.len()));
    transcript.expect(
        PLACE,
        "no event was lost, and the workspace has no address of the gateway",
        acknowledged >= 4 && lost == 0,
    );
    Ok(())
}

/// Returns the number of messages in the store.
async fn stored_messages(environment: &DemoEnvironment) -> anyhow::Result<u64> {
    let app = environment.app.as_ref().context("the gateway is down")?;
    match app.admin.answer(AdminRequest::Data).await {
        AdminReply::Data { kinds, .. } => {
            let messages = kinds.iter().find(|holding| holding.kind == "messages");
            Ok(messages.context("messages are not counted")?.rows)
        }
        other => anyhow::bail!("no amounts: {other:?}"),
    }
}
