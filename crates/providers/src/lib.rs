//! The interpreter of partner definitions: a partner is a file, a model is a file, and nothing of either is Rust.
//!
//! Files say what is sent, how a task is followed, what answers mean and what calls cost (`definition`); an answer is
//! judged from its status and bytes alone (`interpret`); one way out holds the rules about where a credential may go
//! (`talk`). What is forwarded is never touched: bodies travel as the bytes that came, both ways. It knows no route, no
//! account and no store. Start at [`load`], which turns files into models of [`router_core`].
//!
#![doc = include_str!("../README.md")]

mod body_member;
mod builtin;
mod cases;
mod credential;
mod definition;
mod fill;
mod handle;
mod interpret;
mod keys;
mod load;
mod mapping;
mod multipart;
mod provider;
mod talk;
mod trial;

pub use cases::{Case, Cases, Expected};
pub use credential::Environment;
pub use definition::{BaseUrl, Pointer, Step};
pub use keys::{BreakerState, KeyStatus};
pub use load::{
    Builtin, Fault, File, InvalidSwitch, Kind, KindFolder, KindPartner, Loaded, LoadedModel,
    PartnerStatus, Relocation, SWITCHES_FILE, Settings, Source, Switch, Switches, Watch, check,
    load,
};
pub use provider::PartnerModel;
pub use talk::{Exchange, ExchangeRecorder, Heard, Received};
pub use trial::try_model;
