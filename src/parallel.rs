//! Work on many things, shared among a few threads. The answers are in the order of the things,
//! so nobody can tell.

use std::sync::{Mutex, PoisonError};

/// Threads for one piece of work.
const THREADS_MAX: usize = 8;
/// Things for which another thread is worth its start.
const THINGS_MIN: usize = 8;
/// Things a thread takes at a time.
const THINGS_AT_ONCE: usize = 4;

/// Returns what `work` makes of each thing, in their order. Each thread takes a few at a time until none is left,
/// so that one with large things does not keep the others waiting.
pub(crate) fn map<T: Send, R: Send>(things: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    map_with(things, || (), |(), thing| work(thing))
}

/// Works as [`map`] does, where each thread has something of its own for all its things: what `begin` makes.
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
