//! Nodes that wait for each other.
//!
//! Nodes are on a common cycle exactly if each needs the other. Such sets are found by two searches: one along the links gives
//! the order, one against them, latest first, gives the sets. The second one also gives each node's way to the first node of
//! its set; with the way from there back, that names a cycle through any of them without ever following a long one.

use std::collections::{HashMap, HashSet, VecDeque};

use super::walk::Walk;
use super::{Subject, ValidationError, ValidationErrorKind};
use crate::NodeId;

/// Most nodes of a cycle that an error lists.
const MOST_LISTED: usize = 16;

/// An error for every node that waits for itself.
pub(super) fn errors(subject: Subject<'_>, walk: &Walk<'_>) -> Vec<(usize, ValidationError)> {
    let order = walk.sources_first();
    let position: HashMap<usize, usize> = order
        .iter()
        .enumerate()
        .map(|(at, node)| (*node, at))
        .collect();
    let is_acyclic = order.iter().all(|node| {
        walk.sources(*node)
            .all(|source| position[&source] < position[node])
    });
    if is_acyclic {
        return Vec::new();
    }
    let mut readers: HashMap<usize, Vec<usize>> = HashMap::new();
    for node in order {
        for source in walk.sources(*node) {
            readers.entry(source).or_default().push(*node);
        }
    }
    let mut errors = Vec::new();
    let mut settled = HashSet::new();
    for root in order.iter().rev() {
        if settled.contains(root) {
            continue;
        }
        let reads = |node: usize| readers.get(&node).into_iter().flatten().copied();
        let to_root = steps(*root, reads, |node| !settled.contains(&node));
        settled.extend(to_root.keys().copied());
        let from_root = steps(
            *root,
            |node| walk.sources(node),
            |node| to_root.contains_key(&node),
        );
        let knot = Knot {
            root: *root,
            to_root,
            from_root,
            walk,
        };
        for node in knot.to_root.keys() {
            if let Some((mut cycle, complete)) = knot.cycle_through(*node) {
                if complete {
                    // However it was found, a cycle is told from the node on that an output reaches first.
                    let first = (0..cycle.len()).max_by_key(|at| position[&cycle[*at]]);
                    cycle.rotate_left(first.unwrap_or(0));
                }
                errors.push((*node, error(subject, &cycle, complete)));
            }
        }
    }
    errors
}

/// Nodes that all need each other, with the next step of each node's way to the root and the last step of the way from it.
struct Knot<'w> {
    root: usize,
    to_root: HashMap<usize, usize>,
    from_root: HashMap<usize, usize>,
    walk: &'w Walk<'w>,
}

impl Knot<'_> {
    /// A cycle through `node`, and whether it is all of it.
    fn cycle_through(&self, node: usize) -> Option<(Vec<usize>, bool)> {
        if self.walk.sources(node).any(|source| source == node) {
            return Some((vec![node], true));
        }
        // From the root, the way to itself begins with any step that stays within the knot.
        let second = if node == self.root {
            self.walk
                .sources(node)
                .find(|source| self.to_root.contains_key(source))?
        } else {
            self.to_root[&node]
        };
        let mut ahead = vec![node, second];
        while ahead.len() < MOST_LISTED && ahead[ahead.len() - 1] != self.root {
            ahead.push(self.to_root[&ahead[ahead.len() - 1]]);
        }
        let mut behind = vec![node];
        while behind.len() < MOST_LISTED && behind[behind.len() - 1] != self.root {
            behind.push(self.from_root[&behind[behind.len() - 1]]);
        }
        let meeting = (1..ahead.len())
            .find_map(|at| Some((at, behind.iter().position(|node| *node == ahead[at])?)));
        let Some((at, back)) = meeting else {
            return Some((ahead, false));
        };
        // The root's way leads back to itself and is a cycle as it stands.
        if back == 0 {
            ahead.truncate(at);
        } else {
            ahead.truncate(at + 1);
            ahead.extend(behind[1..back].iter().rev());
        }
        Some((ahead, true))
    }
}

/// Searches breadth first from `start`; answers every node reached, with the node it was reached from.
fn steps<I: Iterator<Item = usize>>(
    start: usize,
    neighbours: impl Fn(usize) -> I,
    may_enter: impl Fn(usize) -> bool,
) -> HashMap<usize, usize> {
    let mut from = HashMap::from([(start, start)]);
    let mut open = VecDeque::from([start]);
    while let Some(node) = open.pop_front() {
        for neighbour in neighbours(node) {
            if may_enter(neighbour) && !from.contains_key(&neighbour) {
                from.insert(neighbour, node);
                open.push_back(neighbour);
            }
        }
    }
    from
}

fn error(subject: Subject<'_>, cycle: &[usize], complete: bool) -> ValidationError {
    let told = |index: &usize| {
        let class = subject.graph.nodes()[*index].class_type.clone();
        (NodeId::clone(subject.id(*index)), class.unwrap_or_default())
    };
    ValidationError {
        input: None,
        definition: None,
        received: None,
        kind: ValidationErrorKind::DependencyCycle {
            cycle: cycle.iter().map(told).collect(),
            complete,
        },
    }
}
