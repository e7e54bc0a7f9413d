//! A host of files on this machine: answers by path, over plain http, and counts what was asked.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// The longest time a file is held back.
const HELD_MAX: Duration = Duration::from_secs(120);

/// The answer for one path.
#[derive(Clone, Debug)]
pub(crate) enum Sent {
    /// A file.
    File(Vec<u8>),
    /// The same, called a page that was compressed on its way.
    Page(Vec<u8>),
    /// A redirect.
    To(String),
    /// A head that promises so many bytes, and then less than that, and nothing more.
    Begun(u64, Vec<u8>),
    /// A file of which so many bytes come at once, and the rest when it is let go.
    Held(Vec<u8>, usize),
}

/// Serves until the test process ends.
#[derive(Clone, Debug)]
pub(crate) struct FileHost {
    /// `http://127.0.0.1:port/`
    pub(crate) address: String,
    sent: Arc<Mutex<BTreeMap<String, Sent>>>,
    asked: Arc<Mutex<Vec<String>>>,
    is_let_go: Arc<(Mutex<bool>, Condvar)>,
}

impl FileHost {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let host = Self {
            address: format!("http://{}/", listener.local_addr().expect("its address")),
            sent: Arc::default(),
            asked: Arc::default(),
            is_let_go: Arc::default(),
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

    /// Serves something at a path with its query.
    pub(crate) fn put(&self, target: &str, sent: Sent) {
        self.sent
            .lock()
            .expect("the answers")
            .insert(target.to_owned(), sent);
    }

    /// Serves a file there.
    pub(crate) fn file(&self, target: &str, content: impl Into<Vec<u8>>) {
        self.put(target, Sent::File(content.into()));
    }

    /// Lets go of what is held back, and holds nothing back any more.
    pub(crate) fn let_go(&self) {
        let (is_let_go, changed) = &*self.is_let_go;
        *is_let_go.lock().expect("the gate") = true;
        changed.notify_all();
    }

    /// Serves nothing any more.
    pub(crate) fn clear(&self) {
        self.sent.lock().expect("the answers").clear();
    }

    /// Returns the requests since the last time.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().expect("the requests"))
    }

    fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut head = BufReader::new(stream.try_clone()?).lines();
        let first = head.next().transpose()?.unwrap_or_default();
        while head.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
        let target = first.split(' ').nth(1).unwrap_or_default().to_owned();
        let sent = self.sent.lock().expect("the answers").get(&target).cloned();
        self.asked.lock().expect("the requests").push(target);
        match sent {
            None => write!(
                stream,
                "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            ),
            Some(Sent::To(location)) => write!(
                stream,
                "HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            ),
            Some(Sent::File(content)) => found(&mut stream, content.len() as u64, "", &content),
            Some(Sent::Page(content)) => {
                let encoding = "Content-Encoding: gzip\r\n";
                found(&mut stream, content.len() as u64, encoding, &content)
            }
            Some(Sent::Begun(bytes, content)) => {
                found(&mut stream, bytes, "", &content)?;
                // Whoever waits has to give up.
                let mut rest = BufReader::new(stream).lines();
                while rest.next().is_some_and(|line| line.is_ok()) {}
                Ok(())
            }
            Some(Sent::Held(content, at)) => {
                let (begun, rest) = content.split_at(at);
                found(&mut stream, content.len() as u64, "", begun)?;
                let (is_let_go, changed) = &*self.is_let_go;
                let held = is_let_go.lock().expect("the gate");
                let held = changed.wait_timeout_while(held, HELD_MAX, |is_let_go| !*is_let_go);
                drop(held);
                stream.write_all(rest)
            }
        }
    }
}

fn found(stream: &mut TcpStream, bytes: u64, more: &str, content: &[u8]) -> std::io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 200 OK\r\n{more}Content-Length: {bytes}\r\nConnection: close\r\n\r\n"
    )?;
    stream.write_all(content)
}
