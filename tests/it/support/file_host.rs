//! A host of files on this machine. It answers by path over plain HTTP, and counts the requests.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// The longest time a file is held back.
const HELD_MAX: Duration = Duration::from_secs(120);

/// The answer for one path.
#[derive(Clone, Debug)]
pub(crate) enum FileResponse {
    File(Vec<u8>),
    /// A file with a header that claims a compressed transfer.
    EncodedFile(Vec<u8>),
    Redirect(String),
    /// A header with this content length, and then less content than that.
    Truncated(u64, Vec<u8>),
    /// A file of which this number of bytes is sent at once, and the rest after the release.
    Held(Vec<u8>, usize),
}

/// A server that runs until the test process ends.
#[derive(Clone, Debug)]
pub(crate) struct FileHost {
    /// The address: `http://127.0.0.1:port/`
    pub(crate) address: String,
    responses: Arc<Mutex<BTreeMap<String, FileResponse>>>,
    requests: Arc<Mutex<Vec<String>>>,
    released: Arc<(Mutex<bool>, Condvar)>,
}

impl FileHost {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let host = Self {
            address: format!("http://{}/", listener.local_addr().expect("its address")),
            responses: Arc::default(),
            requests: Arc::default(),
            released: Arc::default(),
        };
        let serving = host.clone();
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let serving = serving.clone();
                std::thread::spawn(move || serving.serve(stream));
            }
        });
        host
    }

    /// Serves a response at a path with its query.
    pub(crate) fn serve_response(&self, target: &str, sent: FileResponse) {
        self.responses
            .lock()
            .expect("the answers")
            .insert(target.to_owned(), sent);
    }

    /// Serves a file at a path with its query.
    pub(crate) fn serve_file(&self, target: &str, content: impl Into<Vec<u8>>) {
        self.serve_response(target, FileResponse::File(content.into()));
    }

    /// Releases the held files, and holds no later ones.
    pub(crate) fn release_held(&self) {
        let (is_let_go, changed) = &*self.released;
        *is_let_go.lock().expect("the gate") = true;
        changed.notify_all();
    }

    /// Removes everything.
    pub(crate) fn remove_all(&self) {
        self.responses.lock().expect("the answers").clear();
    }

    /// Returns the requests since the last call.
    pub(crate) fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().expect("the requests"))
    }

    fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut head = BufReader::new(stream.try_clone()?).lines();
        let first = head.next().transpose()?.unwrap_or_default();
        while head.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
        let target = first.split(' ').nth(1).unwrap_or_default().to_owned();
        let sent = self.responses.lock().expect("the answers").get(&target).cloned();
        self.requests.lock().expect("the requests").push(target);
        match sent {
            None => write!(
                stream,
                "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            ),
            Some(FileResponse::Redirect(location)) => write!(
                stream,
                "HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            ),
            Some(FileResponse::File(content)) => write_ok(&mut stream, content.len() as u64, "", &content),
            Some(FileResponse::EncodedFile(content)) => {
                let encoding = "Content-Encoding: gzip\r\n";
                write_ok(&mut stream, content.len() as u64, encoding, &content)
            }
            Some(FileResponse::Truncated(bytes, content)) => {
                write_ok(&mut stream, bytes, "", &content)?;
                // The client must give up waiting.
                let mut rest = BufReader::new(stream).lines();
                while rest.next().is_some_and(|line| line.is_ok()) {}
                Ok(())
            }
            Some(FileResponse::Held(content, at)) => {
                let (begun, rest) = content.split_at(at);
                write_ok(&mut stream, content.len() as u64, "", begun)?;
                let (is_let_go, changed) = &*self.released;
                let held = is_let_go.lock().expect("the gate");
                let held = changed.wait_timeout_while(held, HELD_MAX, |is_let_go| !*is_let_go);
                drop(held);
                stream.write_all(rest)
            }
        }
    }
}

fn write_ok(stream: &mut TcpStream, bytes: u64, more: &str, content: &[u8]) -> std::io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 200 OK\r\n{more}Content-Length: {bytes}\r\nConnection: close\r\n\r\n"
    )?;
    stream.write_all(content)
}
