//! An address on loopback that must get no connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A listener that counts connections. It ends on drop.
pub(crate) struct ConnectionSink {
    pub(crate) address: String,
    connections: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl ConnectionSink {
    pub(crate) async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        let accepting = tokio::spawn(async move {
            while listener.accept().await.is_ok() {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self {
            address,
            connections,
            accepting,
        }
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for ConnectionSink {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
