//! A relay on loopback between a program and a server, which loses answers and ends connections.

use super::app::BOUND;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

/// The bytes of all answers that were passed on.
type PassedAnswers = (Mutex<Vec<u8>>, Condvar);

/// A relay. Its threads end with their connections.
pub(crate) struct Relay {
    address: String,
    open: Arc<Mutex<Vec<TcpStream>>>,
    answers: Arc<PassedAnswers>,
}

impl Relay {
    /// Starts a relay to the server of a URL. The first answer of the server is lost, after its request was followed.
    pub(crate) fn losing_the_first_answer(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = url.strip_prefix("http://").unwrap().to_owned();
        let open = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&open);
        let answers = Arc::new(PassedAnswers::default());
        let passed = Arc::clone(&answers);
        std::thread::spawn(move || {
            for (number, client) in listener.incoming().enumerate() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(&server)) else {
                    return;
                };
                kept.lock().unwrap().extend([&client, &server].map(clone));
                let (request_from, request_to) = (clone(&client), clone(&server));
                std::thread::spawn(move || copy(request_from, request_to));
                let passed = Arc::clone(&passed);
                std::thread::spawn(move || match number {
                    0 => lose(server, &client),
                    _ => pass_on(server, client, &passed),
                });
            }
        });
        Self {
            address,
            open,
            answers,
        }
    }

    /// Returns its address as a URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits until an answer with this text was passed on, and ends all connections.
    pub(crate) fn cut_after(&self, text: &str) {
        let (passed, changed) = &*self.answers;
        let is_missing =
            |passed: &mut Vec<u8>| !passed.windows(text.len()).any(|part| part == text.as_bytes());
        let waited = changed.wait_timeout_while(passed.lock().unwrap(), BOUND, is_missing);
        assert!(!waited.unwrap().1.timed_out(), "no answer with {text:?}");
        for stream in self.open.lock().unwrap().drain(..) {
            // Either side may have closed it.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn clone(stream: &TcpStream) -> TcpStream {
    stream.try_clone().unwrap()
}

/// Copies bytes until one side closes its connection, and then closes the other one.
fn copy(mut from: TcpStream, mut to: TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.flush();
    let _ = to.shutdown(Shutdown::Both);
}

/// Copies the answers of a server to its client, and keeps them.
fn pass_on(mut server: TcpStream, mut client: TcpStream, (passed, changed): &PassedAnswers) {
    let mut part = [0; 4_096];
    while let Ok(count @ 1..) = server.read(&mut part) {
        if client.write_all(&part[..count]).is_err() {
            break;
        }
        passed.lock().unwrap().extend_from_slice(&part[..count]);
        changed.notify_all();
    }
    let _ = client.shutdown(Shutdown::Both);
}

/// Waits for the beginning of an answer, and closes the connection in its place.
fn lose(mut server: TcpStream, client: &TcpStream) {
    let mut byte = [0];
    let _ = server.read(&mut byte);
    for stream in [&server, client] {
        let _ = stream.shutdown(Shutdown::Both);
    }
}
