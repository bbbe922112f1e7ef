//! Threads for what takes long without waiting: the domain has none of its own.

/// Runs what would keep everybody else from the thread that it is on.
///
/// **Contract.** Every piece of work is run once and soon, on a thread that nobody else waits for; a panic in it hurts nobody
/// else. Work that is dropped instead means that the program stops.
pub trait BlockingPool: Send + Sync + 'static {
    /// Takes a piece of work and returns at once.
    fn run(&self, work: Box<dyn FnOnce() + Send>);
}
