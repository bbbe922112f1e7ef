//! Tests of a disk: what its operations refuse, what a sync saves, which promises can be broken, and when the power goes.

use super::*;
use it::random::Random;

const OWNER: (u32, u32) = (0, 0);

fn name(directory: Inode, name: &str) -> Name {
    Name {
        directory,
        name: name.as_bytes().to_vec(),
    }
}

/// A disk with a file of the bytes `old`, all of it durable.
fn disk(broken: Broken) -> (Disk, Inode) {
    let mut disk = Disk::new(Broken::Nothing);
    let file = disk.create(name(ROOT, "file"), Kind::File, 0o600, OWNER);
    let file = file.expect("it is new");
    disk.write(file, 0, b"old").expect("it is there");
    disk.sync_all();
    disk.broken = broken;
    (disk, file)
}

fn bytes(disk: &Disk, inode: Inode) -> Vec<u8> {
    let node = disk.node(inode).expect("it is there");
    node.content.read(0, 100)
}

fn cut(disk: &mut Disk, seed: u64) {
    disk.cut(Fate::of(Random::of_all(&[seed])));
}

/// How many of many cuts lose something that was synced.
fn losses(broken: Broken, sync: impl Fn(&mut Disk, Inode)) -> u32 {
    let mut losses = 0;
    for seed in 0..100 {
        let (mut disk, file) = disk(broken);
        disk.write(file, 0, b"new").expect("it is there");
        let made = disk.create(name(ROOT, "made"), Kind::File, 0o600, OWNER);
        made.expect("it is new");
        sync(&mut disk, file);
        cut(&mut disk, seed);
        let has_all = bytes(&disk, file) == b"new" && disk.find(&name(ROOT, "made")).is_ok();
        losses += u32::from(!has_all);
    }
    losses
}

#[test]
fn what_is_synced_is_lost_by_broken_disks_alone() {
    let each = |disk: &mut Disk, file: Inode| {
        disk.sync(file, false).expect("it is there");
        disk.sync(ROOT, true).expect("it is there");
    };
    let all = |disk: &mut Disk, _: Inode| disk.sync_all();
    assert_eq!(losses(Broken::Nothing, each), 0);
    assert_eq!(losses(Broken::Nothing, all), 0);
    assert!(losses(Broken::Files, each) > 20);
    assert!(losses(Broken::Directories, each) > 20);
    assert!(losses(Broken::FileSystems, all) > 20);
}

#[test]
fn syncing_a_file_saves_neither_its_name_nor_the_way_to_it() {
    let mut lost = [0; 2];
    for seed in 0..100 {
        let mut disk = Disk::new(Broken::Nothing);
        let folder = disk.create(name(ROOT, "folder"), Kind::Directory, 0o700, OWNER);
        let folder = folder.expect("it is new");
        let file = disk.create(name(folder, "file"), Kind::File, 0o600, OWNER);
        let file = file.expect("it is new");
        disk.sync(file, true).expect("it is there");
        if seed % 2 == 0 {
            disk.sync(folder, true).expect("it is there");
        }
        cut(&mut disk, seed);
        lost[0] += u32::from(disk.find(&name(ROOT, "folder")).is_err());
        lost[1] += u32::from(disk.node(file).is_err());
    }
    assert!(lost[0] > 20 && lost[1] >= lost[0], "{lost:?}");
}

#[test]
fn the_power_goes_at_the_operation_that_was_chosen() {
    let (mut disk, _) = disk(Broken::Nothing);
    disk.arm(Some(2));
    let powers = [(); 4].map(|()| disk.begin());
    assert_eq!(powers, [Power::On, Power::On, Power::Off, Power::On]);
    disk.arm(Some(0));
    disk.killed();
    assert_eq!(
        disk.begin(),
        Power::On,
        "the process that it was for is gone"
    );
    assert_eq!((disk.counts.at_operations, disk.counts.kills), (1, 1));
}

#[test]
fn a_kill_loses_nothing_and_saves_nothing() {
    let (mut disk, file) = disk(Broken::Nothing);
    disk.write(file, 0, b"new").expect("it is there");
    disk.killed();
    assert_eq!(bytes(&disk, file), b"new");
    let mut outcomes = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let (mut disk, file) = self::disk(Broken::Nothing);
        disk.write(file, 0, b"new").expect("it is there");
        disk.killed();
        cut(&mut disk, seed);
        outcomes.insert(bytes(&disk, file));
    }
    assert_eq!(outcomes.len(), 2);
}

#[test]
fn times_and_modes_are_saved_with_a_file_and_not_with_its_bytes_alone() {
    let mut reverted = [0; 2];
    for seed in 0..100 {
        let (mut disk, file) = disk(Broken::Nothing);
        disk.set(file, |attributes| attributes.mode = 0o400)
            .expect("it is there");
        disk.sync(file, seed % 2 == 0).expect("it is there");
        cut(&mut disk, seed);
        let mode = disk.node(file).expect("it is there").attributes.mode;
        reverted[usize::from(seed % 2 == 0)] += u32::from(mode == 0o600);
    }
    assert!(reverted[0] > 10 && reverted[1] == 0, "{reverted:?}");
}

#[test]
fn what_cannot_be_is_refused() {
    let (mut disk, file) = disk(Broken::Nothing);
    let folder = disk.create(name(ROOT, "folder"), Kind::Directory, 0o700, OWNER);
    let folder = folder.expect("it is new");
    let at = || name(ROOT, "file");
    let again = disk.create(at(), Kind::File, 0o600, OWNER);
    assert_eq!(again, Err(Refusal::Exists));
    assert_eq!(disk.remove(at(), true), Err(Refusal::NotADirectory));
    disk.link(file, name(folder, "linked")).expect("it is new");
    let removed = disk.remove(name(ROOT, "folder"), true);
    assert_eq!(removed, Err(Refusal::NotEmpty));
    let stays = disk.rename(at(), name(folder, "linked"), true);
    assert_eq!(stays, Err(Refusal::Exists));
    let missing = disk.rename(name(ROOT, "no"), at(), false);
    assert_eq!(missing, Err(Refusal::NotFound));
    let over = disk.rename(at(), name(ROOT, "folder"), false);
    assert_eq!(over, Err(Refusal::NotEmpty));
}
