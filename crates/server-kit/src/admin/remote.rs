//! Commands over HTTP: each request as the call of the admin API that it is.

mod webhooks;

use std::path::Path;
use std::time::Duration;

use admin_http::BASE;
use admin_http::wire::{Answer, ErrorEnvelope, Problem, ProblemKind, Reply, Request, WorkerChange};
use clap::{Arg, ArgMatches};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, StatusCode, Uri};
use hyper_kit::{
    AddressPolicy, Body, Client, ClientConfig, Host, ReadPace, error_chain, read_limited,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::flags::flag;
use super::{deployments, models};
use crate::program::Failure;

/// The variable with the key that commands present.
pub(super) const KEY_VARIABLE: &str = "EASEL_ADMIN_KEY";

/// Most bytes of an answer: a page of accounts with as many patterns as there may be.
const MOST_BYTES: usize = 64 << 20;

/// How long a server may take for one answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server that is asked over HTTP.
pub(super) struct Remote {
    client: Client,
    base: String,
    bearer: HeaderValue,
}

/// One call of the admin API.
struct Call {
    method: Method,
    path: String,
    body: Option<Value>,
}

/// The flags of commands that can ask a server.
pub(super) fn flags() -> [Arg; 3] {
    let server = flag(
        "server",
        "URL",
        "Asks the server there over HTTP, with the key in EASEL_ADMIN_KEY or the file of --admin-key-file",
    );
    let key = flag(
        "admin-key-file",
        "FILE",
        "File with an API key or a JSON Web Token that has the scope admin, for --server",
    );
    let authority = flag(
        "server-ca",
        "FILE",
        "Certificate authorities in PEM form to trust for --server, in addition to the public ones",
    );
    [server, key.requires("server"), authority.requires("server")].map(|flag| flag.global(true))
}

impl Remote {
    /// The server that the flags name, if they name one.
    ///
    /// # Errors
    /// With exit code 2 if the flags, the variable or the files are not as they must be.
    pub(super) fn of(arguments: &ArgMatches) -> Result<Option<Self>, Failure> {
        let text = |name: &str| arguments.get_one::<String>(name).map(String::as_str);
        let Some(server) = text("server") else {
            return Ok(None);
        };
        let key = key(text("admin-key-file"))?;
        let authorities = text("server-ca").map(read_file).transpose()?;
        Self::new(server, &key, authorities).map(Some)
    }

    fn new(server: &str, key: &SecretString, ca: Option<String>) -> Result<Self, Failure> {
        let wrong = |what: &str| {
            usage(format!(
                "--server cannot be \"{server}\": {what}; write an address such as https://easel.example"
            ))
        };
        let uri: Uri = server.parse().map_err(|_| wrong("it is no address"))?;
        let host = uri.authority().and_then(|host| Host::parse(host.as_str()));
        let host = host.ok_or_else(|| wrong("it names no host"))?;
        if uri.query().is_some() {
            return Err(wrong("it has a query"));
        }
        match uri.scheme_str() {
            Some("https") => {}
            Some("http") if host.is_loopback() => {}
            Some("http") => {
                return Err(wrong(
                    "plain http does not encrypt the key, and is allowed for this machine alone",
                ));
            }
            Some(_) | None => return Err(wrong("it begins with neither https:// nor http://")),
        }
        let config = ClientConfig {
            policy: AddressPolicy {
                https_only: false,
                // The operator names it, wherever it is.
                allow_private: vec![host],
            },
            extra_ca_pem: ca.map(String::into_bytes),
            user_agent: concat!("easel/", env!("CARGO_PKG_VERSION")).parse().ok(),
            ..ClientConfig::default()
        };
        let bearer = HeaderValue::from_str(&format!("Bearer {}", key.expose_secret()));
        let mut bearer = bearer.map_err(|_| usage("the key has characters that no key has"))?;
        bearer.set_sensitive(true);
        Ok(Self {
            client: Client::new(config)
                .map_err(|_| usage("the file of --server-ca has no certificate in PEM form"))?,
            base: format!("{}{BASE}", server.trim_end_matches('/')),
            bearer,
        })
    }

    /// Asks.
    ///
    /// # Errors
    /// If the server cannot be reached, or what answers is none.
    pub(super) async fn ask(&self, request: &Request) -> Result<Reply, Failure> {
        let asked = tokio::time::timeout(PATIENCE, self.exchange(Call::of(request)));
        let late = |_| self.unreachable("it did not answer within 30 s");
        let (status, bytes) = asked.await.map_err(late)??;
        if !status.is_success() {
            let problem = refused(status, &bytes);
            return problem.map(Reply::Refused).ok_or_else(|| {
                self.unreachable(&format!(
                    "it answered {status}: it is another program, or an older version of this one"
                ))
            });
        }
        let answer = read(request, &bytes);
        let answer = answer.map_err(|error| self.unreachable(&error_chain(&error)))?;
        Ok(Reply::Done(answer))
    }

    async fn exchange(&self, call: Call) -> Result<(StatusCode, Vec<u8>), Failure> {
        let mut request = http::Request::builder()
            .method(call.method)
            .uri(format!("{}{}", self.base, call.path))
            .header(AUTHORIZATION, self.bearer.clone());
        let body = match call.body {
            None => Body::empty(),
            Some(body) => {
                request = request.header(CONTENT_TYPE, "application/json");
                Body::full(body.to_string())
            }
        };
        let request = request.body(body);
        let request = request.map_err(|error| self.unreachable(&error_chain(&error)))?;
        let answered = self.client.send(request).await;
        let response = answered.map_err(|error| self.unreachable(&error_chain(&error)))?;
        let status = response.status();
        let body = read_limited(response.into_body(), MOST_BYTES, ReadPace::default()).await;
        let bytes = body.map_err(|error| self.unreachable(&error_chain(&error)))?;
        Ok((status, bytes.to_vec()))
    }

    fn unreachable(&self, why: &str) -> Failure {
        Failure {
            exit_code: 1,
            message: format!(
                "the server at {} could not be asked: {why}; the command may have been carried out",
                self.base
            ),
        }
    }
}

impl Call {
    fn of(request: &Request) -> Self {
        let id = |id: &str| utf8_percent_encode(id, NON_ALPHANUMERIC).to_string();
        let account = |account: &str, below: &str| format!("/accounts/{}{below}", id(account));
        let page = |cursor: Option<String>, limit: Option<u32>| {
            let cursor = cursor.map(|cursor| format!("cursor={}", id(&cursor)));
            let limit = limit.map(|limit| format!("limit={limit}"));
            let parts: Vec<String> = cursor.into_iter().chain(limit).collect();
            match parts.is_empty() {
                true => String::new(),
                false => format!("?{}", parts.join("&")),
            }
        };
        let object = |changes: &[(String, String)]| {
            let fields = changes
                .iter()
                .map(|(name, text)| (name.clone(), Value::from(text.as_str())));
            Map::from_iter(fields)
        };
        let (method, path, body) = match request {
            Request::AddAccount { id, changes } => {
                let mut body = object(changes);
                body.insert("id".to_owned(), id.as_str().into());
                (Method::POST, "/accounts".to_owned(), Some(body.into()))
            }
            Request::ChangeAccount { id, changes } => {
                let body = Value::Object(object(changes));
                (Method::PATCH, account(id, ""), Some(body))
            }
            Request::Accounts { after, limit } => {
                let page = page(after.clone(), *limit);
                (Method::GET, format!("/accounts{page}"), None)
            }
            Request::Account { id } => (Method::GET, account(id, ""), None),
            Request::Grant {
                account: whose,
                reference,
                cents,
            } => {
                let body = json!({ "reference": reference, "amount_cents": cents });
                (Method::POST, account(whose, "/credits"), Some(body))
            }
            Request::Entries {
                account: whose,
                before,
                limit,
            } => {
                let page = page(before.map(|before| before.to_string()), *limit);
                (Method::GET, account(whose, "/credits") + &page, None)
            }
            Request::AddKey {
                account: whose,
                id,
                hash,
                name,
                scopes,
                expires_in_s,
            } => {
                let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
                let body = json!({
                    "id": id,
                    "hash": hash,
                    "name": name,
                    "scopes": scopes,
                    "expires_in_s": expires_in_s,
                });
                (Method::POST, account(whose, "/keys"), Some(body))
            }
            Request::Keys {
                account: whose,
                after,
                limit,
            } => {
                let page = page(after.clone(), *limit);
                (Method::GET, account(whose, "/keys") + &page, None)
            }
            Request::RevokeKey { id: key } => {
                (Method::POST, format!("/keys/{}/revoke", id(key)), None)
            }
            Request::Asset { id: asset } => (Method::GET, format!("/assets/{}", id(asset)), None),
            Request::HoldAsset { id: asset, held } => {
                let method = if *held { Method::PUT } else { Method::DELETE };
                (method, format!("/assets/{}/hold", id(asset)), None)
            }
            Request::ConfirmSweeps => (Method::POST, "/sweeps/confirm".to_owned(), None),
            Request::Catalog => (Method::GET, "/catalog".to_owned(), None),
            Request::ReloadCatalog => (Method::POST, "/catalog/reload".to_owned(), None),
            Request::Workers { after, limit } => {
                let page = page(after.clone(), *limit);
                (Method::GET, format!("/workers{page}"), None)
            }
            Request::ExplainJob {
                id: job,
                account: whose,
            } => {
                let whose = whose
                    .as_ref()
                    .map(|whose| format!("?account={}", id(whose)));
                let path = format!("/jobs/{}{}", id(job), whose.unwrap_or_default());
                (Method::GET, path, None)
            }
            Request::ChangeWorker(change) => of_worker(change),
            Request::Deployment(request) => deployments::call(request, id, page),
            Request::Model(request) => models::call(request, id, page),
            Request::Settings => (Method::GET, "/settings".to_owned(), None),
            Request::Webhook(request) => webhooks::call(request, id, page),
        };
        Self { method, path, body }
    }
}

/// The call that changes a worker.
fn of_worker(change: &WorkerChange) -> (Method, String, Option<Value>) {
    let (path, body) = match change {
        WorkerChange::Add { name, url } => ("/workers", json!({ "name": name, "url": url })),
        WorkerChange::Drain {
            name,
            draining: true,
        } => ("/workers/drain", json!({ "name": name })),
        WorkerChange::Drain {
            name,
            draining: false,
        } => ("/workers/resume", json!({ "name": name })),
        WorkerChange::Remove { name } => ("/workers/remove", json!({ "name": name })),
    };
    (Method::POST, path.to_owned(), Some(body))
}

/// What a request was answered.
fn read(request: &Request, bytes: &[u8]) -> Result<Answer, serde_json::Error> {
    fn of<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
    match request {
        Request::AddAccount { .. } | Request::ChangeAccount { .. } | Request::Account { .. } => {
            of(bytes).map(Answer::Account)
        }
        Request::Accounts { .. } => of(bytes).map(Answer::Accounts),
        Request::Grant { .. } => of(bytes).map(Answer::Credits),
        Request::Entries { .. } => of(bytes).map(Answer::Entries),
        Request::AddKey { .. } | Request::RevokeKey { .. } => of(bytes).map(Answer::Key),
        Request::Keys { .. } => of(bytes).map(Answer::Keys),
        Request::HoldAsset { .. } | Request::ConfirmSweeps | Request::ChangeWorker(_) => {
            Ok(Answer::Done)
        }
        Request::Asset { .. } => of(bytes).map(Answer::Asset),
        Request::Catalog | Request::ReloadCatalog => of(bytes).map(Answer::Catalog),
        Request::Workers { .. } => of(bytes).map(Answer::Workers),
        Request::Deployment(request) => deployments::answer(request, bytes).map(Answer::Deployment),
        Request::Model(request) => models::answer(request, bytes).map(Answer::Model),
        Request::ExplainJob { .. } => of(bytes).map(Answer::Job),
        Request::Webhook(request) => webhooks::read(request, bytes),
        Request::Settings => of(bytes).map(Answer::Settings),
    }
}

/// Why a server refused; `None` if that is no answer of this API.
fn refused(status: StatusCode, bytes: &[u8]) -> Option<Problem> {
    let error = serde_json::from_slice::<ErrorEnvelope>(bytes).ok()?.error;
    let kind = match status {
        // The command can be corrected: it takes another key.
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ProblemKind::Invalid,
        _ => ProblemKind::of_code(&error.code),
    };
    let faults = error.details.as_ref().map(|details| &details["faults"]);
    let faults = faults.and_then(Value::as_array).into_iter().flatten();
    Some(Problem {
        kind,
        message: error.message,
        faults: faults
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
    })
}

/// The key that is presented: that of the file, or else that of the variable.
fn key(file: Option<&str>) -> Result<SecretString, Failure> {
    let text = match file {
        Some(path) => read_file(path)?,
        None => std::env::var(KEY_VARIABLE).unwrap_or_default(),
    };
    let key = text.trim();
    if key.is_empty() {
        let message = format!(
            "--server needs a key with the scope admin: put it into the variable {KEY_VARIABLE} or a file for --admin-key-file"
        );
        return Err(usage(message));
    }
    Ok(key.into())
}

fn read_file(path: &str) -> Result<String, Failure> {
    std::fs::read_to_string(Path::new(path))
        .map_err(|error| usage(format!("the file {path} cannot be read: {error}")))
}

fn usage(message: impl Into<String>) -> Failure {
    Failure {
        exit_code: 2,
        message: message.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_travels_in_the_clear_on_this_machine_alone() {
        let key = SecretString::from("easel_k");
        let remote = |server: &str| Remote::new(server, &key, None).map(|remote| remote.base);
        for (server, base) in [
            (
                "http://127.0.0.1:8189",
                "http://127.0.0.1:8189/api/v2/admin",
            ),
            ("http://localhost:1/x/", "http://localhost:1/x/api/v2/admin"),
            (
                "https://easel.example",
                "https://easel.example/api/v2/admin",
            ),
        ] {
            assert_eq!(remote(server).expect("it is right"), base);
        }
        for server in [
            "",
            "easel.example",
            "http://easel.example",
            "http://10.0.0.1",
            "ftp://localhost",
            "https://easel.example/?x",
        ] {
            let refused = remote(server).expect_err(server);
            assert_eq!(refused.exit_code, 2, "{}", refused.message);
        }
    }

    #[test]
    fn ids_cannot_lead_to_another_path() {
        let id = "a/../b?c".to_owned();
        let call = Call::of(&Request::Account { id });
        assert_eq!(call.path, "/accounts/a%2F%2E%2E%2Fb%3Fc");
    }
}
