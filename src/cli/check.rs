//! `drydock check`: is the configuration good? Nothing is connected, nothing is changed.

use super::output::Output;
use super::{Failure, Global};
use crate::config::Config;
use crate::tool::{self, Toolbox};
use crate::workspace::{Repository, RepositoryError};

pub(super) fn run(global: &Global, output: &Output) -> Result<(), Failure> {
    let config = Config::load(global.sources()?).map_err(Failure::config)?;
    let mut findings = Vec::new();
    for (name, settings) in &config.repositories {
        findings.push(match &settings.path {
            Some(path) => finding(
                &format!("repository {name}"),
                Repository::local(
                    name,
                    path,
                    Some(&settings.branch),
                    &config.data.directory.join("bases").join(name),
                )
                .and_then(|repository| repository.head())
                .and_then(|head| {
                    head.ok_or_else(|| {
                        RepositoryError::Refused(format!("branch `{}` has no commit", settings.branch))
                    })
                })
                .map(|head| {
                    format!(
                        "`{}` is at {}",
                        settings.branch,
                        head.chars().take(7).collect::<String>()
                    )
                }),
            ),
            None => finding::<String>(
                &format!("repository {name}"),
                Ok("remote; not contacted".to_owned()),
            ),
        });
    }
    let tools = Toolbox::new(tool::all())
        .map(|tools| format!("{} tools, all schemas are valid", tools.specs().len()));
    findings.push(finding("tools", tools));
    let failed = findings.iter().filter(|finding| !finding.ok).count();
    if output.json() {
        let list: Vec<_> = findings
            .iter()
            .map(|f| serde_json::json!({"what": f.what, "ok": f.ok, "detail": f.detail}))
            .collect();
        output.value(&serde_json::json!({ "ok": failed == 0, "findings": list }));
    } else {
        let rows: Vec<Vec<String>> = findings
            .into_iter()
            .map(|finding| {
                vec![
                    finding.what,
                    if finding.ok { "ok" } else { "FAILED" }.to_owned(),
                    finding.detail,
                ]
            })
            .collect();
        output.table(&["CHECK", "RESULT", "DETAIL"], &rows);
    }
    if failed > 0 {
        Err(Failure::config(format!("{failed} of the checks failed")))
    } else {
        Ok(())
    }
}

struct Finding {
    what: String,
    ok: bool,
    detail: String,
}

fn finding<E: std::fmt::Display>(what: &str, result: Result<String, E>) -> Finding {
    match result {
        Ok(detail) => Finding {
            what: what.to_owned(),
            ok: true,
            detail,
        },
        Err(error) => Finding {
            what: what.to_owned(),
            ok: false,
            detail: error.to_string(),
        },
    }
}
