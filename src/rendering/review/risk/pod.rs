//! Pod specifications in pods and in pod templates.

use super::rule::{field, items, text};
use crate::rendering::review::pair::Pair;
use serde_json::Value;

#[derive(Clone, Copy)]
pub(super) struct Container<'a> {
    list: &'static str,
    pub(super) name: &'a str,
    pub(super) value: &'a Value,
}

impl std::fmt::Display for Container<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self.list {
            "initContainers" => "init container",
            "ephemeralContainers" => "ephemeral container",
            _ => "container",
        };
        write!(f, "{kind} `{}`", self.name)
    }
}

/// Returns the part with the metadata and the spec of a pod, or `None` if the object creates no known pods.
pub(super) fn template(object: &Value) -> Option<&Value> {
    match text(object, "kind") {
        "Pod" => Some(object),
        "CronJob" => field(object, "spec.jobTemplate.spec.template"),
        "PodTemplate" => field(object, "template"),
        _ => field(object, "spec.template").filter(|template| field(template, "spec.containers").is_some()),
    }
}

/// Returns the pod spec of one side, or `None` without one.
pub(super) fn spec(side: Option<&Value>) -> Option<&Value> {
    template(side?).and_then(|template| field(template, "spec"))
}

pub(super) fn containers(side: Option<&Value>) -> Vec<Container<'_>> {
    let Some(spec) = spec(side) else {
        return Vec::new();
    };
    let lists = ["containers", "initContainers", "ephemeralContainers"];
    let containers = lists.into_iter().flat_map(|list| {
        let items = items(spec, list).iter();
        items.map(move |value| Container {
            list,
            name: text(value, "name"),
            value,
        })
    });
    containers.collect()
}

/// Returns the current containers, each with its earlier version.
pub(super) fn matched<'a>(pair: &Pair<'a>) -> Vec<(Option<Container<'a>>, Container<'a>)> {
    let before = containers(pair.before);
    let same = |now: &Container<'_>| {
        let found = before
            .iter()
            .find(|then| then.list == now.list && then.name == now.name);
        found.copied()
    };
    let now = containers(pair.after).into_iter();
    now.map(|container| (same(&container), container)).collect()
}
