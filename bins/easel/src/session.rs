//! From the command line, the environment and the credentials to a client of one server.

use client::{BaseUrl, Client, ClientConfig};
use secrecy::SecretString;

use crate::arguments::Shared;
use crate::credentials::Credentials;
use crate::failure::Failure;

/// The server when nobody names one: where `all-in-one` listens by default.
const DEFAULT_SERVER: &str = "http://127.0.0.1:8189";

/// The variable that names the server.
pub(crate) const SERVER_VARIABLE: &str = "EASEL_SERVER";

/// The variable that holds the key.
pub(crate) const KEY_VARIABLE: &str = "EASEL_API_KEY";

/// Which server is meant, and why.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) server: BaseUrl,
    /// Who chose it, for people.
    pub(crate) by: &'static str,
}

/// The server in force: the flag, the variable, the one signed in to last, or the default.
pub(crate) fn server(shared: &Shared, credentials: &Credentials) -> Result<Chosen, Failure> {
    let read = |text: &str, by: &'static str| {
        let server = text.parse::<BaseUrl>();
        let server = server.map_err(|error| Failure::usage(format!("{by}: {error}")))?;
        Ok(Chosen { server, by })
    };
    if let Some(server) = &shared.server {
        return Ok(Chosen {
            server: server.clone(),
            by: "--server",
        });
    }
    if let Some(text) = variable(SERVER_VARIABLE)? {
        return read(&text, SERVER_VARIABLE);
    }
    match &credentials.current {
        Some(current) => read(current, "easel login"),
        None => read(DEFAULT_SERVER, "the default"),
    }
}

/// A client of the server in force.
pub(crate) fn open(shared: &Shared) -> Result<Client, Failure> {
    let credentials = Credentials::load()?;
    let server = server(shared, &credentials)?.server;
    let key = match key_of_environment()? {
        Some(key) => Some(key),
        None => credentials.key(server.as_str()),
    };
    client(shared, server, key)
}

/// A client of this server with this key.
pub(crate) fn client(
    shared: &Shared,
    server: BaseUrl,
    credential: Option<SecretString>,
) -> Result<Client, Failure> {
    let extra_ca_pem = match &shared.ca_file {
        None => None,
        Some(path) => Some(std::fs::read(path).map_err(|error| {
            Failure::usage(format!("--ca-file {}: {error}", path.display()))
                .hint("name a PEM file with the certificate of the authority")
        })?),
    };
    let config = ClientConfig {
        server,
        credential,
        extra_ca_pem,
        user_agent: concat!("easel/", env!("CARGO_PKG_VERSION")).to_owned(),
    };
    Ok(Client::new(config)?)
}

/// The key in the environment.
pub(crate) fn key_of_environment() -> Result<Option<SecretString>, Failure> {
    Ok(variable(KEY_VARIABLE)?.map(SecretString::from))
}

/// A variable that is set and not empty.
fn variable(name: &str) -> Result<Option<String>, Failure> {
    match std::env::var(name) {
        Ok(text) => Ok(Some(text).filter(|text| !text.trim().is_empty())),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => Err(Failure::usage(format!(
            "the variable {name} is no text; set it again"
        ))),
    }
}
