//! The hosts that may be contacted, over https only.

use reqwest::Url;
use std::collections::BTreeMap;

/// The hosts that an operator allowed.
#[derive(Clone, Debug)]
pub struct AllowedHosts {
    allowed: Vec<String>,
    // The configuration key that lists the hosts, for error messages.
    key: &'static str,
    // Hosts that a server on this machine replaces.
    overrides: BTreeMap<String, Url>,
}

/// A remote that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("remote not allowed: {0}")]
pub struct RemoteRefused(pub String);

/// The error for a replacement server that is not on this machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address of this machine")]
pub struct NotLoopback(pub String);

impl AllowedHosts {
    /// Creates the list of allowed hosts, with the configuration key that holds it, such as `[helm] hosts_allowed`.
    pub fn new(allowed: &[String], key: &'static str) -> Self {
        Self {
            allowed: allowed.iter().map(|host| host.to_ascii_lowercase()).collect(),
            key,
            overrides: BTreeMap::new(),
        }
    }

    /// Allows a second host if the first one is allowed.
    #[must_use]
    pub fn allow_along_with(mut self, second: &str, along_with: &str) -> Self {
        if self.allowed.iter().any(|host| host == along_with) {
            self.allowed.push(second.to_owned());
        }
        self
    }

    /// True if no host is allowed.
    pub fn is_empty(&self) -> bool {
        self.allowed.is_empty()
    }

    /// Refuses a host that is not allowed.
    pub fn check(&self, host: &str) -> Result<(), RemoteRefused> {
        let host = host.to_ascii_lowercase();
        match self.allowed.contains(&host) {
            true => Ok(()),
            false => Err(RemoteRefused(format!("host {host} is not in `{}`", self.key))),
        }
    }

    /// Refuses an address that is not on an allowed host, or that has other parts, such as a password. `what` is the
    /// kind of address, in one word. Errors do not quote the address, since it may contain a password.
    pub fn check_url(&self, url: &Url, what: &str) -> Result<(), RemoteRefused> {
        if url.scheme() != "https" {
            return Err(RemoteRefused(format!("{what} with scheme {}", url.scheme())));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(RemoteRefused(format!("{what} with a user or password")));
        }
        if url.port().is_some() {
            return Err(RemoteRefused(format!("{what} with a port")));
        }
        let host = url
            .host_str()
            .ok_or_else(|| RemoteRefused(format!("{what} without a host")))?;
        self.check(host)
    }

    /// Returns the address that is contacted for a URL: the URL itself, or the server that replaces its host.
    pub fn effective_url(&self, url: &Url) -> Url {
        let here = url.host_str().and_then(|host| self.overrides.get(host));
        let Some(here) = here else { return url.clone() };
        let mut place = here.clone();
        place.set_path(url.path());
        place.set_query(url.query());
        place
    }

    pub(super) fn add_override(&mut self, host: &str, address: &str) -> Result<(), NotLoopback> {
        let not_here = || NotLoopback(address.to_owned());
        let url = Url::parse(address).map_err(|_| not_here())?;
        if url.scheme() != "http" || url.host_str() != Some("127.0.0.1") {
            return Err(not_here());
        }
        self.overrides.insert(host.to_owned(), url);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::AllowedHosts;
    use reqwest::Url;

    /// T44
    #[test]
    fn only_a_plain_https_address_of_an_allowed_host_is_asked() {
        let hosts = AllowedHosts::new(&["Charts.example.com".to_owned()], "[helm] hosts_allowed")
            .allow_along_with("files.example.com", "charts.example.com")
            .allow_along_with("never.example.com", "other.example.com");
        let check = |text: &str| {
            let checked = hosts.check_url(&Url::parse(text).unwrap(), "address");
            checked.map_err(|why| why.to_string())
        };
        for fine in [
            "https://charts.example.com",
            "https://CHARTS.example.com:443/a?b=c",
            "https://files.example.com/x",
        ] {
            assert_eq!(check(fine), Ok(()), "{fine}");
        }
        for (bad, why) in [
            ("http://charts.example.com", "address with scheme http"),
            ("file:///etc/passwd", "address with scheme file"),
            (
                "https://me:s3cret@charts.example.com",
                "address with a user or password",
            ),
            ("https://me@charts.example.com", "address with a user or password"),
            ("https://charts.example.com:8443", "address with a port"),
            (
                "https://charts.example.com.evil.example",
                "host charts.example.com.evil.example is not in `[helm] hosts_allowed`",
            ),
            (
                "https://never.example.com",
                "host never.example.com is not in `[helm] hosts_allowed`",
            ),
            (
                "https://169.254.169.254/",
                "host 169.254.169.254 is not in `[helm] hosts_allowed`",
            ),
        ] {
            assert_eq!(check(bad), Err(format!("remote not allowed: {why}")), "{bad}");
        }
    }
}
