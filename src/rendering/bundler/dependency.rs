//! The dependencies of a project and their names: the name below `vendor/`, derived from the source, and the short
//! name that older imports use.

/// A dependency in a `jsonnetfile.json` or in its lock file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The source.
    pub source: PackageSource,
    /// The requested version, or in a lock file the installed commit. Empty for a local directory.
    pub version: String,
    /// The checksum of the files in a lock file. Empty without one.
    pub sum: String,
    /// True if the dependencies of the package are not installed.
    pub single: bool,
    /// The short name chosen in the file. Empty for the default.
    pub legacy_name: String,
}

/// The source of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PackageSource {
    /// A directory in a git repository.
    Git(Git),
    /// A directory in the repository of the project.
    Local(Local),
}

/// A directory in a remote repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Git {
    /// The protocol.
    pub scheme: Scheme,
    /// The host, such as `github.com`.
    pub host: String,
    /// The owner, including all subgroups: `group/subgroup`.
    pub user: String,
    /// The repository name without `.git`.
    pub repo: String,
    /// The directory inside it, without leading and trailing slashes. Empty for the whole repository.
    pub subdir: String,
}

/// The protocol of a remote. Only https is used for fetching. The other one is parsed because files contain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// `https://`
    Https,
    /// `ssh://git@`
    Ssh,
}

/// A directory in the repository of the project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// The directory as written, relative to the file that names it.
    pub directory: String,
    /// The name, which is the last component of the resolved path.
    pub name: String,
}

impl Dependency {
    /// Creates a dependency on a source with default options.
    pub fn new(source: PackageSource, version: &str) -> Self {
        Self {
            source,
            version: version.to_owned(),
            sum: String::new(),
            single: false,
            legacy_name: String::new(),
        }
    }

    /// Returns the name, which is the path below `vendor/`.
    pub fn name(&self) -> String {
        match &self.source {
            PackageSource::Git(git) => git.name(),
            PackageSource::Local(local) => local.name.clone(),
        }
    }

    /// Returns the short name for older imports.
    pub fn legacy_name(&self) -> String {
        match self.legacy_name.as_str() {
            "" => self.usual_legacy_name(),
            chosen => chosen.to_owned(),
        }
    }

    /// Clears a short name that is equal to the default.
    pub(super) fn without_usual_name(mut self) -> Self {
        if self.legacy_name == self.usual_legacy_name() {
            self.legacy_name.clear();
        }
        self
    }

    fn usual_legacy_name(&self) -> String {
        let name = self.name();
        name.rsplit('/').next().unwrap_or(&name).to_owned()
    }
}

impl Git {
    /// Returns `host/user/repo`, followed by the directory if there is one.
    pub fn name(&self) -> String {
        let repository = format!("{}/{}/{}", self.host, self.user, self.repo);
        match self.subdir.as_str() {
            "" => repository,
            subdir => format!("{repository}/{subdir}"),
        }
    }

    /// Returns the address of the repository as written in the files.
    pub fn remote(&self) -> String {
        let scheme = match self.scheme {
            Scheme::Https => "https://",
            Scheme::Ssh => "ssh://git@",
        };
        format!("{scheme}{}/{}/{}.git", self.host, self.user, self.repo)
    }
}
