//! The dependencies of a project and their names: that below `vendor/`, made from the source, and the short one that older imports use.

/// A dependency, of a `jsonnetfile.json` or of its lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The source.
    pub source: PackageSource,
    /// The version that was asked for, or in a lock the commit that is there; empty for a local directory.
    pub version: String,
    /// The sum of the files, in a lock; empty without one.
    pub sum: String,
    /// True if the package's own dependencies are left out.
    pub single: bool,
    /// The short name somebody chose for it; empty for the usual one.
    pub legacy_name: String,
}

/// The source of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PackageSource {
    /// A directory of a git repository.
    Git(Git),
    /// A directory of the project's own repository.
    Local(Local),
}

/// A directory of a remote repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Git {
    /// The way it is reached.
    pub scheme: Scheme,
    /// The host: `github.com`.
    pub host: String,
    /// The owner; with subgroups, all of them: `group/subgroup`.
    pub user: String,
    /// The repository, without `.git`.
    pub repo: String,
    /// The directory inside it, without slashes around it; empty for all of it.
    pub subdir: String,
}

/// The way a remote is reached. Only https is ever fetched from; the other one is known because files name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// `https://`
    Https,
    /// `ssh://git@`
    Ssh,
}

/// A directory of the project's own repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// The directory as it is written, relative to the file that names it.
    pub directory: String,
    /// The last component of the path it has: its name.
    pub name: String,
}

impl Dependency {
    /// A dependency on a source, with nothing chosen yet.
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

    /// Returns the short name that older imports use.
    pub fn legacy_name(&self) -> String {
        match self.legacy_name.as_str() {
            "" => self.usual_legacy_name(),
            chosen => chosen.to_owned(),
        }
    }

    /// Takes away a short name that is the usual one.
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
    /// `host/user/repo`, and the directory if there is one.
    pub fn name(&self) -> String {
        let repository = format!("{}/{}/{}", self.host, self.user, self.repo);
        match self.subdir.as_str() {
            "" => repository,
            subdir => format!("{repository}/{subdir}"),
        }
    }

    /// The address of the repository, as it is written into files.
    pub fn remote(&self) -> String {
        let scheme = match self.scheme {
            Scheme::Https => "https://",
            Scheme::Ssh => "ssh://git@",
        };
        format!("{scheme}{}/{}/{}.git", self.host, self.user, self.repo)
    }
}
