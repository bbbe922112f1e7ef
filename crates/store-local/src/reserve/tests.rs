//! The three lines, on a disk whose free room the test sets.

use std::sync::atomic::AtomicU64;

use installation::MinFree;
use tempfile::TempDir;

use super::*;

const MIB: u64 = 1 << 20;

/// A directory, and a disk of 100 MiB of which as much is free as the number says, the ballast aside.
struct TestDisk {
    root: TempDir,
    directory: Directory,
    free: Arc<AtomicU64>,
}

impl TestDisk {
    fn new(free_mib: u64) -> Self {
        let root = tempfile::tempdir().expect("a temporary directory");
        let directory = Directory::take(root.path()).expect("the directory is free");
        let free = Arc::new(AtomicU64::new(free_mib * MIB));
        Self {
            root,
            directory,
            free,
        }
    }

    fn reserve(&self, min_free: MinFree, ballast_mib: u64) -> Reserve {
        let (free, ballast) = (Arc::clone(&self.free), self.directory.ballast());
        let options = ReserveOptions {
            min_free,
            ballast_bytes: ballast_mib * MIB,
        };
        Reserve::over(&self.directory, options, move || {
            let taken = fs::metadata(&ballast).map_or(0, |file| file.len());
            Ok(Disk {
                free_bytes: free.load(Ordering::Relaxed).saturating_sub(taken),
                total_bytes: 100 * MIB,
            })
        })
    }

    fn set_free(&self, mib: u64) {
        self.free.store(mib * MIB, Ordering::Relaxed);
    }

    fn has_ballast(&self) -> bool {
        self.root.path().join("ballast").exists()
    }
}

#[test]
fn uploads_stop_first_then_growth_and_ends_never() {
    let place = TestDisk::new(50);
    let reserve = place.reserve(MinFree::Bytes(8 * MIB), 4);
    assert!(place.has_ballast());
    for (free_mib, uploads, growth) in [
        (12, true, true),
        (11, false, true),
        (8, false, true),
        (7, false, false),
        (12, true, true),
    ] {
        place.set_free(free_mib);
        assert_eq!(reserve.for_uploads().is_ok(), uploads, "{free_mib}");
        assert_eq!(reserve.for_growth().is_ok(), growth, "{free_mib}");
    }
    assert!(place.has_ballast());
    let refused = {
        place.set_free(10);
        reserve.for_uploads().expect_err("too little is free")
    };
    assert_eq!(
        (refused.free_bytes, refused.needed_bytes),
        (6 * MIB, 8 * MIB)
    );
}

#[test]
fn the_ballast_is_given_up_for_ends_alone_and_made_again_when_there_is_room() {
    let place = TestDisk::new(50);
    let reserve = place.reserve(MinFree::Bytes(8 * MIB), 4);
    reserve.for_the_end();
    assert!(place.has_ballast(), "there is room enough");
    place.set_free(5);
    reserve.for_growth().expect_err("too little is free");
    assert!(place.has_ballast(), "nobody had to end");
    reserve.for_the_end();
    assert!(!place.has_ballast());
    // What it gave is for ends: nothing else may have it.
    reserve.for_growth().expect_err("the ballast is gone");
    place.set_free(7);
    reserve
        .for_growth()
        .expect_err("it would be given up again at once");
    assert!(!place.has_ballast());
    place.set_free(50);
    reserve.for_growth().expect("there is room again");
    reserve.for_uploads().expect("there is room again");
    assert!(place.has_ballast());
}

#[test]
fn a_start_on_a_full_disk_has_the_room_of_the_ballast() {
    let place = TestDisk::new(50);
    drop(place.reserve(MinFree::Bytes(0), 4));
    assert!(place.has_ballast());
    place.set_free(5);
    let reserve = place.reserve(MinFree::Bytes(0), 4);
    assert!(!place.has_ballast());
    reserve.for_growth().expect_err("too little is free");
}

#[test]
fn a_ballast_of_another_size_is_made_anew_and_none_is_removed() {
    let place = TestDisk::new(50);
    drop(place.reserve(MinFree::Bytes(0), 4));
    drop(place.reserve(MinFree::Bytes(0), 2));
    let size = fs::metadata(place.directory.ballast()).map(|file| file.len());
    assert_eq!(size.ok(), Some(2 * MIB));
    let reserve = place.reserve(MinFree::Bytes(0), 0);
    assert!(place.has_ballast(), "it is another's");
    place.set_free(0);
    reserve.for_growth().expect("nothing is kept back");
    reserve.for_uploads().expect("nothing is kept back");
    reserve.for_the_end();
    place.set_free(50);
    drop(place.reserve(MinFree::Bytes(1), 0));
    assert!(!place.has_ballast());
}

#[test]
fn auto_keeps_a_gibibyte_or_a_twentieth() {
    assert_eq!(MinFree::Auto.bytes(10 << 30), 1 << 30);
    assert_eq!(MinFree::Auto.bytes(100 << 30), 5 << 30);
}

#[test]
fn a_real_disk_can_be_asked() {
    let place = TestDisk::new(0);
    let options = ReserveOptions {
        min_free: MinFree::Bytes(1),
        ballast_bytes: 4096,
    };
    let reserve = Reserve::open(&place.directory, options);
    reserve
        .for_uploads()
        .expect("the disk of the tests has room");
    let all = ReserveOptions {
        min_free: MinFree::Bytes(u64::MAX),
        ballast_bytes: 4096,
    };
    Reserve::open(&place.directory, all)
        .for_uploads()
        .expect_err("no disk is that large");
}
