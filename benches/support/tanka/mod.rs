//! A repository like that of a platform team: a generated library of Kubernetes kinds in `vendor`, a hand-written layer
//! on top in `lib`, and 300 environments that use both. Half of them are static, half inline. The repository is the
//! same in every run.

mod documentation;
pub(crate) mod environment;
mod kinds;
mod library;
pub(crate) mod parts;

/// The number of applications. Each is a library file that environments share.
pub(crate) const APPS: usize = 20;
/// The file every environment imports.
pub(crate) const SHARED: &str = "lib/util.libsonnet";

/// The files that are written by hand.
const FILES: &[(&str, &str)] = &[
    (
        "jsonnetfile.json",
        "{\"version\":1,\"dependencies\":[],\"legacyImports\":true}\n",
    ),
    ("lib/k.libsonnet", include_str!("files/k.libsonnet")),
    ("lib/kausal.libsonnet", include_str!("files/kausal.libsonnet")),
    ("lib/config.libsonnet", include_str!("files/config.libsonnet")),
    (SHARED, include_str!("files/util.libsonnet")),
    (
        "vendor/doc-util/main.libsonnet",
        include_str!("files/doc-util.libsonnet"),
    ),
];

/// Returns every file of a repository of `environments` environments, with its path.
pub(crate) fn files(environments: usize) -> Vec<(String, String)> {
    let by_hand = FILES
        .iter()
        .map(|(path, content)| ((*path).to_owned(), (*content).to_owned()));
    let mut files: Vec<(String, String)> = by_hand.collect();
    files.extend(library::files());
    files.extend((0..APPS).map(|app| (app_file(app), environment::application(app))));
    files.extend((0..environments).flat_map(environment::files));
    files
}

pub(crate) fn directory(number: usize) -> String {
    format!("environments/team-{}/env-{number}", number % 25)
}

/// Returns the library of an application. Every environment uses the one of its number, modulo [`APPS`].
pub(crate) fn app_file(app: usize) -> String {
    format!("lib/apps/app-{app}.libsonnet")
}
