//! `login` and `logout`.

use client::{BaseUrl, Client, ClientError, JobFilter};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

use crate::arguments::{Login, Shared};
use crate::credentials::Credentials;
use crate::failure::{Failure, Kind};
use crate::{session, terminal, text};

/// What a server says to a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// It accepts it.
    Granted,
    /// It does not.
    Refused,
    /// It has nothing of the kind.
    NotOffered,
}

impl Access {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Refused => "refused",
            Self::NotOffered => "not_offered",
        }
    }
}

/// Signs in: asks the server first, and remembers only what it accepts.
pub(crate) async fn login(shared: &Shared, login: Login) -> Result<(), Failure> {
    let mut credentials = Credentials::load()?;
    let server = match login.address.clone() {
        Some(address) => address,
        None => session::server(shared, &credentials)?.server,
    };
    let key = key(&login, &server)?;
    let client = session::client(shared, server.clone(), key.clone())?;
    let workflows = workflows(&client).await?;
    let router = router(&client).await?;
    if workflows == Access::Refused || (workflows, router) == (Access::NotOffered, Access::Refused)
    {
        let what = if key.is_some() {
            "does not accept this key"
        } else {
            "needs a key"
        };
        return Err(Failure::new(Kind::Unauthorized, format!("{server} {what}"))
            .hint("ask its operator for a key; nothing was changed"));
    }
    if (workflows, router) == (Access::NotOffered, Access::NotOffered) {
        return Err(Failure::new(
            Kind::NotOffered,
            format!("{server} offers neither workflows nor models"),
        )
        .hint("check the address"));
    }
    let has_key = key.is_some();
    if has_key && !server.is_https() && !server.is_loopback() {
        terminal::say(&format!(
            "easel: {server} is not encrypted; everybody on the way can read the key"
        ));
    }
    credentials.sign_in(server.as_str(), key);
    credentials.save()?;
    if shared.json {
        return terminal::print(&text::json(&json!({
            "server": server.as_str(),
            "has_key": has_key,
            "workflows": workflows.name(),
            "models": router.name(),
        })));
    }
    let mut told = format!("signed in to {server}\n");
    if workflows == Access::NotOffered {
        told.push_str("it runs no workflows; `easel models` lists what it offers\n");
    }
    if router == Access::Refused {
        told.push_str("partner models need a key: sign in again with one to call them\n");
    }
    terminal::print(&told)
}

/// Forgets a server.
pub(crate) fn logout(shared: &Shared, server: Option<BaseUrl>) -> Result<(), Failure> {
    let mut credentials = Credentials::load()?;
    let server = match server {
        Some(server) => server,
        None => session::server(shared, &credentials)?.server,
    };
    if !credentials.sign_out(server.as_str()) {
        let known: Vec<&str> = credentials.servers().collect();
        let known = match &known[..] {
            [] => "no server is known".to_owned(),
            several => format!("known are {}", several.join(", ")),
        };
        return Err(Failure::new(
            Kind::NotFound,
            format!("you are not signed in to {server}; {known}"),
        ));
    }
    credentials.save()?;
    if shared.json {
        return terminal::print(&text::json(&json!({ "server": server.as_str() })));
    }
    terminal::print(&format!("signed out of {server}\n"))
}

/// The key: from standard input, or typed. Without a terminal nothing is asked.
fn key(login: &Login, server: &BaseUrl) -> Result<Option<SecretString>, Failure> {
    if login.no_key {
        return Ok(None);
    }
    let unreadable = |error: std::io::Error| {
        if error.kind() == std::io::ErrorKind::Interrupted {
            Failure::new(Kind::Interrupted, "not signed in; nothing was changed")
        } else {
            Failure::usage(format!("the key cannot be read: {error}"))
        }
    };
    let key =
        if login.key_stdin {
            terminal::read_secret().map_err(unreadable)?
        } else {
            let question = format!("API key for {server} (empty for none): ");
            match terminal::ask_secret(&question) {
                Some(typed) => typed.map_err(unreadable)?,
                None => {
                    return Err(Failure::usage("there is no terminal to ask for a key").hint(format!(
                    "easel login {server} --key-stdin < FILE, or --no-key for an open server"
                )));
                }
            }
        };
    let is_empty = key.expose_secret().is_empty();
    if is_empty && login.key_stdin {
        return Err(Failure::usage("standard input has no key")
            .hint("pipe the key in, or use --no-key for an open server"));
    }
    Ok((!is_empty).then_some(key))
}

/// What the v2 API says to the credential. A key without the scope is a key all the same.
pub(crate) async fn workflows(client: &Client) -> Result<Access, Failure> {
    let filter = JobFilter {
        limit: 1,
        ..JobFilter::default()
    };
    access(client.jobs(&filter).await.map(drop))
}

/// What the router says to the credential.
pub(crate) async fn router(client: &Client) -> Result<Access, Failure> {
    access(client.first_model().await.map(drop))
}

fn access(answer: Result<(), ClientError>) -> Result<Access, Failure> {
    let error = match answer {
        Ok(()) => return Ok(Access::Granted),
        Err(error) => error,
    };
    let status = error.refusal().map(|refusal| refusal.status);
    match (status, &error) {
        (Some(401), _) => Ok(Access::Refused),
        (Some(403), _) => Ok(Access::Granted),
        (Some(404 | 405), _) | (None, ClientError::NotOffered(_) | ClientError::Unexpected(_)) => {
            Ok(Access::NotOffered)
        }
        _ => Err(error.into()),
    }
}
