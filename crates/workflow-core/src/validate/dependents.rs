//! Which outputs cannot run because of which node.

use std::collections::HashMap;

use super::walk::Walk;

/// Most steps that the search takes in all. Every output may depend on every error, which no answer could hold: past this, an
/// output is only listed with itself.
const MOST_STEPS: usize = 1_000_000;

/// The invalid outputs by each invalid node that they need, in order.
pub(super) fn of(
    walk: &Walk<'_>,
    invalid: &[bool],
    outputs: &[usize],
) -> HashMap<usize, Vec<usize>> {
    let mut dependents: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut last_output: Vec<Option<usize>> = vec![None; invalid.len()];
    let mut steps = 0;
    for output in outputs {
        let mut open = vec![*output];
        while let Some(node) = open.pop() {
            if last_output[node].replace(*output) == Some(*output) {
                continue;
            }
            dependents.entry(node).or_default().push(*output);
            steps += 1;
            // Between an output and an error there are only invalid nodes.
            let sources = walk.sources(node).filter(|source| invalid[*source]);
            if steps <= MOST_STEPS {
                open.extend(sources);
            }
        }
    }
    dependents
}
