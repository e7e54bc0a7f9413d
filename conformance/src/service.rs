//! A service on loopback that answers each request with the same bytes and records it.

use serde_json::Value;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A running service.
pub struct Service {
    /// The address: `http://127.0.0.1:port`
    pub address: String,
    requests: Arc<Mutex<Vec<Value>>>,
}

impl Service {
    /// Starts a service whose answers have this body.
    pub async fn start(body: String, is_streamed: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let requests: Arc<Mutex<Vec<Value>>> = Arc::default();
        let recorded = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (body, recorded) = (body.clone(), Arc::clone(&recorded));
                tokio::spawn(async move { serve(stream, &body, is_streamed, &recorded).await });
            }
        });
        Self { address, requests }
    }

    /// Returns the bodies of the requests.
    pub fn requests(&self) -> Vec<Value> {
        self.requests.lock().expect("a lock").clone()
    }
}

async fn serve(mut stream: TcpStream, body: &str, is_streamed: bool, recorded: &Mutex<Vec<Value>>) {
    let mut read = Vec::new();
    let mut buffer = [0; 16_384];
    let request = loop {
        if let Some(request) = whole_body(&read) {
            break request;
        }
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(bytes) => read.extend_from_slice(&buffer[..bytes]),
        }
    };
    recorded.lock().expect("a lock").push(request);
    let kind = if is_streamed {
        "text/event-stream"
    } else {
        "application/json"
    };
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    // A client that has read enough may close the connection.
    let _ = stream.write_all(answer.as_bytes()).await;
}

/// Returns the body of a request once all of it has arrived. The clients give its length.
fn whole_body(read: &[u8]) -> Option<Value> {
    let end = read.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&read[..end]).to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"))?;
    let length: usize = length.trim().parse().ok()?;
    serde_json::from_slice(read.get(end..end + length)?).ok()
}
