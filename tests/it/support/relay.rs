//! A relay on loopback between a program and a server, which loses answers and ends connections.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A relay. Its threads end with their connections.
pub(crate) struct Relay {
    address: String,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Relay {
    /// Starts a relay to the server of a URL. The first answer of the server is lost, after its request was followed.
    pub(crate) fn losing_the_first_answer(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = url.strip_prefix("http://").unwrap().to_owned();
        let open = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&open);
        std::thread::spawn(move || {
            for (number, client) in listener.incoming().enumerate() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(&server)) else {
                    return;
                };
                kept.lock().unwrap().extend([&client, &server].map(clone));
                let (request_from, request_to) = (clone(&client), clone(&server));
                std::thread::spawn(move || copy(request_from, request_to));
                std::thread::spawn(move || match number {
                    0 => lose(server, &client),
                    _ => copy(server, client),
                });
            }
        });
        Self { address, open }
    }

    /// Returns its address as a URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends all connections.
    pub(crate) fn cut(&self) {
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

/// Waits for the beginning of an answer, and closes the connection in its place.
fn lose(mut server: TcpStream, client: &TcpStream) {
    let mut byte = [0];
    let _ = server.read(&mut byte);
    for stream in [&server, client] {
        let _ = stream.shutdown(Shutdown::Both);
    }
}
