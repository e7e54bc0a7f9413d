//! `[repositories.<name>]`: the locations of the configuration repositories.

use crate::base::config::reader::SettingsReader;
use crate::base::config::settings::RepositorySettings;
use std::collections::BTreeMap;

/// Reads all repositories.
pub(super) fn repositories(reader: &mut SettingsReader<'_>) -> BTreeMap<String, RepositorySettings> {
    let names = reader.names("repositories").into_iter();
    names
        .filter_map(|name| Some((name.clone(), repository(reader, &name)?)))
        .collect()
}

fn repository(reader: &mut SettingsReader<'_>, name: &str) -> Option<RepositorySettings> {
    let section = format!("repositories.{name}");
    let [path_key, url_key, token_key, branch_key] =
        ["path", "url", "token", "branch"].map(|key| format!("{section}.{key}"));
    match (reader.is_set(&path_key), reader.is_set(&url_key)) {
        (true, true) => reader.problem(&url_key, "a repository has a path or a url, not both"),
        (false, false) => reader.problem(&section, "needs path (on this machine) or url (an https remote)"),
        (true, false) | (false, true) => {}
    }
    if reader.is_set(&token_key) && !reader.is_set(&url_key) {
        reader.problem(&token_key, "is for a repository with a url");
    }
    let path = reader.path(&path_key);
    let url = reader.url(&url_key);
    // The build for `drydock-torture` mirrors a remote on the same machine.
    let is_loopback_fine = cfg!(feature = "crash-points");
    if url.as_ref().is_some_and(|url| !url.is_https()) && !is_loopback_fine {
        reader.problem(&url_key, "expected an https URL");
    }
    let token = reader.secret(&token_key);
    let branch = reader.text(&branch_key)?;
    if gix_validate::reference::name_partial(branch.as_str().into()).is_err() || branch.starts_with("refs/") {
        reader.problem(&branch_key, "expected the name of a branch, such as main");
    }
    Some(RepositorySettings {
        path,
        url: url.map(|url| url.as_str().to_owned()),
        token,
        branch,
    })
}
