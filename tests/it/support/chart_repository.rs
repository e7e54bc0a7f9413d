//! A repository of charts on this machine: answers by path, over plain http, and counts what was asked.

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What is sent for one path.
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
}

/// Serves until the test process ends.
#[derive(Clone, Debug)]
pub(crate) struct ChartRepository {
    /// `http://127.0.0.1:port/`
    pub(crate) address: String,
    sent: Arc<Mutex<BTreeMap<String, Sent>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl ChartRepository {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let repository = Self {
            address: format!("http://{}/", listener.local_addr().expect("its address")),
            sent: Arc::default(),
            asked: Arc::default(),
        };
        let serving = repository.clone();
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let serving = serving.clone();
                std::thread::spawn(move || serving.serve(stream));
            }
        });
        repository
    }

    /// Has something at a path with its query.
    pub(crate) fn put(&self, target: &str, sent: Sent) {
        self.sent
            .lock()
            .expect("the answers")
            .insert(target.to_owned(), sent);
    }

    /// Has a file there.
    pub(crate) fn file(&self, target: &str, content: impl Into<Vec<u8>>) {
        self.put(target, Sent::File(content.into()));
    }

    /// What was asked since the last time.
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

/// A packed chart.
pub(crate) fn packed_chart(name: &str, version: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let chart = format!("apiVersion: v2\nname: {name}\nversion: {version}\n");
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (file, content) in [("Chart.yaml", chart.as_str())].iter().chain(more) {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        let path = format!("{name}/{file}");
        archive
            .append_data(&mut header, path, content.as_bytes())
            .expect("an entry");
    }
    archive
        .into_inner()
        .and_then(GzEncoder::finish)
        .expect("an archive")
}

/// The SHA-256 of something in hex.
pub(crate) fn sha256(content: &[u8]) -> String {
    Sha256::digest(content)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
