//! hyper-kit.
