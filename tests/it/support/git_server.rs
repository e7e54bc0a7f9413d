//! Repositories over smart HTTP on this machine, served by git's own backend.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

/// A server of every bare repository and every `.tar.gz` below a directory, until the test process ends.
pub(crate) struct GitServer {
    /// The address: `http://127.0.0.1:port/`
    pub(crate) address: String,
    state: Arc<Mutex<ServerMode>>,
}

/// The treatment of connections by the server.
enum ServerMode {
    Up,
    /// Closes them at once.
    Down,
    /// Keeps them open and sends nothing.
    Hanging(Vec<TcpStream>),
}

impl GitServer {
    /// Starts the server. Returns `None`, with a notice, if git is not installed.
    pub(crate) fn start(directory: &Path) -> Option<Self> {
        let git = super::require::component("git")?;
        let path = git.command().arg("--exec-path").output().ok()?.stdout;
        let backend = PathBuf::from(String::from_utf8(path).ok()?.trim()).join("git-http-backend");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}/", listener.local_addr().expect("its address"));
        let directory = directory.to_owned();
        let state = Arc::new(Mutex::new(ServerMode::Up));
        let now = Arc::clone(&state);
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                match &mut *now.lock().unwrap() {
                    ServerMode::Up => {}
                    ServerMode::Down => continue,
                    ServerMode::Hanging(held) => {
                        held.push(stream);
                        continue;
                    }
                }
                let _ = serve(stream, &backend, &directory);
            }
        });
        Some(Self { address, state })
    }

    /// Closes every connection from now on.
    pub(crate) fn down(&self) {
        *self.state.lock().unwrap() = ServerMode::Down;
    }

    /// Answers no request from now on, and closes no connection.
    pub(crate) fn hang(&self) {
        *self.state.lock().unwrap() = ServerMode::Hanging(Vec::new());
    }

    /// Returns the number of connections that hang.
    pub(crate) fn held(&self) -> usize {
        match &*self.state.lock().unwrap() {
            ServerMode::Hanging(held) => held.len(),
            ServerMode::Up | ServerMode::Down => 0,
        }
    }

    /// Serves again. Connections that hang are closed.
    pub(crate) fn up(&self) {
        *self.state.lock().unwrap() = ServerMode::Up;
    }
}

fn serve(stream: TcpStream, backend: &Path, directory: &Path) -> std::io::Result<()> {
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
    let body = match header("transfer-encoding") {
        Some(_) => chunked_body(&mut reader)?,
        None => sized_body(&mut reader, header("content-length"))?,
    };
    let mut words = head.first().map_or("", String::as_str).split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (file, query) = target.split_once('?').unwrap_or((target, ""));
    if file.ends_with(".tar.gz")
        && let Ok(content) = std::fs::read(directory.join(file.trim_start_matches('/')))
    {
        let mut out = stream;
        let length = content.len();
        write!(
            out,
            "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        )?;
        return out.write_all(&content);
    }
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
    child.stdin.take().expect("it is piped").write_all(&body)?;
    let answer = child.wait_with_output()?.stdout;
    let split = memchr::memmem::find(&answer, b"\r\n\r\n").unwrap_or(answer.len().saturating_sub(4));
    let (cgi, content) = answer.split_at(split);
    let cgi = String::from_utf8_lossy(cgi);
    let status = cgi.lines().find_map(|line| line.strip_prefix("Status: "));
    let headers: String = cgi
        .lines()
        .filter(|line| !line.starts_with("Status:"))
        .map(|line| format!("{line}\r\n"))
        .collect();
    let content = content.get(4..).unwrap_or_default();
    let (status, length) = (status.unwrap_or("200 OK"), content.len());
    let mut out = stream;
    write!(
        out,
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n"
    )?;
    out.write_all(content)
}

fn sized_body(reader: &mut BufReader<TcpStream>, length: Option<String>) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    let length = length.and_then(|length| length.parse().ok()).unwrap_or(0);
    reader.take(length).read_to_end(&mut body)?;
    Ok(body)
}

fn chunked_body(reader: &mut BufReader<TcpStream>) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut size = String::new();
        reader.read_line(&mut size)?;
        let size = u64::from_str_radix(size.trim(), 16).unwrap_or(0);
        reader.by_ref().take(size).read_to_end(&mut body)?;
        reader.read_line(&mut String::new())?;
        if size == 0 {
            return Ok(body);
        }
    }
}
