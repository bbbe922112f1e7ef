//! What stands in front of every family.

mod hosts;
