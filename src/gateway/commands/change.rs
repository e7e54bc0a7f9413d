//! Commands about the prepared change: showing it, sending it, taking it back.

use crate::access::Identity;
use crate::command::Verb;
use crate::gateway::Gateway;
use crate::gateway::compose::{self, Address};
use crate::gateway::prepared::{Onto, Prepared};
use crate::model::{Change, ConversationId, Op, Part, Reply};
use crate::workspace::{Overlay, Workspace};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

impl Gateway {
    pub(super) async fn diff(
        &self,
        address: &Address,
        conversation: ConversationId,
    ) -> anyhow::Result<Vec<Op>> {
        let Some(mut change) = self.parts.store.current_change(conversation).await? else {
            return Ok(vec![address.post("answer", nothing_prepared())]);
        };
        change.patch = compose::masked(&change.patch, &self.parts.redactor);
        let inline_max = self.parts.config.limits.inline_diff_bytes_max;
        let reply = titled(&change).with(Part::Facts {
            rows: compose::rows(&change),
        });
        let reply = Reply {
            parts: reply
                .parts
                .into_iter()
                .chain(compose::effects(&change))
                .chain(compose::diff(&change, inline_max).parts)
                .collect(),
        };
        let mut ops = self.posts(address, &reply);
        if !compose::fits_inline(&change, inline_max) {
            ops.push(self.upload(address, conversation, &change, "diff").await?);
        }
        Ok(ops)
    }

    /// A file cannot be whispered: it goes to the thread of the conversation it belongs to.
    async fn upload(
        &self,
        address: &Address,
        conversation: ConversationId,
        change: &Change,
        extension: &str,
    ) -> anyhow::Result<Op> {
        let mut address = address.clone();
        if address.whisper.is_some() {
            address.place = self.parts.store.conversation(conversation).await?.key.place;
        }
        Ok(address.upload(change, extension))
    }

    pub(super) async fn patch(
        &self,
        address: &Address,
        conversation: ConversationId,
    ) -> anyhow::Result<Vec<Op>> {
        let Some(mut change) = self.parts.store.current_change(conversation).await? else {
            return Ok(vec![address.post("answer", nothing_prepared())]);
        };
        change.patch = compose::masked(&change.patch, &self.parts.redactor);
        let upload = self.upload(address, conversation, &change, "patch").await?;
        let base = compose::short(&change.base);
        let text = match compose::is_masked(&change) {
            true => format!("{change}, against {base}. A secret in it is masked, so it does not apply."),
            false => format!(
                "{change}, against {base}. `git apply CHG-{}.patch` puts it into your working tree.",
                change.number
            ),
        };
        Ok(vec![address.post("answer", Reply::text(text)), upload])
    }

    pub(super) async fn undo(&self, conversation: ConversationId) -> anyhow::Result<Reply> {
        if let Some(busy) = self.busy(conversation) {
            return Ok(busy);
        }
        let at = (self.parts.now)();
        let Some(edits) = self.parts.store.undo(conversation, at).await? else {
            return Ok(Reply::text("There is nothing to undo."));
        };
        if edits.is_empty() {
            self.parts.store.discard(conversation, at).await?;
            return Ok(Reply::text(
                "Undone; the workspace is as the base again, and nothing is prepared.",
            ));
        }
        let row = self.parts.store.conversation(conversation).await?;
        let (Some(repository), Some(base)) = (row.repository, row.base) else {
            return Ok(Reply::text("Undone."));
        };
        let loaded = self.parts.repositories.base(&repository, &base).await?;
        let head = self.parts.repositories.head(&repository).await?;
        let branch = self.parts.repositories.branch(&repository).to_owned();
        let workspace = Workspace {
            repository: self.parts.repositories.get(&repository).await?,
            base: Some(base),
            tree: Arc::new(Overlay::new(loaded, edits)),
        };
        let onto = Onto {
            head: &head,
            branch: &branch,
        };
        let nobody = CancellationToken::new();
        let Some(Prepared { change, .. }) = self.prepared(&workspace, onto, "", &mut |_| {}, &nobody).await?
        else {
            return Ok(Reply::text("Undone; the workspace is as the base again."));
        };
        let change = self.parts.store.revise(conversation, change, at).await?;
        Ok(Reply::text(format!(
            "Undone. {change} is now {}; `diff` shows it.",
            compose::totals(&change)
        )))
    }

    pub(super) async fn discard(&self, conversation: ConversationId) -> anyhow::Result<Reply> {
        if let Some(busy) = self.busy(conversation) {
            return Ok(busy);
        }
        Ok(
            match self.parts.store.discard(conversation, (self.parts.now)()).await? {
                Some(change) => Reply::text(format!(
                    "{change} is discarded; the workspace is as the base again."
                )),
                None => nothing_prepared(),
            },
        )
    }

    /// A grant may be gone since something was prepared: then its files are nobody's to show.
    pub(super) async fn out_of_reach(
        &self,
        verb: Verb,
        identity: &Identity,
        conversation: ConversationId,
    ) -> anyhow::Result<Option<Reply>> {
        match verb {
            Verb::Diff | Verb::Patch | Verb::Undo => {}
            Verb::Envs | Verb::Render | Verb::WhoImports | Verb::Risk => {}
            Verb::Help
            | Verb::Status
            | Verb::Discard
            | Verb::Clear
            | Verb::Context
            | Verb::Usage
            | Verb::Stop => return Ok(None),
        }
        let change = self.parts.store.current_change(conversation).await?;
        Ok(change
            .filter(|change| identity.role(&change.repository).is_none())
            .map(|change| {
                Reply::text(format!(
                    "You have no grant for `{}` any more; {change} is kept.",
                    change.repository
                ))
            }))
    }
}

fn titled(change: &Change) -> Reply {
    Reply {
        parts: vec![Part::Heading {
            text: format!("{change}: {}", compose::totals(change)),
        }],
    }
}

fn nothing_prepared() -> Reply {
    Reply::text("Nothing is prepared here. Say what should change.")
}
