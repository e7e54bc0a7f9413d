//! `login`: gives a person the command that lets `drydock pull` on their machine fetch their changes. Only they see it.

use super::{AcceptedCommand, CommandAnswer, CommandRunner, address_of};
use crate::base::model::{Op, Reply, ReplyPart};
use crate::engine::gateway::compose::Address;
use crate::state::access::Identity;
use crate::state::store::LOGIN_CODE;

/// The answer if no machine can reach the server.
const NO_ADDRESS: &str = "No machine can reach me yet: an administrator must set `server.public_url` to the address of \
                          this server, then `login` works.";

/// The line in a group on a platform that shows nobody a message alone.
const IN_PRIVATE: &str =
    "The answer is in our private chat. If it is not there, open that chat and say `login` in it.";

impl CommandRunner {
    /// Answers with a new code, which is stored in the same transaction as the answer.
    pub(super) fn log_in(&self, asked: &AcceptedCommand, identity: &Identity) -> CommandAnswer {
        let address = private_address(asked);
        let url = self.parts.config.server.public_url.trim_end_matches('/');
        if url.is_empty() {
            return CommandAnswer::post(&address, Reply::text(NO_ADDRESS));
        }
        let (random, at) = ((self.parts.random)(), (self.parts.now)());
        let (code, stored) = self.parts.access.new_login_code(identity, random, at);
        let reply = Reply::text("Run this on your machine. The code works once, within 10 minutes:").with(
            ReplyPart::Code {
                language: String::new(),
                text: format!("drydock login {url} {}", code.expose()),
            },
        );
        let mut ops = vec![address.post(LOGIN_CODE, reply)];
        ops.extend(pointer(asked));
        CommandAnswer {
            login: Some(stored),
            ..CommandAnswer::ops(ops)
        }
    }
}

/// Returns an address that only the sender reads.
fn private_address(asked: &AcceptedCommand) -> Address {
    let inbound = &asked.inbound;
    let address = address_of(inbound, asked.inbox.op_id_prefix());
    match inbound.direct {
        true => address,
        false => Address {
            place: inbound.private_place(),
            ephemeral_to: Some(inbound.sender.clone()),
            reply_to: None,
            ..address
        },
    }
}

/// Returns the line that says where the answer is, if the platform shows it in another chat.
fn pointer(asked: &AcceptedCommand) -> Option<Op> {
    let inbound = &asked.inbound;
    let chat = inbound.place.account.platform.chat()?;
    let is_elsewhere = !inbound.direct && !chat.has_ephemeral_notices && inbound.response_url.is_none();
    let address = address_of(inbound, asked.inbox.op_id_prefix());
    is_elsewhere.then(|| address.post("pointer", Reply::text(IN_PRIVATE)))
}
