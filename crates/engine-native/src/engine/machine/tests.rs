//! The machine on its own: graphs of numbers, no values, no threads.

use super::*;

fn node(strong: &[usize]) -> Links {
    Links {
        strong: strong.to_vec(),
        ..Links::default()
    }
}

fn output(strong: &[usize]) -> Links {
    Links {
        output: true,
        ..node(strong)
    }
}

fn known(links: Links) -> Links {
    Links {
        known: true,
        ..links
    }
}

fn machine(links: Vec<Links>) -> Machine {
    let outputs: Vec<usize> = (0..links.len())
        .filter(|&node| links[node].output)
        .collect();
    let mut machine = Machine::new(links);
    outputs
        .into_iter()
        .for_each(|output| machine.demand(output));
    machine
}

/// Runs everything one after the other, as a single thread would, and answers the order of telling.
fn told(mut machine: Machine) -> Vec<usize> {
    let mut order = Vec::new();
    while let Some(turn) = machine.turn() {
        if !machine.is_done(turn) {
            let next = machine.startable(false).expect("the node in turn can run");
            machine.start(next);
            machine.finish(next);
            continue;
        }
        order.push(turn);
        machine.told(turn);
    }
    assert!(machine.is_over());
    order
}

#[test]
fn outputs_come_first_then_what_feeds_them_then_what_was_demanded_first() {
    // The recorded failing run: 0 feeds 1, 1 feeds the output 2, and 0 feeds the output 3 directly.
    let links = vec![node(&[]), node(&[0]), output(&[1]), output(&[0])];
    assert_eq!(told(machine(links)), [0, 3, 1, 2]);
    // Two hops from an output beat three; of equals, the last source of a node comes first.
    let links = vec![
        node(&[]),
        node(&[0]),
        node(&[1]),
        node(&[]),
        node(&[3]),
        output(&[2, 4]),
    ];
    assert_eq!(told(machine(links)), [3, 4, 0, 1, 2, 5]);
}

#[test]
fn known_nodes_are_told_of_only_where_they_are_outputs() {
    let links = vec![
        known(node(&[])),
        node(&[0]),
        output(&[1]),
        known(output(&[1])),
    ];
    assert_eq!(told(machine(links)), [3, 1, 2]);
    let links = vec![node(&[]), known(output(&[0]))];
    assert_eq!(
        told(machine(links)),
        [1],
        "what only a known output reads is not run"
    );
}

#[test]
fn nodes_run_ahead_of_their_turn_but_outputs_do_not() {
    let mut machine = machine(vec![node(&[]), output(&[0]), node(&[]), output(&[2])]);
    assert_eq!(machine.turn(), Some(0));
    machine.start(0);
    assert_eq!(machine.startable(false), None);
    assert_eq!(machine.startable(true), Some(2));
    machine.start(2);
    machine.finish(2);
    assert_eq!(
        machine.startable(true),
        None,
        "the output 3 waits for its turn"
    );
    machine.finish(0);
    machine.told(0);
    assert_eq!(
        (machine.turn(), machine.startable(true)),
        (Some(1), Some(1))
    );
    machine.start(1);
    machine.finish(1);
    machine.told(1);
    assert_eq!(
        machine.turn(),
        Some(2),
        "what is done keeps its place in the telling"
    );
}

#[test]
fn a_node_that_asks_for_a_lazy_source_gives_its_turn_back() {
    let mut machine = machine(vec![node(&[]), node(&[]), output(&[1])]);
    assert_eq!(machine.turn(), Some(1));
    machine.start(1);
    machine.needs(1, &[0]);
    assert_eq!(
        (machine.turn(), machine.startable(false)),
        (Some(0), Some(0))
    );
    machine.start(0);
    machine.finish(0);
    machine.told(0);
    assert_eq!(
        (machine.turn(), machine.startable(false)),
        (Some(1), Some(1))
    );
}

#[test]
fn a_lazy_source_that_is_known_costs_no_turn() {
    let mut machine = machine(vec![known(node(&[])), node(&[]), output(&[1])]);
    assert_eq!(machine.turn(), Some(1));
    machine.start(1);
    machine.needs(1, &[0]);
    assert_eq!(
        (machine.turn(), machine.startable(false)),
        (Some(1), Some(1))
    );
}

#[test]
fn an_expansion_runs_in_the_turn_of_its_node() {
    let mut machine = machine(vec![node(&[]), node(&[]), output(&[0, 1])]);
    // 1 has its turn; 0 runs ahead and expands into an output node.
    assert_eq!(machine.turn(), Some(1));
    machine.start(0);
    let inner = Links {
        root: Some(0),
        ..output(&[])
    };
    machine.add(vec![inner]);
    machine.expand(0, &[3]);
    machine.start(1);
    assert_eq!(
        machine.startable(true),
        None,
        "an output node of an expansion waits for the turn"
    );
    machine.finish(1);
    machine.told(1);
    assert_eq!(
        (machine.turn(), machine.startable(false)),
        (Some(0), Some(3))
    );
    machine.start(3);
    machine.finish(3);
    assert_eq!(
        machine.startable(false),
        Some(0),
        "the node is resolved once its expansion is done"
    );
    machine.start(0);
    machine.finish(0);
    machine.told(0);
    assert_eq!(machine.turn(), Some(2));
}

#[test]
fn a_node_that_ran_out_of_memory_beside_others_waits_for_its_turn() {
    let mut machine = machine(vec![node(&[]), node(&[]), output(&[0, 1])]);
    assert_eq!(machine.turn(), Some(1));
    machine.start(1);
    machine.start(0);
    machine.again_in_turn(0);
    assert_eq!(machine.startable(true), None);
    machine.finish(1);
    machine.told(1);
    assert_eq!(
        (machine.turn(), machine.startable(true)),
        (Some(0), Some(0))
    );
}

#[test]
fn fifty_thousand_nodes_in_one_chain_are_no_matter() {
    let chain = (0..50_000usize).map(|at| Links {
        strong: at.checked_sub(1).into_iter().collect(),
        output: at == 49_999,
        ..Links::default()
    });
    assert_eq!(told(machine(chain.collect())).len(), 50_000);
}

#[test]
fn a_cycle_stops_instead_of_running() {
    let mut machine = machine(vec![node(&[1]), node(&[0]), output(&[0])]);
    assert_eq!((machine.turn(), machine.startable(true)), (None, None));
    assert!(!machine.is_over());
}
