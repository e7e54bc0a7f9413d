//! The count of callers that wait for a result, so that background work can yield to them.

use tokio::sync::watch;

/// The number of waiting callers.
#[derive(Debug, Default)]
pub struct ForegroundCount(watch::Sender<usize>);

/// A guard that counts one waiting caller until it is dropped.
#[derive(Debug)]
pub struct ForegroundGuard<'a>(&'a watch::Sender<usize>);

impl ForegroundCount {
    /// Counts one more waiting caller until the guard is dropped.
    pub fn enter(&self) -> ForegroundGuard<'_> {
        self.0.send_modify(|waiting| *waiting += 1);
        ForegroundGuard(&self.0)
    }

    /// Returns when no caller waits.
    pub async fn wait_until_idle(&self) {
        self.until(|waiting| waiting == 0).await;
    }

    /// Returns when a caller waits.
    pub async fn wait_until_busy(&self) {
        self.until(|waiting| waiting > 0).await;
    }

    async fn until(&self, holds: impl Fn(usize) -> bool) {
        // This fails only without a sender, and `self` holds one.
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
