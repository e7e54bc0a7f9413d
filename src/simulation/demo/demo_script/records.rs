//! The recording and the audit log.

use crate::engine::admin::{AdminReply, AdminRequest};
use crate::simulation::demo::environment::DemoEnvironment;
use crate::simulation::demo::transcript::Transcript;

pub(super) async fn play(
    environment: &DemoEnvironment,
    transcript: &mut Transcript<'_>,
) -> anyhow::Result<()> {
    transcript.scene("The recording and the audit log");
    let Some(app) = &environment.app else {
        return Ok(());
    };
    transcript.says("terminal", "operator", "drydock session show CHG-1");
    let recorded = match app
        .admin
        .answer(AdminRequest::Session {
            which: "CHG-1".to_owned(),
        })
        .await
    {
        AdminReply::Session { records } => records.len(),
        _ => 0,
    };
    transcript.expect("terminal", &format!("{recorded} records"), recorded > 5);
    transcript.says("terminal", "operator", "drydock audit verify");
    let whole =
        matches!(app.admin.answer(AdminRequest::Audit).await, AdminReply::Audit { rows, .. } if rows > 0);
    transcript.expect("terminal", "the hash chain of the audit log is intact", whole);
    Ok(())
}
