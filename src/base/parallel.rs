//! Parallel work on many items with a few threads. The results are in the order of the items, so callers see no
//! difference.

use std::sync::{Mutex, PoisonError};

/// Threads for one call.
const THREADS_MAX: usize = 8;
/// Items that justify the start of another thread.
const THINGS_MIN: usize = 8;
/// Items a thread takes at a time.
const THINGS_AT_ONCE: usize = 4;

/// Applies `work` to each item and returns the results in order. Each thread takes a few items at a time until none are
/// left, so that a thread with large items does not delay the others.
pub(crate) fn map<T: Send, R: Send>(things: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    map_with(things, || (), |(), thing| work(thing))
}

/// Works like [`map`], with a value for each thread that `begin` creates and that the thread uses for all its items.
pub(crate) fn map_with<T: Send, R: Send, S>(
    things: Vec<T>,
    begin: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, T) -> R + Sync,
) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(THREADS_MAX).min(things.len() / THINGS_MIN);
    if threads < 2 {
        let mut own = begin();
        return things.into_iter().map(|thing| work(&mut own, thing)).collect();
    }
    let left = Mutex::new(things.into_iter().enumerate());
    let take = || -> Vec<(usize, T)> {
        let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
        left.by_ref().take(THINGS_AT_ONCE).collect()
    };
    let share = || {
        let (mut done, mut own) = (Vec::new(), begin());
        loop {
            let taken = take();
            if taken.is_empty() {
                return done;
            }
            let worked = taken
                .into_iter()
                .map(|(index, thing)| (index, work(&mut own, thing)));
            done.extend(worked);
        }
    };
    let mut done = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(share)).collect();
        let mut done = share();
        for other in others {
            match other.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::map;

    #[test]
    fn answers_are_in_the_order_of_the_things() {
        for count in [0, 1, 7, 8, 17, 100, 1_001] {
            let doubled = map((0..count).collect(), |thing: usize| thing * 2);
            let expected: Vec<usize> = (0..count).map(|thing| thing * 2).collect();
            assert_eq!(doubled, expected);
        }
    }
}
