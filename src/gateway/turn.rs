//! One turn: authorise again, open the workspace, run the loop, prepare the change, answer.

use super::compose::{self, Address, ChangeButtons, Facts};
use super::desk::Running;
use super::progress::{Card, CardEditor};
use super::{Gateway, Outcome, Verdict, hex};
use crate::access::Identity;
use crate::agent::{self, Event, Journal, TurnContext};
use crate::config::ChannelSettings;
use crate::model::{
    Action, Change, Inbound, InboxId, Kind, Op, Platform, Reply, Source, Step, TurnId, Usage,
};
use crate::prompt::{self, PromptFacts, RepositoryKind};
use crate::session::{self, Record, Recorder};
use crate::store::{Announcement, Claim, Conversation, Cost, Finish, NewAction, NewChange, Store};
use crate::verify::{self, Standing};
use crate::workspace::{Overlay, Tree, Workspace, patch};
use anyhow::Context as _;
use async_trait::async_trait;
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::{Timestamp, ToSpan};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long a button stays good.
const BUTTON_DAYS: i32 = 7;

/// A turn that was let in and has its workspace.
struct Opened {
    identity: Identity,
    conversation: Conversation,
    workspace: Workspace,
    overlay: Arc<Overlay>,
    /// The branch and its newest commit when the turn began.
    branch: String,
    head: String,
    system: String,
    user_text: String,
}

impl Gateway {
    /// Runs the turn of one message and leaves its answer in the outbox.
    pub(super) async fn turn(
        self: &Arc<Self>,
        claim: Claim,
        inbox: InboxId,
        inbound: Inbound,
        shutdown: CancellationToken,
    ) -> anyhow::Result<()> {
        let address = self.address(&inbound, format!("inbox-{inbox}"));
        let Some(identity) = self.identity(&inbound) else {
            return self.refuse(&claim, inbox, &address, "Access was revoked.").await;
        };
        let opened = match self.open(&claim, &identity, &inbound).await {
            Ok(opened) => opened,
            Err(why) => return self.refuse(&claim, inbox, &address, &why).await,
        };
        let started = Instant::now();
        let turn = self
            .parts
            .store
            .begin_turn(&claim, inbox, &opened.user_text, (self.parts.now)())
            .await?;
        let address = Address {
            prefix: format!("turn-{turn}"),
            ..address
        };
        let card = self
            .open_card(&address, &opened, &inbound, turn, &shutdown)
            .await?;
        let ran = self.run_agent(&claim, turn, &opened, &card).await;
        let card_post = card.close().await;
        self.desk.end(claim.conversation);
        let outcome = match ran {
            Ok(outcome) => outcome,
            Err(error) => self.broken(&error),
        };
        let facts = Facts {
            steps: outcome.steps,
            usage: outcome.usage,
            elapsed: started.elapsed(),
        };
        self.finish(&claim, turn, &opened, &address, &outcome, facts, card_post)
            .await
    }

    fn address(&self, inbound: &Inbound, prefix: String) -> Address {
        let address = Address::of(inbound, prefix);
        let Some(hook) = self.hook(inbound) else {
            return address;
        };
        let channel = hook.post_to.channel.clone();
        let mut place = inbound.place.clone();
        if let Some(connected) = self.channel(&channel) {
            place.account = connected.installation().account.clone();
        }
        Address {
            channel,
            place,
            mention: None,
            ..address
        }
    }

    /// Ends a message without a turn: nothing was asked of a model.
    async fn refuse(
        &self,
        claim: &Claim,
        inbox: InboxId,
        address: &Address,
        why: &str,
    ) -> anyhow::Result<()> {
        let op = address.post("refused", Reply::text(why));
        self.parts
            .store
            .dismiss(claim, inbox, vec![op], (self.parts.now)())
            .await?;
        self.wake_deliveries();
        Ok(())
    }

    /// Opens the workspace; an `Err` is what the person is told.
    async fn open(&self, claim: &Claim, identity: &Identity, inbound: &Inbound) -> Result<Opened, String> {
        let reference = claim.conversation;
        let internal = |error: anyhow::Error| self.internal(&error, &format!("conversation {reference}"));
        let store = &self.parts.store;
        let conversation = store
            .conversation(claim.conversation)
            .await
            .map_err(|error| internal(error.into()))?;
        let (name, words) = self.choose_repository(identity, inbound, &conversation)?;
        let repository = self
            .parts
            .repositories
            .get(&name)
            .await
            .map_err(|error| error.to_string())?;
        let head = self
            .parts
            .repositories
            .head(&name)
            .await
            .map_err(|error| error.to_string())?;
        let edits = store
            .edits(claim.conversation)
            .await
            .map_err(|error| internal(error.into()))?;
        // Without edits there is nothing to keep apart: the workspace starts from the newest commit.
        let bound = conversation.base.clone().filter(|_| !edits.is_empty());
        let base = bound.unwrap_or_else(|| head.clone());
        if conversation.base.as_ref() != Some(&base) || conversation.repository.as_ref() != Some(&name) {
            store
                .bind(claim.conversation, &name, &base)
                .await
                .map_err(|error| internal(error.into()))?;
        }
        let loaded = self
            .parts
            .repositories
            .base(&name, &base)
            .await
            .map_err(|error| error.to_string())?;
        let overlay = Arc::new(Overlay::new(loaded, edits));
        let workspace = Workspace {
            repository,
            base: Some(base),
            tree: Arc::clone(&overlay) as Arc<dyn Tree>,
        };
        let branch = self.parts.repositories.branch(&name).to_owned();
        let files = overlay.files().map_err(|error| internal(error.into()))?;
        let environments = identity.environments(&name);
        let facts = PromptFacts {
            repository: &name,
            branch: &branch,
            role: identity.role(&name),
            environments: &environments,
        };
        let system = prompt::system(RepositoryKind::of_files(&files), &facts);
        let user_text = self.user_text(inbound, &words, &workspace).await?;
        Ok(Opened {
            identity: identity.clone(),
            conversation,
            workspace,
            overlay,
            branch,
            head,
            system,
            user_text,
        })
    }

    /// The repository a message is about, and the message without the word that named it.
    fn choose_repository(
        &self,
        identity: &Identity,
        inbound: &Inbound,
        conversation: &Conversation,
    ) -> Result<(String, String), String> {
        if let Some(hook) = self.hook(inbound) {
            return Ok((hook.repository.clone(), String::new()));
        }
        let text = match &inbound.kind {
            Kind::Text { text, .. } => text.clone(),
            _ => String::new(),
        };
        let granted: Vec<&str> = self
            .parts
            .repositories
            .names()
            .filter(|name| identity.role(name).is_some())
            .collect();
        if let Some((word, rest)) = text.split_once(':')
            && granted.contains(&word.trim())
        {
            return Ok((word.trim().to_owned(), rest.trim().to_owned()));
        }
        let bound = conversation.repository.as_deref();
        let default = self
            .parts
            .config
            .channels
            .get(&inbound.channel)
            .and_then(ChannelSettings::repository);
        let chosen = bound
            .into_iter()
            .chain(default)
            .find(|name| granted.contains(name));
        match (chosen, granted.as_slice()) {
            (Some(name), _) => Ok((name.to_owned(), text)),
            (None, [only]) => Ok(((*only).to_owned(), text)),
            (None, []) => {
                Err("You have no grant for a repository here; ask an administrator for one.".to_owned())
            }
            (None, several) => Err(format!(
                "Which repository? Start your message with one of `{}:`.",
                several.join(":`, `")
            )),
        }
    }

    /// What the model reads as the person's turn: their words, and what they quote as marked data.
    async fn user_text(
        &self,
        inbound: &Inbound,
        words: &str,
        workspace: &Workspace,
    ) -> Result<String, String> {
        let text = match &inbound.kind {
            Kind::Hook { event, fields } => self.hook_text(inbound, event, fields, workspace).await?,
            Kind::Text {
                quoted: Some(quoted), ..
            } => {
                format!(
                    "{words}\n\n{}",
                    prompt::data_block("quoted message", "another person", quoted)
                )
            }
            _ => words.to_owned(),
        };
        Ok(self.parts.redactor.redact(&text).into_owned())
    }

    async fn hook_text(
        &self,
        inbound: &Inbound,
        event: &str,
        fields: &std::collections::BTreeMap<String, String>,
        workspace: &Workspace,
    ) -> Result<String, String> {
        let Some(hook) = self.hook(inbound) else {
            return Err("This hook is gone.".to_owned());
        };
        // The instructions come from the trusted branch, not from edits and not from the payload.
        let name = workspace.repository.name().to_owned();
        let instructions = self
            .parts
            .repositories
            .text_on_branch(&name, &hook.prompt)
            .await
            .map_err(|error| {
                format!(
                    "The prompt of hook `{}` could not be read: {error}",
                    inbound.sender.id
                )
            })?;
        let fields = serde_json::to_string_pretty(&fields).map_err(|error| error.to_string())?;
        Ok(format!(
            "{instructions}\n\n{}",
            prompt::data_block(event, "webhook payload", &fields)
        ))
    }

    /// Posts the card of a turn and starts to keep it current. Hooks have none: they post one message.
    async fn open_card(
        self: &Arc<Self>,
        address: &Address,
        opened: &Opened,
        inbound: &Inbound,
        turn: TurnId,
        shutdown: &CancellationToken,
    ) -> anyhow::Result<OpenCard> {
        let stop = shutdown.child_token();
        let quiet = inbound.sender.platform == Platform::Hook;
        let (token, action) = self.button("stop", "", opened);
        let (card, _) = watch::channel(Card::new((!quiet).then_some(token)));
        self.desk.begin(
            opened.conversation.id,
            Running {
                turn,
                stop: stop.clone(),
                card: card.clone(),
            },
        );
        let done = CancellationToken::new();
        let mut open = OpenCard {
            card,
            stop,
            done: done.clone(),
            editor: None,
            post: None,
        };
        let channel = self.channel(&address.channel).filter(|_| !quiet);
        let Some((channel, delivery)) = channel.zip(self.deliveries.get(&address.channel)) else {
            return Ok(open);
        };
        self.parts.store.add_actions(vec![action]).await?;
        let reply = open.card.borrow().reply();
        let op = address.post("card", reply);
        let post = op.id.clone();
        self.send(vec![op]).await;
        let editor = CardEditor {
            store: self.parts.store.clone(),
            channel_name: address.channel.clone(),
            channel,
            place: address.place.clone(),
            post: post.clone(),
            delivered: delivery.delivered(),
        };
        open.editor = Some(tokio::spawn(editor.run(open.card.subscribe(), done)));
        open.post = Some(post);
        Ok(open)
    }

    async fn run_agent(
        &self,
        claim: &Claim,
        turn: TurnId,
        opened: &Opened,
        card: &OpenCard,
    ) -> anyhow::Result<Outcome> {
        let store = &self.parts.store;
        let mut history = store.history(claim.conversation).await?;
        history.begin(opened.user_text.clone())?;
        let (provider, model) = self
            .parts
            .providers
            .resolve(&self.parts.config.model.default)
            .map_err(anyhow::Error::msg)?;
        let recorder = self.recorder(&opened.conversation.session)?;
        let began = session::Event::Began {
            user: opened.user_text.clone(),
        };
        recorder.append(&Record {
            at: (self.parts.now)(),
            turn: Some(turn),
            event: began,
        })?;
        let mut journal = TurnJournal {
            store: store.clone(),
            claim: *claim,
            turn,
            overlay: Arc::clone(&opened.overlay),
            recorder,
            provider: provider.id().to_owned(),
            now: self.parts.now,
        };
        let cx = TurnContext {
            identity: &opened.identity,
            provider: provider.as_ref(),
            model: &model,
            system: &opened.system,
            toolbox: &self.parts.toolbox,
            workspace: &opened.workspace,
            limits: &self.parts.config.limits.turn,
            redactor: &self.parts.redactor,
            cancel: &card.stop,
        };
        let sender = card.card.clone();
        let mut events = move |event: Event| sender.send_modify(|card| card.observe(&event));
        agent::run_turn(cx, &mut history, &mut journal, &mut events).await
    }

    /// Something of ours broke: the person gets a reference, the log gets the reason.
    fn broken(&self, error: &anyhow::Error) -> Outcome {
        Outcome {
            verdict: Verdict::Error,
            source: Source::Harness,
            answer: String::new(),
            notice: Some(self.internal(error, "turn")),
            steps: 0,
            tool_calls: 0,
            usage: Usage::default(),
        }
    }

    /// Logs an internal error under a reference and says only the reference.
    pub(super) fn internal(&self, error: &anyhow::Error, what: &str) -> String {
        let reference = hex(&(self.parts.random)()[..4]);
        tracing::error!(
            reference,
            what,
            error = format!("{error:#}"),
            "failed (ref {reference})"
        );
        format!("Something of mine failed; nothing was changed. (ref {reference})")
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "one call site; each is a different thing the answer needs"
    )]
    async fn finish(
        &self,
        claim: &Claim,
        turn: TurnId,
        opened: &Opened,
        address: &Address,
        outcome: &Outcome,
        facts: Facts,
        card_post: Option<String>,
    ) -> anyhow::Result<()> {
        let base = opened
            .workspace
            .base
            .as_deref()
            .context("a gateway workspace has a base")?;
        let repository = opened.workspace.repository.name();
        let overlay = Arc::clone(&opened.overlay);
        let change = self
            .prepared(overlay, repository, base, &opened.head, &opened.branch)
            .await?;
        let verdict = match (outcome.verdict, &change) {
            (Verdict::Pass, None) => Verdict::NoChange,
            (verdict, _) => verdict,
        };
        let (patch_token, patch_action) = self.button("patch", "", opened);
        let (discard_token, discard_action) = self.button("discard", "", opened);
        let buttons = ChangeButtons {
            patch: patch_token,
            discard: discard_token,
        };
        let channel = self.channel(&address.channel);
        let answer = Answer {
            address: address.clone(),
            outcome: outcome.clone(),
            facts,
            card_post,
            inline_diff_bytes_max: self.parts.config.limits.inline_diff_bytes_max,
            // A hook that changed nothing says nothing.
            silent: address.mention.is_none() && change.is_none() && outcome.notice.is_none(),
        };
        let split = move |reply: &Reply| {
            channel
                .as_ref()
                .map_or_else(|| vec![reply.clone()], |channel| channel.split(reply))
        };
        let finish = Finish {
            verdict,
            source: outcome.source,
            change,
            summary: serde_json::json!({
                "steps": outcome.steps, "tool_calls": outcome.tool_calls, "notice": outcome.notice,
                "tokens": outcome.usage.total(), "elapsed_ms": u64::try_from(facts.elapsed.as_millis()).unwrap_or(u64::MAX),
            }),
            answer: None,
            announce: Box::new(move |change| Announcement {
                ops: answer.ops(change, buttons, split),
                actions: change.map_or_else(Vec::new, |_| vec![patch_action, discard_action]),
            }),
        };
        let change = self
            .parts
            .store
            .finish_turn(claim, turn, finish, (self.parts.now)())
            .await?;
        self.wake_deliveries();
        self.record_end(turn, opened, change.as_ref(), verdict, outcome.source, facts)?;
        tracing::info!(
            turn.id = %turn, user.id = %opened.identity.user(), steps = outcome.steps,
            duration_ms = facts.elapsed.as_millis(), ?verdict, "turn {turn} answered"
        );
        Ok(())
    }

    fn recorder(&self, session: &str) -> anyhow::Result<Recorder> {
        let redactor = Arc::clone(&self.parts.redactor);
        let redact = Arc::new(move |text: &str| redactor.redact(text).into_owned());
        Ok(Recorder::open(
            &self.parts.config.data.directory,
            session,
            redact,
            (self.parts.now)(),
        )?)
    }

    fn record_end(
        &self,
        turn: TurnId,
        opened: &Opened,
        change: Option<&Change>,
        verdict: Verdict,
        source: Source,
        facts: Facts,
    ) -> anyhow::Result<()> {
        let recorder = self.recorder(&opened.conversation.session)?;
        let end = session::Event::Verdict {
            verdict,
            source,
            summary: facts.line(),
        };
        for event in change.map(session::Event::of_change).into_iter().chain([end]) {
            recorder.append(&Record {
                at: (self.parts.now)(),
                turn: Some(turn),
                event,
            })?;
        }
        Ok(())
    }

    /// What the workspace differs from its base, checked by us; `None` when it does not.
    pub(super) async fn prepared(
        &self,
        overlay: Arc<Overlay>,
        repository: &str,
        base: &str,
        head: &str,
        branch: &str,
    ) -> anyhow::Result<Option<NewChange>> {
        let redactor = Arc::clone(&self.parts.redactor);
        let (repository, base) = (repository.to_owned(), base.to_owned());
        let (head, branch) = (head.to_owned(), branch.to_owned());
        tokio::task::spawn_blocking(move || {
            let changes = overlay.changes()?;
            if changes.is_empty() {
                return Ok(None);
            }
            let patch = patch::write(&changes);
            let standing = Standing {
                base: &base,
                head: &head,
                branch: &branch,
            };
            let checks = verify::checks(&changes, standing, &redactor);
            Ok(Some(NewChange {
                repository,
                base,
                patch: patch.text,
                stats: patch.stats,
                checks,
            }))
        })
        .await?
    }

    /// A one-shot token for a button, and what the store keeps of it.
    fn button(&self, verb: &str, argument: &str, opened: &Opened) -> (String, NewAction) {
        let bytes = (self.parts.random)();
        let token = BASE64_URL_SAFE_NO_PAD.encode(&bytes[..16]);
        let action = NewAction {
            token_hash: Sha256::digest(token.as_bytes()).into(),
            verb: verb.to_owned(),
            argument: argument.to_owned(),
            user: opened.identity.sender().clone(),
            conversation: opened.conversation.id,
            expires: expiry((self.parts.now)()),
        };
        (token, action)
    }
}

fn expiry(at: Timestamp) -> Timestamp {
    at.checked_add((24 * BUTTON_DAYS).hours()).unwrap_or(at)
}

/// A card on show.
struct OpenCard {
    card: watch::Sender<Card>,
    stop: CancellationToken,
    done: CancellationToken,
    editor: Option<JoinHandle<()>>,
    post: Option<String>,
}

impl OpenCard {
    /// Stops the edits, so that nothing overtakes the last one, and says which post the card is.
    async fn close(self) -> Option<String> {
        self.done.cancel();
        if let Some(editor) = self.editor
            && let Err(error) = editor.await
        {
            tracing::warn!(%error, "a progress card broke");
        }
        self.post
    }
}

/// Everything a result is made of, apart from the number its change gets.
struct Answer {
    address: Address,
    outcome: Outcome,
    facts: Facts,
    card_post: Option<String>,
    inline_diff_bytes_max: usize,
    silent: bool,
}

impl Answer {
    fn ops(
        &self,
        change: Option<&Change>,
        buttons: ChangeButtons,
        split: impl Fn(&Reply) -> Vec<Reply>,
    ) -> Vec<Op> {
        if self.silent {
            return Vec::new();
        }
        let mut ops = Vec::new();
        if let Some(post) = &self.card_post {
            let line = format!(
                "Done in {}; the result is below.",
                compose::seconds(self.facts.elapsed)
            );
            let line = self.outcome.notice.clone().unwrap_or(line);
            ops.push(self.address.op(
                "card/fill",
                Action::Fill {
                    post: post.clone(),
                    reply: Reply::text(line),
                },
            ));
        }
        let buttons = change.is_some().then_some(buttons);
        let reply = compose::result(
            &self.address,
            change,
            &self.outcome,
            self.facts,
            self.inline_diff_bytes_max,
            buttons,
        );
        let headline = compose::headline(change, &self.outcome);
        ops.extend(self.address.result(&headline, split(&reply)));
        if let Some(change) =
            change.filter(|change| !compose::fits_inline(change, self.inline_diff_bytes_max))
        {
            ops.push(self.address.upload(change, "diff"));
        }
        ops
    }
}

/// Steps go to the store first, then to the recording: a recording never holds what is not durable.
struct TurnJournal {
    store: Store,
    claim: Claim,
    turn: TurnId,
    overlay: Arc<Overlay>,
    recorder: Recorder,
    provider: String,
    now: fn() -> Timestamp,
}

#[async_trait]
impl Journal for TurnJournal {
    async fn model_call(&mut self, step: u32) -> anyhow::Result<()> {
        // The first call is covered by the turn's own row; each later one by the step before it.
        tracing::debug!(turn.id = %self.turn, step, "model call");
        Ok(())
    }

    async fn step(&mut self, step: &Step, model: &str) -> anyhow::Result<()> {
        let usage = step.assistant().usage;
        let cost = Cost {
            provider: self.provider.clone(),
            model: model.to_owned(),
            usage,
        };
        let edits = self.overlay.edits();
        let at = (self.now)();
        self.store
            .record_step(&self.claim, self.turn, step, &cost, Some(&edits), at)
            .await?;
        for event in session::Event::of_step(step, model) {
            self.recorder.append(&Record {
                at,
                turn: Some(self.turn),
                event,
            })?;
        }
        Ok(())
    }
}
