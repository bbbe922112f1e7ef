//! The commands, by what they are about.

pub(crate) mod assets;
pub(crate) mod deployments;
pub(crate) mod doctor;
pub(crate) mod jobs;
pub(crate) mod login;
pub(crate) mod models;
pub(crate) mod operate;
pub(crate) mod reference;
pub(crate) mod results;
pub(crate) mod run;
pub(crate) mod webhooks;
pub(crate) mod workers;
