//! The events of runs over HTTP, the end of runs, and the bounds of what one person asks for.

use crate::api::{Api, ApiRequest};
use crate::runs_api::{
    CANCEL, LIST, READ, RETRY, SHOW, WRITE, ended_runs, publish, review, send, start, token,
};
use crate::support::app::{BOUND, TestApp};
use drydock::base::http_client::api_client;
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, says};
use drydock::state::access::Role;
use drydock::state::store::OPEN_RUNS_OF_OWNER_MAX;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const ALICE: &str = "U0ALICE";
const BOB: &str = "U0BOB";

/// The events of a run as they arrive.
pub(crate) struct RunEvents {
    answer: reqwest::Response,
    text: String,
}

impl RunEvents {
    /// Asks for the events. Returns the status instead if there are none.
    pub(crate) async fn open(app: &TestApp, token: &str, number: u32) -> Result<Self, u16> {
        let url = format!("{}/api/runs/{number}/events", app.demo.url());
        let answer = api_client().unwrap().get(url).bearer_auth(token).send().await;
        let answer = answer.unwrap();
        match answer.status().as_u16() {
            200 => {
                assert_eq!(answer.headers()["content-type"], "text/event-stream");
                assert_eq!(answer.headers()["cache-control"], "no-store");
                Ok(Self {
                    answer,
                    text: String::new(),
                })
            }
            status => Err(status),
        }
    }

    /// Returns the next event with its data; `None` at the end of the answer.
    pub(crate) async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                let Some(event) = event.strip_prefix("event: ") else {
                    assert!(event.starts_with(": "), "{event}");
                    continue;
                };
                let (name, data) = event.split_once("\ndata: ").unwrap();
                return Some((name.to_owned(), serde_json::from_str(data).unwrap()));
            }
            let chunk = tokio::time::timeout(BOUND, self.answer.chunk()).await;
            let chunk = chunk.expect("an event in time").unwrap()?;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// Returns all further events up to the end of the answer.
    pub(crate) async fn rest(mut self) -> Vec<(String, Value)> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}

#[tokio::test]
async fn a_run_that_is_cancelled_ends_its_events_and_can_be_repeated_once() {
    let stalls = |_: &ModelRequest| says("Never said.").with_fault(AnswerFault::Stall);
    let app = TestApp::with_settings(stalls, &[]).await;
    app.admit_slack_user(ALICE, Role::Viewer, &[]).await;
    publish(&app);
    let api = Api::new(&app).await;
    let token = token(&app, ALICE, &[READ, WRITE]).await;
    assert_eq!(start(&api, &token, &review(7), None).await.0, 201);
    app.wait_for_model_requests(1).await;
    assert_eq!(send(&api, RETRY, &token, 1).await.0, 409, "it has not ended");
    let mut events = RunEvents::open(&app, &token, 1).await.ok().unwrap();
    assert_eq!(events.next().await.unwrap().1["status"], "running");
    for _ in 0..2 {
        let (status, run) = send(&api, CANCEL, &token, 1).await;
        assert_eq!((status, &run["status"]), (200, &json!("cancelled")));
        assert_eq!(run["why"], "cancelled by U0ALICE");
        assert_eq!(run["steps"][0]["status"], "cancelled");
    }
    let rest = events.rest().await;
    assert_eq!(rest.last().unwrap().0, "end");
    assert_eq!(rest[rest.len() - 2].1["status"], "cancelled");

    let path = "/api/runs/1/retry";
    let request = ApiRequest {
        token: Some(&token),
        headers: &[("idempotency-key", "again")],
        ..ApiRequest::default()
    };
    let (status, repeated) = api.send(RETRY, path, request).await;
    assert_eq!((status, &repeated["retryOf"]), (201, &json!(1)));
    let (status, known) = api.send(RETRY, path, request).await;
    assert_eq!((status, &known["id"]), (200, &repeated["id"]));
    assert_eq!(app.count("SELECT count(*) FROM run"), 2);
    app.wait_for_model_requests(2).await;
    assert_eq!(send(&api, CANCEL, &token, 2).await.0, 200);
    ended_runs(&app, 2).await;
}

#[tokio::test]
async fn events_end_when_the_person_or_the_server_goes_and_a_person_has_a_bounded_number_of_them() {
    let stalls = |_: &ModelRequest| says("Never said.").with_fault(AnswerFault::Stall);
    let mut app = TestApp::with_settings(stalls, &[]).await;
    app.admit_slack_user(ALICE, Role::Viewer, &[]).await;
    app.admit_slack_user(BOB, Role::Viewer, &[]).await;
    publish(&app);
    let alice = token(&app, ALICE, &[READ, WRITE]).await;
    let bob = token(&app, BOB, &[READ, WRITE]).await;
    let api = Api::new(&app).await;
    assert_eq!(start(&api, &alice, &review(7), None).await.0, 201);
    assert_eq!(start(&api, &bob, &review(8), None).await.0, 201);
    app.wait_for_model_requests(2).await;

    let mut open = Vec::new();
    for _ in 0..8 {
        let mut events = RunEvents::open(&app, &alice, 1).await.ok().unwrap();
        assert_eq!(events.next().await.unwrap().0, "run");
        open.push(events);
    }
    assert_eq!(RunEvents::open(&app, &alice, 1).await.err(), Some(429));
    assert!(RunEvents::open(&app, &bob, 2).await.is_ok());
    open.truncate(1);
    let started = Instant::now();
    while RunEvents::open(&app, &alice, 1).await.is_err() {
        assert!(started.elapsed() < BOUND, "an ended connection frees its place");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    app.revoke(ALICE).await;
    let rest = open.remove(0).rest().await;
    assert!(rest.iter().all(|(name, _)| name != "end"), "{rest:?}");
    assert_eq!(RunEvents::open(&app, &alice, 1).await.err(), Some(401));

    let mut events = RunEvents::open(&app, &bob, 2).await.ok().unwrap();
    assert_eq!(events.next().await.unwrap().1["status"], "running");
    app.demo.stop().await;
    let rest = events.rest().await;
    assert!(rest.iter().all(|(name, _)| name == "run"), "{rest:?}");
    app.demo.start().await.unwrap();
    let api = Api::new(&app).await;
    assert_eq!(send(&api, CANCEL, &bob, 2).await.0, 200);
    ended_runs(&app, 2).await;
}

/// I10
#[tokio::test]
async fn too_many_open_runs_of_a_person_are_refused_and_all_are_listed_in_parts() {
    let stalls = |_: &ModelRequest| says("Never said.").with_fault(AnswerFault::Stall);
    let app = TestApp::with_settings(stalls, &[]).await;
    app.admit_slack_user(ALICE, Role::Viewer, &[]).await;
    publish(&app);
    let api = Api::new(&app).await;
    let token = token(&app, ALICE, &[READ, WRITE]).await;
    let one = json!({ "pipeline": "one" });
    assert_eq!(start(&api, &token, &one, Some("one")).await.0, 201);
    // Another run of its group does not wait, however often it is asked for.
    for _ in 0..2 {
        let (status, why) = start(&api, &token, &one, Some("two")).await;
        assert_eq!(status, 409, "{why}");
        assert!(
            why["detail"]
                .as_str()
                .unwrap()
                .contains("another run of its group")
        );
    }
    for _ in 1..OPEN_RUNS_OF_OWNER_MAX {
        assert_eq!(start(&api, &token, &review(7), None).await.0, 201);
    }
    let (status, why) = start(&api, &token, &review(7), None).await;
    assert_eq!((status, &why["error"]), (429, &json!("too many")));

    let mut numbers = Vec::new();
    let mut query = "status=running&limit=30".to_owned();
    for _ in 0..3 {
        let request = ApiRequest {
            token: Some(&token),
            ..ApiRequest::default()
        };
        let (status, list) = api.send(LIST, &format!("/api/runs?{query}"), request).await;
        assert_eq!(status, 200);
        let runs = list["runs"].as_array().unwrap();
        numbers.extend(runs.iter().map(|run| run["id"].as_u64().unwrap()));
        match list["next"].as_u64() {
            Some(next) => query = format!("status=running&limit=30&before={next}"),
            None => break,
        }
    }
    // The second one was skipped.
    let mut expected: Vec<u64> = (1..=u64::from(OPEN_RUNS_OF_OWNER_MAX) + 1).rev().collect();
    expected.retain(|number| *number != 2);
    assert_eq!(numbers, expected);
    let (status, shown) = send(&api, SHOW, &token, 2).await;
    assert_eq!((status, &shown["status"]), (200, &json!("skipped")));
    app.revoke(ALICE).await;
    ended_runs(&app, expected.len() + 1).await;
}
