//! The same work on many things, shared among a few threads. The answers are in the order of the things,
//! so nobody can tell.

/// Threads for one piece of work.
const THREADS_MAX: usize = 4;
/// Things for which another thread is worth its start.
const THINGS_MIN: usize = 8;

/// What `work` makes of each thing.
pub(crate) fn map<T: Send, R: Send>(things: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(THREADS_MAX).min(things.len() / THINGS_MIN);
    if threads < 2 {
        return things.into_iter().map(work).collect();
    }
    let share = things.len().div_ceil(threads);
    let mut things = things.into_iter();
    let shares: Vec<Vec<T>> = (0..threads)
        .map(|_| things.by_ref().take(share).collect())
        .collect();
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = shares
            .into_iter()
            .map(|share| scope.spawn(move || share.into_iter().map(work).collect::<Vec<R>>()))
            .collect();
        let done = threads.into_iter().map(|thread| match thread.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        done.flatten().collect()
    })
}

#[cfg(test)]
mod tests {
    use super::map;

    #[test]
    fn answers_are_in_the_order_of_the_things() {
        for count in [0, 1, 7, 8, 17, 100] {
            let doubled = map((0..count).collect(), |thing: usize| thing * 2);
            let expected: Vec<usize> = (0..count).map(|thing| thing * 2).collect();
            assert_eq!(doubled, expected);
        }
    }
}
