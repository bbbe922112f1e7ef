//! The bookkeeping of one run, as a value machine: what may run, and what may be told.
//!
//! Nodes run as soon as what they read is done, several at once; they are *told* of one after the other, as if the run were
//! sequential. The order of telling is the recorded server's pick (execution contract 2.2): among nodes whose sources were
//! told, output nodes first, then what feeds one, then what feeds that, then the rest, each in the order in which they were
//! demanded. Running never changes that order, so names, counters and the failing node come out the same every time.

use std::collections::BTreeSet;

/// How a node hangs together with others; nodes are numbered.
#[derive(Clone, Debug, Default)]
pub(super) struct Links {
    /// Nodes it cannot run without.
    pub(super) strong: Vec<usize>,
    /// Whether it is an output node: it runs only in its turn.
    pub(super) output: bool,
    /// Whether its result is there already.
    pub(super) known: bool,
    /// The node in whose place it stands, and whose turn is its turn.
    pub(super) root: Option<usize>,
}

/// The run so far.
#[derive(Debug, Default)]
pub(super) struct Machine {
    nodes: Vec<Node>,
    demanded: u32,
    /// Ready to run, output nodes apart.
    ready: BTreeSet<Rank>,
    /// Sources told, itself not.
    tellable: BTreeSet<Rank>,
    turn: Option<usize>,
    /// Whether a node was ever expanded.
    expanded: bool,
    /// Demanded and not told yet, nodes of expansions apart.
    untold: usize,
}

#[derive(Debug)]
struct Node {
    links: Links,
    hops: u8,
    demanded: Option<u32>,
    state: State,
    told: bool,
    /// Sources that are not done, and sources that are not told.
    waits_done: u32,
    waits_told: u32,
    consumers: Vec<usize>,
    /// Output nodes of its expansion that wait for its turn.
    held: Vec<usize>,
}

/// By distance from an output, then by when it was demanded.
type Rank = (u8, u32, usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Ready,
    Running,
    Done,
}

impl Machine {
    /// A run in which nothing is demanded yet.
    pub(super) fn new(links: Vec<Links>) -> Self {
        let mut machine = Self::default();
        machine.add(links);
        machine
    }

    /// Adds nodes that are not demanded yet.
    pub(super) fn add(&mut self, links: Vec<Links>) {
        let first = self.nodes.len();
        self.nodes.extend(links.into_iter().map(Node::new));
        // Two rounds over the links, because the pick looks no further than two hops.
        for hops in 0..2 {
            for node in first..self.nodes.len() {
                if self.nodes[node].hops != hops {
                    continue;
                }
                for at in 0..self.nodes[node].links.strong.len() {
                    let source = self.nodes[node].links.strong[at];
                    self.nodes[source].hops = self.nodes[source].hops.min(hops + 1);
                }
            }
        }
    }

    /// Demands a node and, through strong links, all it needs; the last source of a node comes first.
    pub(super) fn demand(&mut self, node: usize) {
        let mut stack = vec![node];
        while let Some(node) = stack.pop() {
            if self.nodes[node].demanded.is_some() {
                continue;
            }
            self.nodes[node].demanded = Some(self.demanded);
            self.demanded += 1;
            if self.nodes[node].links.root.is_none() {
                self.untold += 1;
            }
            if self.nodes[node].links.known {
                self.nodes[node].state = State::Done;
            } else {
                for at in 0..self.nodes[node].links.strong.len() {
                    let source = self.nodes[node].links.strong[at];
                    self.wait_for(node, source);
                    if self.nodes[source].demanded.is_none() && !self.is_known_source(source) {
                        stack.push(source);
                    }
                }
            }
            self.look_at(node);
        }
    }

    /// The node to run next, if one may: what has its turn, otherwise, if `ahead`, what was demanded to come soonest.
    pub(super) fn startable(&self, ahead: bool) -> Option<usize> {
        let turn = self
            .turn
            .filter(|&turn| self.nodes[turn].state == State::Ready);
        let in_its_place = || {
            let ready = self
                .ready
                .iter()
                .map(|&(.., node)| node)
                .filter(|_| self.expanded);
            ready.into_iter().find(|&node| {
                self.nodes[node].links.root.is_some() && self.nodes[node].links.root == self.turn
            })
        };
        let soonest = || self.ready.first().map(|&(.., node)| node).filter(|_| ahead);
        turn.or_else(in_its_place).or_else(soonest)
    }

    /// The node in turn, if it runs.
    pub(super) fn running_in_turn(&self) -> Option<usize> {
        self.turn
            .filter(|&turn| self.nodes[turn].state == State::Running)
    }

    /// Whether a node besides this one could run now.
    pub(super) fn is_other_ready(&self, node: usize) -> bool {
        self.ready.iter().any(|&(.., ready)| ready != node)
    }

    /// The node runs.
    pub(super) fn start(&mut self, node: usize) {
        self.ready.remove(&self.rank(node));
        self.nodes[node].state = State::Running;
    }

    /// The node is to run again from the start.
    pub(super) fn again(&mut self, node: usize) {
        self.nodes[node].state = State::Waiting;
        self.look_at(node);
    }

    /// The node is to run again from the start, and only in its turn.
    pub(super) fn again_in_turn(&mut self, node: usize) {
        self.nodes[node].links.output = true;
        self.again(node);
    }

    /// The node cannot go on before these are done; they are demanded. It gives its turn back until they are told.
    pub(super) fn needs(&mut self, node: usize, sources: &[usize]) {
        self.nodes[node].state = State::Waiting;
        for &source in sources {
            self.nodes[node].links.strong.push(source);
            self.wait_for(node, source);
            if !self.is_known_source(source) {
                self.demand(source);
            }
        }
        if self.nodes[node].waits_told > 0 {
            self.tellable.remove(&self.rank(node));
            self.turn = self.turn.filter(|&turn| turn != node);
        }
        self.look_at(node);
    }

    /// The node waits for these nodes of its expansion, which were added before; they are demanded.
    pub(super) fn expand(&mut self, node: usize, goals: &[usize]) {
        self.expanded = true;
        self.nodes[node].state = State::Waiting;
        for &goal in goals {
            self.wait_for(node, goal);
            self.demand(goal);
        }
        self.look_at(node);
    }

    /// The node has its result.
    pub(super) fn finish(&mut self, node: usize) {
        self.nodes[node].state = State::Done;
        for at in 0..self.nodes[node].consumers.len() {
            let consumer = self.nodes[node].consumers[at];
            self.nodes[consumer].waits_done -= 1;
            self.look_at(consumer);
        }
    }

    /// The node that is to be told of now.
    pub(super) fn turn(&mut self) -> Option<usize> {
        if self.turn.is_none() {
            let (.., node) = self.tellable.pop_first()?;
            self.turn = Some(node);
            for held in std::mem::take(&mut self.nodes[node].held) {
                self.look_at(held);
            }
        }
        self.turn
    }

    /// Everything about the node was told; the next one has its turn.
    pub(super) fn told(&mut self, node: usize) {
        self.turn = None;
        self.nodes[node].told = true;
        self.untold -= 1;
        for at in 0..self.nodes[node].consumers.len() {
            let consumer = self.nodes[node].consumers[at];
            self.nodes[consumer].waits_told -= 1;
            self.look_at(consumer);
        }
    }

    /// Whether the node has its result.
    pub(super) fn is_done(&self, node: usize) -> bool {
        self.nodes[node].state == State::Done
    }

    /// Whether everything demanded was told.
    pub(super) fn is_over(&self) -> bool {
        self.untold == 0
    }

    /// A node whose result was there before the run, and which nobody demanded for its own sake, is never told of.
    fn is_known_source(&self, source: usize) -> bool {
        self.nodes[source].links.known
    }

    fn wait_for(&mut self, node: usize, source: usize) {
        let waits_told =
            self.nodes[node].links.root.is_none() && self.nodes[source].links.root.is_none();
        let (done, told) = match &self.nodes[source] {
            Node {
                links: Links { known: true, .. },
                demanded: None,
                ..
            } => (true, true),
            source => (source.state == State::Done, source.told || !waits_told),
        };
        if done && told {
            return;
        }
        self.nodes[source].consumers.push(node);
        self.nodes[node].waits_done += u32::from(!done);
        self.nodes[node].waits_told += u32::from(!told);
    }

    fn look_at(&mut self, node: usize) {
        let rank = self.rank(node);
        let entry = &mut self.nodes[node];
        if entry.demanded.is_none() {
            return;
        }
        if entry.state == State::Waiting && entry.waits_done == 0 {
            entry.state = State::Ready;
        }
        if entry.links.root.is_none()
            && entry.waits_told == 0
            && !entry.told
            && self.turn != Some(node)
        {
            self.tellable.insert(rank);
        }
        let entry = &self.nodes[node];
        if entry.state != State::Ready {
            return;
        }
        match (entry.links.output, entry.links.root) {
            (true, None) => {}
            (true, Some(root)) if self.turn != Some(root) => self.nodes[root].held.push(node),
            (true, Some(_)) | (false, _) => {
                self.ready.insert(rank);
            }
        }
    }

    fn rank(&self, node: usize) -> Rank {
        let entry = &self.nodes[node];
        (entry.hops, entry.demanded.unwrap_or(u32::MAX), node)
    }
}

impl Node {
    fn new(links: Links) -> Self {
        let hops = match (links.output, links.root) {
            (true, None) => 0,
            (false, _) => 3,
            // Outputs of an expansion come after everything else in it, so that their order depends on nothing but the graph.
            (true, Some(_)) => 4,
        };
        Self {
            links,
            hops,
            demanded: None,
            state: State::Waiting,
            told: false,
            waits_done: 0,
            waits_told: 0,
            consumers: Vec::new(),
            held: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
