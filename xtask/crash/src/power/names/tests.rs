//! Tests of names: what syncing a directory saves, and what a cut may leave.

use super::*;
use it::random::Random;

const ROOT: Inode = 1;

fn fates(count: u64) -> impl Iterator<Item = Fate> {
    (0..count).map(|seed| Fate::of(Random::of_all(&[seed])))
}

fn name(directory: Inode, name: &str) -> Name {
    Name {
        directory,
        name: name.as_bytes().to_vec(),
    }
}

fn created(names: &mut Names, at: &Name, inode: Inode) {
    names.change(vec![(at.clone(), Some(inode))]);
}

fn renamed(names: &mut Names, from: &Name, to: &Name) {
    let inode = names.find(from);
    names.change(vec![(from.clone(), None), (to.clone(), inode)]);
}

#[test]
fn syncing_a_directory_saves_its_names_and_no_others() {
    let (here, there) = (name(2, "here"), name(3, "there"));
    let mut lost = 0;
    for mut fate in fates(100) {
        let mut names = Names::default();
        created(&mut names, &here, 10);
        created(&mut names, &there, 11);
        names.sync(2);
        names.cut(&mut fate);
        assert_eq!(names.find(&here), Some(10));
        lost += u32::from(names.find(&there).is_none());
    }
    assert!(lost > 20, "{lost}");
}

#[test]
fn a_rename_into_a_synced_directory_takes_its_past_along() {
    let (temporary, placed) = (name(2, "tmp"), name(3, "placed"));
    for mut fate in fates(100) {
        let mut names = Names::default();
        created(&mut names, &temporary, 10);
        renamed(&mut names, &temporary, &placed);
        names.sync(3);
        names.cut(&mut fate);
        assert_eq!(names.find(&placed), Some(10));
        assert_eq!(names.find(&temporary), None);
    }
}

#[test]
fn a_rename_is_whole_or_did_not_happen() {
    let (old, new) = (name(2, "old"), name(3, "new"));
    let mut outcomes = BTreeSet::new();
    for mut fate in fates(300) {
        let mut names = Names::default();
        created(&mut names, &old, 10);
        created(&mut names, &new, 11);
        names.sync_all();
        renamed(&mut names, &old, &new);
        names.cut(&mut fate);
        outcomes.insert((names.find(&old), names.find(&new)));
    }
    let whole = BTreeSet::from([(None, Some(10)), (Some(10), Some(11))]);
    assert_eq!(outcomes, whole);
}

#[test]
fn a_change_is_lost_with_what_it_builds_on() {
    let (first, second, other) = (name(2, "first"), name(2, "second"), name(2, "other"));
    let mut outcomes = BTreeSet::new();
    for mut fate in fates(500) {
        let mut names = Names::default();
        created(&mut names, &first, 10);
        renamed(&mut names, &first, &second);
        created(&mut names, &other, 11);
        names.cut(&mut fate);
        let found = [&first, &second, &other].map(|name| names.find(name));
        outcomes.insert(found);
    }
    let (nothing, one, two) = ([None, None], [Some(10), None], [None, Some(10)]);
    let expected = [nothing, one, two]
        .into_iter()
        .flat_map(|[first, second]| [[first, second, None], [first, second, Some(11)]]);
    assert_eq!(
        outcomes,
        expected.collect(),
        "all of these and nothing else"
    );
}

#[test]
fn a_removal_that_is_lost_leaves_the_name() {
    let file = name(2, "file");
    let mut outcomes = BTreeSet::new();
    for mut fate in fates(100) {
        let mut names = Names::default();
        created(&mut names, &file, 10);
        names.sync_all();
        names.change(vec![(file.clone(), None)]);
        assert_eq!(names.find(&file), None);
        names.cut(&mut fate);
        outcomes.insert(names.find(&file));
    }
    assert_eq!(outcomes, BTreeSet::from([None, Some(10)]));
}

#[test]
fn what_a_disk_may_still_have_is_reachable_and_nothing_else() {
    let mut names = Names::default();
    created(&mut names, &name(ROOT, "folder"), 2);
    created(&mut names, &name(2, "removed"), 3);
    names.sync_all();
    names.change(vec![(name(2, "removed"), None)]);
    created(&mut names, &name(2, "new"), 4);
    assert_eq!(names.reachable(ROOT), BTreeSet::from([1, 2, 3, 4]));
    names.sync_all();
    assert_eq!(names.reachable(ROOT), BTreeSet::from([1, 2, 4]));
    names.change(vec![(name(ROOT, "folder"), None)]);
    names.sync_all();
    assert_eq!(names.reachable(ROOT), BTreeSet::from([1]));
    assert_eq!(names.find(&name(2, "new")), None);
}

/// Whatever happens in whatever order: what was synced stays until it is changed, and no name leads where it never led.
#[test]
fn no_history_loses_a_synced_name_or_invents_one() {
    for seed in 0..300 {
        let mut random = Random::of_all(&[seed]);
        let mut names = Names::default();
        let all: Vec<Name> = (2..4)
            .flat_map(|directory| ["a", "b", "c"].map(|text| name(directory, text)))
            .collect();
        // Where each name may lead after a cut.
        let mut may: BTreeMap<&Name, BTreeSet<Option<Inode>>> = all
            .iter()
            .map(|name| (name, BTreeSet::from([None])))
            .collect();
        for inode in 10..60 {
            let one = random.pick(&all).expect("some");
            let other = random.pick(&all).expect("some");
            match random.below(6) {
                0..2 => created(&mut names, one, inode),
                2 => names.change(vec![(one.clone(), None)]),
                3 if one != other && names.find(one).is_some() => {
                    renamed(&mut names, one, other);
                }
                4 => {
                    names.sync(one.directory);
                    for name in all.iter().filter(|name| name.directory == one.directory) {
                        may.insert(name, BTreeSet::from([names.find(name)]));
                    }
                }
                _ if random.below(4) == 0 => {
                    names.cut(&mut Fate::of(Random::of_all(&[seed, inode])));
                    for name in &all {
                        let found = names.find(name);
                        assert!(
                            may[name].contains(&found),
                            "seed {seed}: {name:?} {found:?}"
                        );
                        may.insert(name, BTreeSet::from([found]));
                    }
                }
                _ => {}
            }
            for name in &all {
                may.entry(name).or_default().insert(names.find(name));
            }
        }
    }
}
