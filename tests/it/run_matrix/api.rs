//! Runs over HTTP. A token acts as its person with their current grants, within its scopes. What somebody may not see is answered
//! like what does not exist, byte for byte.

use super::{
    ABSENT, ADMINISTRATOR, EDITOR, ELSEWHERE, OWNER, REVOKED, RunMatrix, TARGETS, Target, Terminal, VIEWER,
};
use drydock::base::http_client::api_client;
use reqwest::Method;
use serde_json::{Value, json};

/// A request about one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Show,
    Cancel,
    Retry,
}

const REQUESTS: [Request; 3] = [Request::Show, Request::Cancel, Request::Retry];

/// The statuses for a run: shown, cancelled, repeated.
type Statuses = [u16; 3];

/// The row of a token.
struct Row {
    /// The name of the token in the table.
    token: &'static str,
    own: Statuses,
    service: Statuses,
    /// The pipelines whose runs are listed, of `decide` and `deploy`, or the status instead.
    listed: Result<&'static [&'static str], u16>,
    /// The statuses of the start of `look`, `change` and a pipeline that does not exist.
    starts: Statuses,
}

const READ: &str = "reads";
const WRITE: &str = "writes";
const CHANGES: &str = "changes";
const NONE: &str = "none";
const INVENTED: &str = "invented";

const FULL: &[&str] = &["runs:read", "runs:write"];

/// The tokens: the name, the person, and the scopes.
const TOKENS: [(&str, &str, &[&str]); 9] = [
    ("elsewhere", ELSEWHERE, FULL),
    ("viewer", VIEWER, FULL),
    ("editor", EDITOR, FULL),
    ("administrator", ADMINISTRATOR, FULL),
    ("owner", OWNER, FULL),
    ("revoked", REVOKED, FULL),
    (READ, OWNER, &["runs:read"]),
    (WRITE, OWNER, &["runs:write"]),
    (CHANGES, OWNER, &["changes:read"]),
];

const fn refused(token: &'static str, status: u16) -> Row {
    Row {
        token,
        own: [status; 3],
        service: [status; 3],
        listed: Err(status),
        starts: [status; 3],
    }
}

const fn editor(token: &'static str) -> Row {
    Row {
        token,
        own: [404; 3],
        service: [200, 200, 403],
        listed: Ok(&["deploy"]),
        starts: [201, 201, 404],
    }
}

const TABLE: [Row; 11] = [
    refused(NONE, 401),
    refused(INVENTED, 401),
    refused("revoked", 401),
    refused(CHANGES, 403),
    Row {
        token: "elsewhere",
        own: [404; 3],
        service: [404; 3],
        listed: Ok(&[]),
        starts: [404; 3],
    },
    Row {
        token: "viewer",
        own: [404; 3],
        service: [200, 403, 403],
        listed: Ok(&["deploy"]),
        starts: [201, 403, 404],
    },
    editor("editor"),
    editor("administrator"),
    Row {
        token: "owner",
        // The pipeline of this run has no trigger of the API, so it cannot be started again there.
        own: [200, 200, 404],
        service: [200, 200, 403],
        listed: Ok(&["decide", "deploy"]),
        starts: [201, 201, 404],
    },
    Row {
        token: READ,
        own: [200, 403, 403],
        service: [200, 403, 403],
        listed: Ok(&["decide", "deploy"]),
        starts: [403; 3],
    },
    Row {
        token: WRITE,
        own: [403, 200, 404],
        service: [403, 200, 403],
        listed: Err(403),
        starts: [201, 201, 404],
    },
];

/// A client of the API with one token.
struct Caller<'a> {
    matrix: &'a RunMatrix,
    client: reqwest::Client,
    token: Option<String>,
}

impl Caller<'_> {
    async fn send(&self, method: Method, path: &str, body: Option<Value>) -> (u16, String) {
        let url = format!("{}{path}", self.matrix.app.demo.url());
        let mut request = self
            .client
            .request(method, url)
            .header("connection", "close")
            .body(body.map_or(String::new(), |body| body.to_string()));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    async fn about(&self, request: Request, id: i64) -> (u16, String) {
        let (method, end) = match request {
            Request::Show => (Method::GET, ""),
            Request::Cancel => (Method::POST, "/cancel"),
            Request::Retry => (Method::POST, "/retry"),
        };
        self.send(method, &format!("/api/runs/{id}{end}"), None).await
    }

    async fn start(&self, pipeline: &str) -> (u16, String) {
        let body = json!({"pipeline": pipeline, "repository": "infra"});
        self.send(Method::POST, "/api/runs", Some(body)).await
    }

    /// Tries a request about a new run.
    async fn try_about(&self, row: &Row, request: Request, (target, expected): (Target, u16)) {
        let id = self.matrix.start(target).await;
        if request == Request::Retry {
            self.matrix.cancel(id).await;
        }
        let of_absent = self.about(request, ABSENT).await;
        let before = self.matrix.states();
        let (status, body) = self.about(request, id).await;
        let place = format!("{} {request:?} {target:?}: {status} {body}", row.token);
        assert_eq!(status, expected, "{place}");
        let has_effect = expected < 300 && request != Request::Show;
        assert_eq!(self.matrix.states() != before, has_effect, "{place}");
        // Nobody learns from an answer whether a run of others exists.
        if matches!(status, 401 | 404) {
            assert_eq!((status, body), of_absent, "{place}");
        }
        assert!(
            of_absent.0 == 404 || of_absent.0 == expected,
            "{place}: {of_absent:?}"
        );
        self.matrix.wait_until_still().await;
        self.matrix.clear().await;
    }

    async fn try_starts(&self, row: &Row) {
        let of_absent = self.start("absent").await;
        for (pipeline, expected) in ["look", "change", "absent"].into_iter().zip(row.starts) {
            let before = self.matrix.states();
            let (status, body) = self.start(pipeline).await;
            let place = format!("{} starts {pipeline}: {status} {body}", row.token);
            assert_eq!(status, expected, "{place}");
            assert_eq!(self.matrix.states() != before, status == 201, "{place}");
            if matches!(status, 401 | 404) {
                assert_eq!((status, body), of_absent, "{place}");
            }
            self.matrix.wait_until_still().await;
        }
    }

    async fn try_list(&self, row: &Row) {
        for target in TARGETS {
            self.matrix.start(target).await;
        }
        let (status, body) = self.send(Method::GET, "/api/runs?limit=100", None).await;
        let place = format!("{} lists: {status} {body}", row.token);
        match row.listed {
            Err(expected) => assert_eq!(status, expected, "{place}"),
            Ok(expected) => {
                assert_eq!(status, 200, "{place}");
                let body: Value = serde_json::from_str(&body).unwrap();
                let runs = body["runs"].as_array().unwrap();
                for pipeline in ["decide", "deploy"] {
                    let is_listed = runs.iter().any(|run| run["pipeline"] == pipeline);
                    assert_eq!(is_listed, expected.contains(&pipeline), "{place}");
                }
            }
        }
        self.matrix.clear().await;
    }
}

/// Makes the tokens of the table, by their names.
fn tokens(terminal: &Terminal) -> Vec<(&'static str, String)> {
    let made = TOKENS.map(|(name, person, scopes)| {
        let mut order = vec!["token", "create", name, "--for", person];
        order.extend(scopes.iter().flat_map(|scope| ["--scope", *scope]));
        let made = terminal.run(&order);
        assert_eq!(made.code, Some(0), "{made:?}");
        (name, made.out.trim_end().to_owned())
    });
    made.into()
}

/// Tries each request of each role, and of tokens without a scope. I3
#[tokio::test(flavor = "multi_thread")]
async fn at_runs_over_http_each_role_gets_what_it_was_granted_and_nothing_else() {
    let matrix = RunMatrix::new().await;
    let terminal = Terminal::new(&matrix.app);
    let mut tokens = tokens(&terminal);
    tokens.push((INVENTED, format!("drydock_{}", "x".repeat(43))));
    matrix.app.revoke(REVOKED).await;
    for row in &TABLE {
        let known = tokens.iter().find(|(name, _)| *name == row.token);
        assert!(known.is_some() || row.token == NONE, "{}", row.token);
        let caller = Caller {
            matrix: &matrix,
            client: api_client().unwrap(),
            token: known.map(|(_, token)| token.clone()),
        };
        caller.try_list(row).await;
        caller.try_starts(row).await;
        for (target, statuses) in [(Target::Own, row.own), (Target::Service, row.service)] {
            for (request, expected) in REQUESTS.into_iter().zip(statuses) {
                caller.try_about(row, request, (target, expected)).await;
            }
        }
    }
}
