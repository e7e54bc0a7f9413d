//! `[services.<name>]`: programs that use the HTTP API in their own name, with tokens that an operator makes.

use crate::base::config::hooks::grants;
use crate::base::config::reader::SettingsReader;
use crate::base::webhook::Grants;
use std::collections::BTreeMap;

/// `[services.<name>]`. Its requests run as `service:<name>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSettings {
    /// `repository`: a configured name.
    pub repository: String,
    /// `grants`: those of the service identity `service:<name>`.
    pub grants: Grants,
}

/// Reads all services.
pub(super) fn services(reader: &mut SettingsReader<'_>) -> BTreeMap<String, ServiceSettings> {
    let mut services = BTreeMap::new();
    for name in reader.names("services") {
        let section = format!("services.{name}");
        let repository = reader.reference(&format!("{section}.repository"), "repositories");
        let grants = grants(reader, &section);
        services.extend(repository.map(|repository| (name, ServiceSettings { repository, grants })));
    }
    services
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::base::config::{Config, ConfigSources, OperatorSettings, SourceFile};
    use crate::base::model::Role;

    const DEPLOY: &str = "[services.deploy]\nrepository = \"infra\"\n";
    const AROUND: &str = "[repositories.infra]\npath = \"/infra.git\"\n";

    fn load(service: &str) -> Result<OperatorSettings, String> {
        let file = SourceFile {
            path: "drydock.toml".into(),
            text: format!("{service}{AROUND}"),
        };
        let sources = ConfigSources {
            file: Some(file),
            ..ConfigSources::default()
        };
        Config::for_operator(sources).map_err(|error| error.to_string())
    }

    #[test]
    fn a_service_has_a_repository_and_grants() {
        let settings = load(DEPLOY).unwrap();
        let deploy = &settings.services["deploy"];
        assert_eq!(deploy.repository, "infra");
        assert_eq!(
            (deploy.grants.role, deploy.grants.environments.as_slice()),
            (Role::Editor, ["**".to_owned()].as_slice())
        );
        let narrow = format!("{DEPLOY}grants = {{ role = \"viewer\", environments = [\"dev\"] }}\n");
        let settings = load(&narrow).unwrap();
        let grants = &settings.services["deploy"].grants;
        assert_eq!(
            (grants.role, grants.environments.as_slice()),
            (Role::Viewer, ["dev".to_owned()].as_slice())
        );
    }

    #[test]
    fn a_wrong_service_is_refused_with_its_line_and_its_key() {
        for (service, problem) in [
            (
                "[services.deploy]\n",
                "drydock.toml:1: services.deploy.repository: is required",
            ),
            (
                "[services.deploy]\nrepository = \"apps\"\n",
                "drydock.toml:2: services.deploy.repository: does not name one of the repositories; there are infra",
            ),
            (
                "[services.deploy]\nrepository = \"infra\"\ngrants.role = \"admin\"\n",
                "drydock.toml:3: services.deploy.grants.role: expected one of viewer, editor",
            ),
            (
                "[services.deploy]\nrepository = \"infra\"\ngrants.environments = []\n",
                "drydock.toml:3: services.deploy.grants.environments: an empty list allows nothing",
            ),
            (
                "[services.deploy]\nrepository = \"infra\"\ntoken = \"x\"\n",
                "drydock.toml:3: services.deploy.token: unknown key",
            ),
            (
                "[services.my_bot]\nrepository = \"infra\"\n",
                "drydock.toml:1: services.my_bot: a name is 1 to 32 of a-z, 0-9 and -",
            ),
        ] {
            let refused = load(service).unwrap_err();
            assert!(refused.contains(problem), "{refused}");
        }
    }
}
