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
        "1 file, +1 −1",
        "every affected environment renders  pass",
        "both engines agree  pass",
        "3 of 4 environments change",
        "The same change in 2 environments: environments/dev, environments/staging:",
        "spec.template.spec.containers[name=worker].resources.limits.memory: 128Mi -> 192Mi",
        "Different in 1 environment: environments/prod:",
        "256Mi -> 384Mi (elsewhere 128Mi -> 192Mi)",
        "medium DD001 Pods are replaced",
        "Proven unaffected: 1 environment (1 imports no changed file)",
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
