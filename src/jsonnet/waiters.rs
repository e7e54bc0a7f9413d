//! A count of the people who wait for something, so that work nobody waits for keeps out of their way.

use tokio::sync::watch;

/// Counts those who wait.
#[derive(Debug, Default)]
pub struct Waiters(watch::Sender<usize>);

/// A count of one more who waits, until it is dropped.
#[derive(Debug)]
pub struct Waiter<'a>(&'a watch::Sender<usize>);

impl Waiters {
    /// Counts one more who waits, until the answer is dropped.
    pub fn add(&self) -> Waiter<'_> {
        self.0.send_modify(|waiting| *waiting += 1);
        Waiter(&self.0)
    }

    /// Returns when nobody waits.
    pub async fn none(&self) {
        self.until(|waiting| waiting == 0).await;
    }

    /// Returns when somebody waits.
    pub async fn some(&self) {
        self.until(|waiting| waiting > 0).await;
    }

    async fn until(&self, holds: impl Fn(usize) -> bool) {
        // It fails when nobody can change the number any more, and we can.
        drop(self.0.subscribe().wait_for(|waiting| holds(*waiting)).await);
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting = waiting.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::Waiters;
    use futures_util::FutureExt as _;

    #[test]
    fn whoever_is_gone_waits_no_more() {
        let waiters = Waiters::default();
        assert!(waiters.none().now_or_never().is_some() && waiters.some().now_or_never().is_none());
        let (one, two) = (waiters.add(), waiters.add());
        drop(one);
        assert!(waiters.none().now_or_never().is_none() && waiters.some().now_or_never().is_some());
        drop(two);
        assert!(waiters.none().now_or_never().is_some() && waiters.some().now_or_never().is_none());
    }
}
