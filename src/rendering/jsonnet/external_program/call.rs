//! The calls of `helm` and `kustomize` that a Jsonnet program may request, and their arguments.

use serde::{Deserialize, Serialize};

/// A call that a Jsonnet program requests. It comes from the sandbox, so its content is untrusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::rendering::jsonnet) enum ProgramCall {
    /// The objects of a chart.
    Helm(HelmTemplate),
    /// The objects of a kustomization, by its directory from the root of the tree.
    Kustomize { path: String },
}

/// A chart and the options to render it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::rendering::jsonnet) struct HelmTemplate {
    /// The release.
    pub(in crate::rendering::jsonnet) name: String,
    /// The chart's directory from the root of the tree.
    pub(in crate::rendering::jsonnet) chart: String,
    /// The values, as YAML.
    pub(in crate::rendering::jsonnet) values: String,
    pub(in crate::rendering::jsonnet) api_versions: Vec<String>,
    pub(in crate::rendering::jsonnet) include_crds: bool,
    pub(in crate::rendering::jsonnet) skip_tests: bool,
    pub(in crate::rendering::jsonnet) kube_version: String,
    pub(in crate::rendering::jsonnet) no_hooks: bool,
    pub(in crate::rendering::jsonnet) namespace: String,
}

/// The reason why a call has no output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::rendering::jsonnet) enum CallRefusal {
    /// The operator has not configured the program.
    Off,
    /// A failure that is reported to the Jsonnet program.
    Said(String),
}

impl CallRefusal {
    pub(super) fn from_reason(why: impl std::fmt::Display) -> Self {
        Self::Said(why.to_string())
    }
}

impl ProgramCall {
    /// Returns the directory of the call, as it was requested.
    pub(super) fn directory(&self) -> &str {
        match self {
            Self::Helm(template) => &template.chart,
            Self::Kustomize { path } => path,
        }
    }

    /// Returns the arguments for a directory that has been checked. A requested value is never taken for a flag: it
    /// follows a flag within the same argument, or comes after `--`.
    pub(super) fn arguments(&self, directory: &str) -> Result<Vec<String>, CallRefusal> {
        let directory = format!("./{directory}");
        match self {
            Self::Helm(template) => template.arguments(directory),
            Self::Kustomize { .. } => Ok(["build", "--", &directory].map(str::to_owned).to_vec()),
        }
    }

    /// Returns the standard input of the program.
    pub(super) fn input(&self) -> &[u8] {
        match self {
            Self::Helm(template) => template.values.as_bytes(),
            Self::Kustomize { .. } => &[],
        }
    }
}

impl HelmTemplate {
    fn arguments(&self, chart: String) -> Result<Vec<String>, CallRefusal> {
        if self.name.starts_with('-') {
            return Err(CallRefusal::from_reason("release name may not start with '-'"));
        }
        let texts = [&self.name, &self.kube_version, &self.namespace];
        if texts
            .into_iter()
            .chain(&self.api_versions)
            .any(|text| text.contains('\0'))
        {
            return Err(CallRefusal::from_reason("a NUL byte is part of no name"));
        }
        let mut arguments: Vec<String> = ["template", "--values", "-"].map(str::to_owned).to_vec();
        arguments.extend(
            self.api_versions
                .iter()
                .map(|version| format!("--api-versions={version}")),
        );
        let switches = [
            (self.include_crds, "--include-crds"),
            (self.skip_tests, "--skip-tests"),
            (self.no_hooks, "--no-hooks"),
        ];
        arguments.extend(
            switches
                .into_iter()
                .filter(|(on, _)| *on)
                .map(|(_, flag)| flag.to_owned()),
        );
        for (flag, text) in [
            ("--kube-version", &self.kube_version),
            ("--namespace", &self.namespace),
        ] {
            if !text.is_empty() {
                arguments.push(format!("{flag}={text}"));
            }
        }
        arguments.extend(["--".to_owned(), self.name.clone(), chart]);
        Ok(arguments)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{CallRefusal, HelmTemplate, ProgramCall};

    fn template(name: &str) -> HelmTemplate {
        HelmTemplate {
            name: name.to_owned(),
            chart: "-x".to_owned(),
            ..HelmTemplate::default()
        }
    }

    /// T50
    #[test]
    fn call_options_never_become_separate_command_line_flags() {
        let call = ProgramCall::Helm(HelmTemplate {
            api_versions: vec!["--post-renderer=./x".to_owned()],
            include_crds: true,
            skip_tests: true,
            no_hooks: true,
            kube_version: "--kubeconfig=x".to_owned(),
            namespace: "--debug".to_owned(),
            ..template("web")
        });
        let expected = [
            "template",
            "--values",
            "-",
            "--api-versions=--post-renderer=./x",
            "--include-crds",
            "--skip-tests",
            "--no-hooks",
            "--kube-version=--kubeconfig=x",
            "--namespace=--debug",
            "--",
            "web",
            "./-x",
        ];
        assert_eq!(call.arguments("-x").unwrap(), expected);
        let refused = ProgramCall::Helm(template("--post-renderer=./x")).arguments("c");
        assert_eq!(
            refused,
            Err(CallRefusal::Said(
                "release name may not start with '-'".to_owned()
            ))
        );
        assert!(ProgramCall::Helm(template("a\0b")).arguments("c").is_err());
    }

    #[test]
    fn options_off_by_default_add_no_argument() {
        let expected = ["template", "--values", "-", "--", "web", "./charts/a"];
        assert_eq!(
            ProgramCall::Helm(template("web")).arguments("charts/a").unwrap(),
            expected
        );
        let kustomize = ProgramCall::Kustomize { path: String::new() };
        assert_eq!(kustomize.arguments("k/dev").unwrap(), ["build", "--", "./k/dev"]);
    }
}
