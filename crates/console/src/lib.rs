//! The web console: static files that are part of the program, served beside the APIs that they call.
//!
//! [`Console`] answers for the files, [`Reference`] for the pages of the APIs' documents, [`WithConsole`] puts both in front of an application. The files hold no data and need no
//! credential; everything that they show comes from the public APIs of the same server, with the credential of the person who
//! looks.
//!
#![doc = include_str!("../README.md")]

mod files;
mod reference;
mod serve;
mod with_console;

pub use reference::Reference;
pub use serve::{Console, Families};
pub use with_console::WithConsole;
