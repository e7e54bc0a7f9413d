//! A count of the people who wait for something, so that work nobody waits for keeps out of their way.

use tokio::sync::watch;

/// Counts those who wait.
#[derive(Debug, Default)]
pub struct ForegroundCount(watch::Sender<usize>);

/// A count of one more who waits, until it is dropped.
#[derive(Debug)]
pub struct ForegroundGuard<'a>(&'a watch::Sender<usize>);

impl ForegroundCount {
    /// Counts one more who waits, until the answer is dropped.
    pub fn enter(&self) -> ForegroundGuard<'_> {
        self.0.send_modify(|waiting| *waiting += 1);
        ForegroundGuard(&self.0)
    }

    /// Returns when nobody waits.
    pub async fn wait_until_idle(&self) {
        self.until(|waiting| waiting == 0).await;
    }

    /// Returns when somebody waits.
    pub async fn wait_until_busy(&self) {
        self.until(|waiting| waiting > 0).await;
    }

    async fn until(&self, holds: impl Fn(usize) -> bool) {
        // It fails when nobody can change the number any more, and we can.
        drop(self.0.subscribe().wait_for(|waiting| holds(*waiting)).await);
    }
}

impl Drop for ForegroundGuard<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting = waiting.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::ForegroundCount;
    use futures_util::FutureExt as _;

    #[test]
    fn a_dropped_waiter_is_no_longer_counted() {
        let waiters = ForegroundCount::default();
        assert!(
            waiters.wait_until_idle().now_or_never().is_some()
                && waiters.wait_until_busy().now_or_never().is_none()
        );
        let (one, two) = (waiters.enter(), waiters.enter());
        drop(one);
        assert!(
            waiters.wait_until_idle().now_or_never().is_none()
                && waiters.wait_until_busy().now_or_never().is_some()
        );
        drop(two);
        assert!(
            waiters.wait_until_idle().now_or_never().is_some()
                && waiters.wait_until_busy().now_or_never().is_none()
        );
    }
}
