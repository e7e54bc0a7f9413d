//! The rules for the public address: a platform that sends requests must be able to reach it.

use super::Diagnosis;
use crate::base::config::ConfiguredChannels;
use crate::base::model::Platform;
use reqwest::Url;
use std::net::IpAddr;

/// The ports to which Telegram sends. See <https://core.telegram.org/bots/api#setwebhook>.
const TELEGRAM_PORTS: [u16; 4] = [443, 80, 88, 8443];
const SET_URL: &str = "set server.public_url to the https address of the proxy in front of Drydock";

/// Checks the public address for each channel whose platform sends requests.
pub(super) fn check_public_address(configured: &ConfiguredChannels) -> Vec<Diagnosis> {
    let channels = configured.channels.iter();
    let receiving = channels.filter(|(_, channel)| channel.is_called);
    let findings = receiving.map(|(name, channel)| {
        let check = format!("public address for {name}");
        match refusal(&configured.public_url, channel.platform) {
            None => Diagnosis::fine(
                check,
                format!(
                    "{}/in/{name} has the right form (not called)",
                    configured.public_url
                ),
            ),
            Some(why) => Diagnosis::failed(check, why, SET_URL),
        }
    });
    findings.collect()
}

/// Returns the reason why a platform cannot send to an address.
fn refusal(public_url: &str, platform: Platform) -> Option<String> {
    if public_url.is_empty() {
        return Some("server.public_url is not set".to_owned());
    }
    let Ok(url) = Url::parse(public_url) else {
        return Some("server.public_url is not an address".to_owned());
    };
    let host = url.host_str().unwrap_or_default();
    if url.scheme() != "https" {
        return Some("server.public_url does not begin with https://".to_owned());
    }
    if is_private(host) {
        return Some(format!("{host} is an address in a private network"));
    }
    let port = url.port_or_known_default().unwrap_or_default();
    match platform {
        Platform::Telegram if !TELEGRAM_PORTS.contains(&port) => Some(format!(
            "Telegram sends to the ports 443, 80, 88 and 8443 only, not to {port}"
        )),
        _ => None,
    }
}

fn is_private(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => {
            address.is_private()
                || address.is_loopback()
                || address.is_link_local()
                || address.is_unspecified()
        }
        Ok(IpAddr::V6(address)) => {
            address.is_loopback() || address.is_unspecified() || address.is_unique_local()
        }
        Err(_) => {
            let names = [".local", ".internal", ".lan", ".localhost"];
            host == "localhost" || names.iter().any(|end| host.ends_with(end))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::refusal;
    use crate::base::model::Platform;

    #[test]
    fn only_an_address_that_the_platform_can_reach_is_public() {
        for (url, is_for_slack, is_for_telegram) in [
            ("https://drydock.example.com", true, true),
            ("https://drydock.example.com:8443/a", true, true),
            ("https://drydock.example.com:9000", true, false),
            ("https://203.0.113.7", true, true),
            ("", false, false),
            ("http://127.0.0.1:7700", false, false),
            ("https://127.0.0.1", false, false),
            ("https://[::1]", false, false),
            ("https://10.1.2.3", false, false),
            ("https://drydock.internal", false, false),
            ("https://localhost", false, false),
        ] {
            assert_eq!(refusal(url, Platform::Slack).is_none(), is_for_slack, "{url}");
            assert_eq!(
                refusal(url, Platform::Telegram).is_none(),
                is_for_telegram,
                "{url}"
            );
        }
    }
}
