//! A library is edited: the environments that use it, how they change, and which do not change.

use super::{THREAD, ask_as_alice, slack_text};
use crate::engine::agent::REMARK_PREFIX;
use crate::simulation::demo::environment::DemoEnvironment;
use crate::simulation::demo::transcript::Transcript;

/// Edits a library and checks which environments use it, how they change, and which do not change.
pub(super) async fn play(
    environment: &DemoEnvironment,
    transcript: &mut Transcript<'_>,
) -> anyhow::Result<()> {
    transcript.scene("A library, and the environments that use it");
    let result = ask_as_alice(
        environment,
        transcript,
        "raise the default memory of an app to 192Mi",
    )
    .await?;
    let expected = [
        "is ready: 3 environments, 1 file, +1 −1",
        "3 of 4 environments change, in 2 groups",
        "2 like dev · Deployment worker",
        "worker: memory  128Mi -> 192Mi",
        "prod · Deployment worker",
        "worker: memory  256Mi -> 384Mi",
        "Risk (medium): Pods are replaced, Deployment worker in 3 environments. DD001",
        "▸ 7 checks passed, 1 not run. 1 environment proven unchanged.",
    ];
    transcript.expect_answer(THREAD, &slack_text(&result), &expected);
    let asked = environment.model.requests();
    let sent_back = asked
        .iter()
        .flat_map(|asked| &asked.messages)
        .find(|message| message.text.starts_with(REMARK_PREFIX));
    let fails = "every changed Jsonnet file parses: no, `lib/app.libsonnet`";
    transcript.expect(
        "model",
        "the first edit did not parse: the checks returned the answer, and the model fixed it before a person saw it",
        sent_back.is_some_and(|message| message.text.contains(fails)),
    );
    Ok(())
}
