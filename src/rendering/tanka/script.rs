//! The programs that examine an entry point without evaluating all of it. Names are passed as external variables
//! and never as part of the program text.

use super::TankaError;
use super::layout::Layout;
use super::listing::join;
use super::renderer::Target;
use crate::base::model::RepoPath;
use crate::rendering::jsonnet::{CrossCheckMode, EntryPoint, EvalRequest};
use crate::state::workspace::Tree;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The external variable that contains the settings of a static environment.
const ENVIRONMENT_VARIABLE: &str = "tanka.dev/environment";
const NO_ENVIRONMENT: &str = "error \"Using tk.env and std.extVar('tanka.dev/environment') is only supported for static environments. Directly access this data using standard Jsonnet instead.\"";
const NAME_VARIABLE: &str = "drydock.dev/name";
const ARGUMENT_VARIABLE: &str = "drydock.dev/argument/";

/// Finds every environment in a value without evaluating the objects.
const ENVIRONMENTS: &str = "
local environments(value) =
  if std.isObject(value) then
    if std.objectHas(value, 'apiVersion') && std.objectHas(value, 'kind') then
      if value.kind == 'Environment' then [value] else []
    else
      std.flatMap(function(name) environments(value[name]), std.objectFields(value))
  else if std.isArray(value) then
    std.flatMap(environments, value)
  else
    [];
";
const WITHOUT_DATA: &str = "[environment { data+:: {} } for environment in environments(main)]\n";
const OF_NAME: &str = "
local name = std.extVar('drydock.dev/name');
local all = environments(main);
local exact = [environment for environment in all if environment.metadata.name == name];
local matching =
  if std.length(exact) > 0 then exact
  else [environment for environment in all if std.length(std.findSubstr(name, environment.metadata.name)) > 0];
if std.length(matching) == 1 then { found: matching[0] }
else { names: [environment.metadata.name for environment in matching] }
";

/// The part of an entry point that is evaluated.
pub(super) enum EntrypointScript<'a> {
    /// The whole value.
    Whole,
    /// The environments without their objects.
    Environments,
    /// The one environment with a name, or the names that contain it.
    Named(&'a str),
    /// A path into the value, such as `a.b` or `[0].c`.
    Expression(&'a str),
}

/// Builds the evaluation request for a script. `environment` is JSON, for static environments.
pub(super) fn request(
    tree: Arc<dyn Tree>,
    layout: &Layout,
    target: &Target,
    environment: Option<String>,
    script: &EntrypointScript<'_>,
) -> Result<EvalRequest, TankaError> {
    let mut ext_code = target.ext_code.clone();
    let environment = environment.unwrap_or_else(|| NO_ENVIRONMENT.to_owned());
    ext_code.insert(ENVIRONMENT_VARIABLE.to_owned(), environment);
    let body = match script {
        EntrypointScript::Whole => None,
        EntrypointScript::Environments => Some(format!("{ENVIRONMENTS}{WITHOUT_DATA}")),
        EntrypointScript::Named(name) => {
            ext_code.insert(NAME_VARIABLE.to_owned(), quoted(name)?);
            Some(format!("{ENVIRONMENTS}{OF_NAME}"))
        }
        EntrypointScript::Expression(path) if path.starts_with('[') => Some(format!("main{path}\n")),
        EntrypointScript::Expression(path) => Some(format!("main.{path}\n")),
    };
    let (entry, tla_code) = match body {
        None => (
            EntryPoint::File(layout.entrypoint.clone()),
            target.tla_code.clone(),
        ),
        Some(body) => {
            let text = format!("{}{body}", main(layout, target, &mut ext_code)?);
            let name = RepoPath::parse(&join(&layout.base, ".drydock.jsonnet"))?;
            (EntryPoint::Snippet { name, text }, BTreeMap::new())
        }
    };
    Ok(EvalRequest {
        tree,
        entry,
        jpath: layout.jpath(),
        ext_code,
        tla_code,
        max_stack: target.max_stack,
        cross_check: match script {
            EntrypointScript::Whole | EntrypointScript::Named(_) => target.cross_check,
            EntrypointScript::Environments | EntrypointScript::Expression(_) => CrossCheckMode::Off,
        },
    })
}

/// Returns an expression for the value of the entry point, called with the arguments if it is a function.
fn main(
    layout: &Layout,
    target: &Target,
    ext_code: &mut BTreeMap<String, String>,
) -> Result<String, TankaError> {
    let mut arguments = Vec::new();
    for (name, code) in &target.tla_code {
        if !is_identifier(name) {
            return Err(TankaError::ArgumentName(name.clone()));
        }
        let variable = format!("{ARGUMENT_VARIABLE}{name}");
        arguments.push(format!("{name}=std.extVar('{variable}')"));
        ext_code.insert(variable, code.clone());
    }
    Ok(format!(
        "local entry = import {};\nlocal main = if std.isFunction(entry) then entry({}) else entry;\n",
        quoted(layout.entrypoint.file_name())?,
        arguments.join(", ")
    ))
}

fn quoted(text: &str) -> Result<String, TankaError> {
    serde_json::to_string(text).map_err(|err| TankaError::Internal(err.to_string()))
}

fn is_identifier(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name
            .chars()
            .all(|next| next.is_ascii_alphanumeric() || next == '_')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{EntrypointScript, request};
    use crate::rendering::jsonnet::{EntryPoint, EvalRequest};
    use crate::rendering::tanka::testing::{ReadOnlyTree, listing};
    use crate::rendering::tanka::{Layout, TankaError, Target};

    fn asked(target: &Target, script: &EntrypointScript<'_>) -> Result<EvalRequest, TankaError> {
        let listing = listing(&["tkrc.yaml", "e/main.jsonnet"]);
        let layout = Layout::find(&listing, "e").unwrap();
        request(ReadOnlyTree::new(&[]), &layout, target, None, script)
    }

    #[test]
    fn a_name_is_never_part_of_a_program() {
        let name = "x') + error ('";
        let request = asked(&Target::from_path("e"), &EntrypointScript::Named(name)).unwrap();
        let EntryPoint::Snippet { text, .. } = request.entry else {
            panic!("a script")
        };
        assert!(!text.contains("error ("), "{text}");
        assert_eq!(request.ext_code["drydock.dev/name"], "\"x') + error ('\"");
    }

    #[test]
    fn arguments_are_passed_to_a_function_by_name() {
        let mut target = Target::from_path("e");
        target.tla_code.insert("n".to_owned(), "1 + 1".to_owned());
        let request = asked(&target, &EntrypointScript::Expression("['a'].b")).unwrap();
        let text = "local entry = import \"main.jsonnet\";\n\
                    local main = if std.isFunction(entry) then entry(n=std.extVar('drydock.dev/argument/n')) else entry;\n\
                    main['a'].b\n";
        assert!(matches!(request.entry, EntryPoint::Snippet { text: asked, .. } if asked == text));
        assert_eq!(request.ext_code["drydock.dev/argument/n"], "1 + 1");
        target.tla_code.insert("a b".to_owned(), "1".to_owned());
        let refused = asked(&target, &EntrypointScript::Environments).map(|_| ());
        assert!(matches!(refused, Err(TankaError::ArgumentName(name)) if name == "a b"));
    }

    #[test]
    fn without_a_script_the_file_itself_is_evaluated() {
        let request = asked(&Target::from_path("e"), &EntrypointScript::Whole).unwrap();
        assert!(matches!(request.entry, EntryPoint::File(path) if path.as_str() == "e/main.jsonnet"));
        assert_eq!(request.jpath, ["vendor", "e/vendor", "lib", "e"]);
        assert!(request.ext_code["tanka.dev/environment"].starts_with("error \"Using tk.env"));
    }
}
