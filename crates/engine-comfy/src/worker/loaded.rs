//! The model files of a worker: those that are loaded, and those that the jobs will load that have a place.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use workflow_core::{JobId, ModelFile};

/// Model files of one worker.
#[derive(Debug, Default)]
pub(super) struct LoadedFiles {
    /// Those of the job that ran last.
    loaded: Files,
    /// Those of the jobs that have a place, in the order in which they got it.
    promised: Vec<(JobId, Files)>,
    /// Grows with every use at any worker; 0 if there was none.
    pub(super) used: u64,
}

/// A set of files, and a bit for each: a set that lacks a bit of another one lacks a file of it.
#[derive(Debug, Default)]
struct Files {
    files: BTreeSet<ModelFile>,
    bits: u32,
}

/// Counts uses over all workers.
static USES: AtomicU64 = AtomicU64::new(1);

/// The bits of these files.
pub(super) fn bits(files: &BTreeSet<ModelFile>) -> u32 {
    files.iter().fold(0, |bits, file| {
        let mut hasher = DefaultHasher::new();
        file.hash(&mut hasher);
        bits | 1 << (hasher.finish() % u64::from(u32::BITS))
    })
}

impl Files {
    fn of(files: &BTreeSet<ModelFile>) -> Self {
        Self {
            files: files.clone(),
            bits: bits(files),
        }
    }
}

impl LoadedFiles {
    /// A job has a place and will use these when its turn comes.
    pub(super) fn promise(&mut self, job: JobId, files: &BTreeSet<ModelFile>) {
        self.promised.push((job, Files::of(files)));
        self.used = USES.fetch_add(1, Ordering::Relaxed);
    }

    /// The job has used them, or never will.
    pub(super) fn no_promise(&mut self, job: JobId) {
        self.promised.retain(|(other, _)| *other != job);
    }

    /// These are used now.
    pub(super) fn load(&mut self, files: &BTreeSet<ModelFile>) {
        self.loaded = Files::of(files);
        self.used = USES.fetch_add(1, Ordering::Relaxed);
    }

    /// The process that had them is gone.
    pub(super) fn unloaded(&mut self) {
        self.loaded = Files::default();
    }

    /// Whether all of these are loaded once the jobs are over that have a place.
    pub(super) fn will_have(&self, files: &BTreeSet<ModelFile>) -> bool {
        files.is_subset(&self.coming().files)
    }

    /// The bits of what is loaded by then.
    pub(super) fn coming_bits(&self) -> u32 {
        self.coming().bits
    }

    fn coming(&self) -> &Files {
        let last = self.promised.last();
        last.map_or(&self.loaded, |(_, files)| files)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn files(names: &[&str]) -> BTreeSet<ModelFile> {
        let file = |name: &&str| ModelFile {
            folder: "Loader/name".to_owned(),
            name: (*name).to_owned(),
        };
        names.iter().map(file).collect()
    }

    #[test]
    fn the_job_that_got_its_place_last_decides_and_then_the_one_that_ran() {
        let [one, two] = [1, 2].map(|number| JobId(Uuid::from_u128(number)));
        let mut loaded = LoadedFiles::default();
        loaded.load(&files(&["a"]));
        loaded.promise(one, &files(&["b"]));
        loaded.promise(two, &files(&["c", "d"]));
        assert!(loaded.will_have(&files(&["c"])) && !loaded.will_have(&files(&["a"])));
        loaded.no_promise(two);
        assert!(loaded.will_have(&files(&["b"])));
        loaded.no_promise(one);
        assert!(loaded.will_have(&files(&["a"])));
        loaded.unloaded();
        assert!(!loaded.will_have(&files(&["a"])) && loaded.will_have(&files(&[])));
    }

    #[test]
    fn a_missing_bit_is_a_missing_file() {
        let names: Vec<String> = (0..100).map(|number| format!("{number}.ckpt")).collect();
        for pair in names.windows(2) {
            let both = files(&[&pair[0], &pair[1]]);
            for one in pair {
                assert_eq!(bits(&files(&[one])) & !bits(&both), 0);
            }
        }
        assert_eq!(bits(&files(&[])), 0);
    }
}
