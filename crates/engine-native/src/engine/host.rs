//! The run as one call sees it: where its reports, files and reservations go.

use std::sync::{Arc, mpsc as std_mpsc};

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use workflow_core::NodeId;

use super::announce::{Announcer, Report};
use super::call::Outcome;
use super::memory::{Budget, Reservation};
use crate::node::Host;
use crate::{NodeError, OutputFile};

/// What all calls of a run share.
pub(super) struct Shared {
    pub(super) announcer: Announcer,
    pub(super) budget: Arc<Budget>,
    pub(super) cancel: CancellationToken,
}

/// What an output node hands over, in order.
pub(super) enum Delivery {
    File(OutputFile),
    /// A picture, and where to say that it was taken.
    Frame(Bytes, std_mpsc::Sender<()>),
    Over(Outcome),
}

/// Where an output node hands over what it makes.
pub(super) struct Deliveries {
    pub(super) node: usize,
    pub(super) sender: mpsc::UnboundedSender<(usize, Delivery)>,
    /// Takes a token for each picture, as soon as there is room for it.
    pub(super) has_room: std_mpsc::SyncSender<()>,
}

/// One call's host.
pub(super) struct CallHost {
    pub(super) shared: Arc<Shared>,
    /// Whose turn is its turn, and how that one is called.
    pub(super) root: usize,
    pub(super) node: NodeId,
    /// A node of an expansion: its steps are no steps of the node that people see.
    pub(super) is_inner: bool,
    /// Where files go, if the class may emit any.
    pub(super) deliveries: Option<Deliveries>,
    pub(super) reservation: Arc<Reservation>,
}

impl CallHost {
    fn deliver(&self, delivery: Delivery) -> Result<(), NodeError> {
        let Some(deliveries) = &self.deliveries else {
            let message = "only a class that is defined as an output node may emit files";
            return Err(NodeError::new("RuntimeError", message));
        };
        // The other side goes away only when the run is over.
        deliveries
            .has_room
            .send(())
            .map_err(|_| NodeError::Canceled)?;
        deliveries
            .sender
            .send((deliveries.node, delivery))
            .map_err(|_| NodeError::Canceled)
    }
}

impl Host for CallHost {
    fn check(&self) -> Result<(), NodeError> {
        if self.shared.cancel.is_cancelled() || self.shared.announcer.is_closed() {
            return Err(NodeError::Canceled);
        }
        Ok(())
    }

    fn step(&self, step: u32, steps: u32) {
        if !self.is_inner {
            self.shared
                .announcer
                .report(self.root, &self.node, Report::Step { step, steps });
        }
    }

    fn wants_preview(&self) -> bool {
        self.shared.announcer.wants_preview(self.root)
    }

    fn preview(&self, jpeg: Bytes) {
        self.shared.announcer.preview(self.root, &self.node, jpeg);
    }

    fn text(&self, line: &str) {
        self.shared
            .announcer
            .report(self.root, &self.node, Report::Text(line.to_owned()));
    }

    fn emit(&self, file: OutputFile) -> Result<(), NodeError> {
        self.deliver(Delivery::File(file))
    }

    fn frame(&self, png: Bytes) -> Result<(), NodeError> {
        let (taken, is_taken) = std_mpsc::channel();
        self.deliver(Delivery::Frame(png, taken))?;
        // What the node reports next must not overtake the picture.
        is_taken.recv().map_err(|_| NodeError::Canceled)
    }

    fn reserve(&self, bytes: u64) -> Result<(), NodeError> {
        self.reservation.add(bytes)
    }

    fn free_bytes(&self) -> u64 {
        self.shared.budget.free()
    }
}
