//! Mirrors: how they follow a remote, and their state after a failure.

use super::{FetchProgress, Mirror, OnFetch};
use crate::base::model::Secret;
use crate::state::workspace::fixture::{Fixture, path, text};
use crate::state::workspace::{Repository, RepositoryError};
use jiff::Timestamp;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

mod long_lived;

/// Serves a repository over smart HTTP on this machine with git's own backend. Clients need the token.
struct Server {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

fn backend() -> Option<PathBuf> {
    let output = Command::new("git").arg("--exec-path").output().ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim()).join("git-http-backend");
    path.exists().then_some(path)
}

impl Server {
    /// Starts the server. Returns `None` without git on the machine.
    fn start(directory: &Path, authorization: Option<&'static str>) -> Option<Self> {
        let Some(backend) = backend() else {
            eprintln!("SKIPPED needs git: apt-get install git");
            return None;
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/repo.git", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (directory, log) = (directory.to_owned(), asked.clone());
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let _ = serve(stream, &backend, &directory, authorization, &log);
            }
        });
        Some(Self { url, asked })
    }
}

fn serve(
    stream: TcpStream,
    backend: &Path,
    directory: &Path,
    authorization: Option<&str>,
    log: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        head.push(line.trim().to_owned());
    }
    let header = |name: &str| {
        head.iter().skip(1).find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then(|| value.to_owned())
        })
    };
    let Some(request) = head.first().cloned() else {
        return Ok(());
    };
    log.lock().unwrap().push(request.clone());
    let mut body = Vec::new();
    if header("transfer-encoding").is_some() {
        loop {
            let mut size = String::new();
            reader.read_line(&mut size)?;
            let size = u64::from_str_radix(size.trim(), 16).unwrap_or(0);
            reader.by_ref().take(size).read_to_end(&mut body)?;
            reader.read_line(&mut String::new())?;
            if size == 0 {
                break;
            }
        }
    } else if let Some(length) = header("content-length") {
        reader.take(length.parse().unwrap_or(0)).read_to_end(&mut body)?;
    }
    let mut out = stream;
    if authorization.is_some() && header("authorization").as_deref() != authorization {
        return out.write_all(
            b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"git\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        );
    }
    let mut words = request.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (file, query) = target.split_once('?').unwrap_or((target, ""));
    let mut child = Command::new(backend)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("GIT_PROJECT_ROOT", directory)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "safe.directory")
        .env("GIT_CONFIG_VALUE_0", "*")
        .env("REQUEST_METHOD", method)
        .env("PATH_INFO", file)
        .env("QUERY_STRING", query)
        .env("CONTENT_TYPE", header("content-type").unwrap_or_default())
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("GIT_PROTOCOL", header("git-protocol").unwrap_or_default())
        .env(
            "HTTP_CONTENT_ENCODING",
            header("content-encoding").unwrap_or_default(),
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    child.stdin.take().unwrap().write_all(&body)?;
    let answer = child.wait_with_output()?.stdout;
    let split = memchr::memmem::find(&answer, b"\r\n\r\n").unwrap_or(answer.len().saturating_sub(4));
    let (cgi, content) = answer.split_at(split);
    let cgi = String::from_utf8_lossy(cgi);
    let status = cgi
        .lines()
        .find_map(|line| line.strip_prefix("Status: "))
        .unwrap_or("200 OK");
    let headers: String = cgi
        .lines()
        .filter(|line| !line.starts_with("Status:"))
        .map(|line| format!("{line}\r\n"))
        .collect();
    let content = content.get(4..).unwrap_or_default();
    write!(
        out,
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n",
        content.len()
    )?;
    out.write_all(content)
}

fn mirror(fixture: &Fixture, url: &str, token: Option<&str>) -> Mirror {
    Mirror {
        name: "infra".to_owned(),
        url: url.to_owned(),
        token: token.map(|token| Secret::new(token.to_owned())),
        branch: "main".to_owned(),
        directory: fixture.directory.path().join("data/mirror.git"),
        bases: fixture.bases(),
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn quiet() -> OnFetch {
    // Another test in this process may already have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Arc::new(|_| ())
}

fn refused(result: Result<Arc<Repository>, RepositoryError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn a_remote_is_copied_once_and_followed_after_that() {
    let fixture = Fixture::new();
    let first = fixture.commit(&[text("a", "1\n")], &[], 1);
    fixture.set_reference("refs/heads/main", first);
    fixture.set_reference("refs/heads/old", first);
    fixture.set_reference("refs/tags/v1", first);
    // The base64 form of `x-access-token:t0ken`
    let basic = "Basic eC1hY2Nlc3MtdG9rZW46dDBrZW4=";
    let Some(server) = Server::start(fixture.directory.path(), Some(basic)) else {
        return;
    };
    let seen: Arc<Mutex<Vec<FetchProgress>>> = Arc::default();
    let watcher = seen.clone();
    let watch: OnFetch = Arc::new(move |step| watcher.lock().unwrap().push(step));
    let go = AtomicBool::new(false);
    quiet();
    let repository =
        Repository::mirror(mirror(&fixture, &server.url, Some("t0ken")), at(1), &watch, &go).unwrap();
    assert_eq!(repository.head().unwrap(), Some(first.to_string()));
    assert_eq!(repository.last_fetched(), Some(at(1)));
    assert_eq!(
        repository.resolve("v1", &first.to_string()).unwrap(),
        first.to_string()
    );
    assert!(!seen.lock().unwrap().is_empty());

    let second = fixture.commit(&[text("a", "2\n")], &[first], 2);
    fixture.set_reference("refs/heads/main", second);
    std::fs::remove_file(fixture.git().join("refs/heads/old")).unwrap();
    assert_eq!(repository.head().unwrap(), Some(first.to_string()));
    repository.refresh(at(2), &quiet(), &go).unwrap();
    let head = repository.head().unwrap().unwrap();
    assert_eq!(head, second.to_string());
    let base = repository.base(&head, &|_| ()).unwrap();
    assert_eq!(base.read(&path("a")).unwrap().unwrap().content, &b"2\n"[..]);
    assert!(matches!(
        repository.resolve("old", &head),
        Err(RepositoryError::UnknownRevision(_))
    ));

    let requests = server.asked.lock().unwrap().len();
    let again =
        Repository::mirror(mirror(&fixture, &server.url, Some("t0ken")), at(3), &quiet(), &go).unwrap();
    assert_eq!(again.head().unwrap(), Some(second.to_string()));
    assert_eq!(again.last_fetched(), Some(at(2)));
    assert_eq!(
        server.asked.lock().unwrap().len(),
        requests,
        "opening a copy contacts no remote"
    );
}

#[test]
fn a_wrong_token_leaves_nothing_behind_and_is_never_shown() {
    let fixture = Fixture::with(&[text("a", "1\n")]);
    let Some(server) = Server::start(fixture.directory.path(), Some("Basic other")) else {
        return;
    };
    let wanted = mirror(&fixture, &server.url, Some("s3cret-token"));
    assert!(!format!("{wanted:?}").contains("s3cret-token"));
    let why = refused(Repository::mirror(
        wanted,
        at(1),
        &quiet(),
        &AtomicBool::new(false),
    ));
    assert_eq!(why, "`infra` could not be fetched: the remote refused the token");
    assert_eq!(
        std::fs::read_dir(fixture.directory.path().join("data"))
            .unwrap()
            .count(),
        0
    );
}

#[test]
fn a_fetch_can_be_stopped() {
    let fixture = Fixture::with(&[text("a", "1\n")]);
    let Some(server) = Server::start(fixture.directory.path(), None) else {
        return;
    };
    let wanted = mirror(&fixture, &server.url, None);
    let why = refused(Repository::mirror(
        wanted,
        at(1),
        &quiet(),
        &AtomicBool::new(true),
    ));
    assert_eq!(why, "`infra` could not be fetched: it was stopped");
}

/// Commits a file of zeros to `main`. Its pack is a thousand times smaller.
fn commit_zeros(git: &Path, mebibytes: u64) {
    let directory = tempfile::tempdir().unwrap();
    let zeros = directory.path().join("zeros");
    std::fs::File::create(&zeros)
        .unwrap()
        .set_len(mebibytes << 20)
        .unwrap();
    let run = |arguments: &[&str], input: &str| {
        let mut child = Command::new("git")
            .arg("-C")
            .arg(git)
            .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let blob = run(&["hash-object", "-w", zeros.to_str().unwrap()], "");
    let tree = run(&["mktree"], &format!("100644 blob {blob}\tzeros\n"));
    let commit = run(&["commit-tree", &tree, "-m", "zeros"], "");
    run(&["update-ref", "refs/heads/main", &commit], "");
}

/// T52: objects in a fetched pack unpack to no more than the server can hold in memory.
#[test]
fn a_pack_with_an_object_that_unpacks_to_very_much_is_refused() {
    let fixture = Fixture::with(&[text("a", "1\n")]);
    let Some(server) = Server::start(fixture.directory.path(), None) else {
        return;
    };
    let go = AtomicBool::new(false);
    let wanted = || mirror(&fixture, &server.url, None);
    let repository = Repository::mirror(wanted(), at(1), &quiet(), &go).unwrap();
    let before = repository.head().unwrap();
    commit_zeros(&fixture.git(), 257);
    let why = "`infra` could not be fetched: it has an object that unpacks to more than 256 MiB";
    let error = repository.refresh(at(2), &quiet(), &go).unwrap_err();
    assert_eq!(error.to_string(), why);
    // The existing copy stays available.
    assert_eq!(repository.head().unwrap(), before);
    let elsewhere = Mirror {
        directory: fixture.directory.path().join("data/other.git"),
        ..wanted()
    };
    assert_eq!(refused(Repository::mirror(elsewhere, at(2), &quiet(), &go)), why);
}

#[test]
fn a_redirect_is_not_followed() {
    let fixture = Fixture::new();
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    target.set_nonblocking(true).unwrap();
    let elsewhere = target.local_addr().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/repo.git", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let _ = write!(
                stream,
                "HTTP/1.1 302 Found\r\nLocation: http://{elsewhere}/repo.git/info/refs?service=git-upload-pack\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
        }
    });
    let why = refused(Repository::mirror(
        mirror(&fixture, &url, Some("t")),
        at(1),
        &quiet(),
        &AtomicBool::new(false),
    ));
    assert!(why.starts_with("`infra` could not be fetched: "), "{why}");
    assert!(
        target.accept().is_err(),
        "no connection was made to the other host"
    );
}

#[test]
fn only_https_without_credentials_is_fetched_from() {
    let fixture = Fixture::new();
    for (url, why) in [
        (
            "http://git.example.com/x.git",
            "the repository's url must start with `https://`",
        ),
        ("file:///etc", "the repository's url must start with `https://`"),
        ("/etc", "the repository's url must start with `https://`"),
        (
            "ssh://git.example.com/x",
            "the repository's url must start with `https://`",
        ),
        ("ext::sh -c id", "the repository's url must start with `https://`"),
        (
            "https://me:s3cret@git.example.com/x",
            "the repository's url must not hold a user or password; configure a token instead",
        ),
        (
            "git@git.example.com:x.git",
            "the repository's url must not hold a user or password; configure a token instead",
        ),
    ] {
        let opened = Repository::mirror(
            mirror(&fixture, url, None),
            at(1),
            &quiet(),
            &AtomicBool::new(false),
        );
        assert_eq!(refused(opened), why, "{url}");
    }
}

/// A remote with SHA-256 object names is cloned, followed and searched like any other.
#[test]
fn a_remote_in_sha_256_format_is_mirrored() {
    let directory = tempfile::tempdir().unwrap();
    let work = directory.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com"])
            .args(arguments)
            .current_dir(&work)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("HOME", directory.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let Some(server) = Server::start(directory.path(), None) else {
        return;
    };
    let commit = |content: &str| {
        std::fs::write(work.join("a"), content).unwrap();
        git(&["add", "a"]);
        git(&["commit", "-q", "-m", content]);
        git(&["push", "-q", "../repo.git", "main"]);
        git(&["rev-parse", "HEAD"])
    };
    git(&["init", "-q", "-b", "main", "--object-format=sha256"]);
    git(&[
        "init",
        "-q",
        "--bare",
        "-b",
        "main",
        "--object-format=sha256",
        "../repo.git",
    ]);
    let first = commit("one\n");
    let mirror = Mirror {
        name: "remote".to_owned(),
        url: server.url.clone(),
        token: None,
        branch: "main".to_owned(),
        directory: directory.path().join("mirror.git"),
        bases: directory.path().join("bases"),
    };
    let stop = AtomicBool::new(false);
    let no_progress: OnFetch = Arc::new(|_: FetchProgress| ());
    let repository = Repository::mirror(mirror, Timestamp::UNIX_EPOCH, &no_progress, &stop).unwrap();
    assert_eq!(repository.head().unwrap().as_deref(), Some(first.as_str()));
    let second = commit("two\n");
    repository
        .refresh(Timestamp::UNIX_EPOCH, &no_progress, &stop)
        .unwrap();
    assert_eq!(repository.head().unwrap().as_deref(), Some(second.as_str()));
    let base = repository.base(&second, &|_| ()).unwrap();
    assert_eq!(base.read(&path("a")).unwrap().unwrap().content, &b"two\n"[..]);
    assert_eq!(base.blob(&path("a")), Some(git(&["hash-object", "a"])));
    assert!(!repository.is_damaged(&stop));
    repository
        .renew(Timestamp::UNIX_EPOCH, &no_progress, &stop)
        .unwrap();
    assert_eq!(repository.head().unwrap().as_deref(), Some(second.as_str()));
    assert_eq!(
        repository.resolve(first.get(..12).unwrap(), &second).unwrap(),
        first
    );
}
