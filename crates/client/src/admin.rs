//! What operators and accounts read and change besides jobs and calls: the admin API, and usage.
//!
//! The answers are handed on as they come: a newer server says more of an account or a webhook than this crate knows.

use bytes::Bytes;
use http::Method;
use serde_json::{Map, Value};

use crate::error::ClientError;
use crate::jobs::segment;
use crate::transport::{Asked, Client, json};

/// Whose things are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// Everything of the installation, by a key with the scope `admin`.
    Installation,
    /// What the account of the key has itself.
    Account,
}

/// Rows of a page.
const ROWS: usize = 200;

/// Most rows of a list that are read.
const MOST_ROWS: usize = 100_000;

/// Which calls are summed up.
#[derive(Clone, Debug, Default)]
pub struct UsageFilter {
    /// By what: `model`, `day`, `key` or `day,key`; the server's choice if nothing is said.
    pub by: Option<String>,
    /// A row for each value of this label of calls too.
    pub label: Option<String>,
    /// From this time on: RFC 3339.
    pub from: Option<String>,
    /// Up to this time, exclusive.
    pub until: Option<String>,
    /// The account; `*` for all, which takes the scope `admin`.
    pub workspace: Option<String>,
}

impl Client {
    /// Asks the admin API for what is at `path`, whose parts are encoded here.
    ///
    /// # Errors
    /// [`ClientError::NotOffered`] if the server has no admin API; if it refuses, or cannot be reached.
    pub async fn admin(&self, path: &[&str]) -> Result<Value, ClientError> {
        self.found_in(Area::Installation, path).await
    }

    /// The same in an area.
    ///
    /// # Errors
    /// As [`Client::admin`].
    pub async fn found_in(&self, area: Area, path: &[&str]) -> Result<Value, ClientError> {
        let found = self.get_json(self.url_in(area, path, "")).await;
        found.map_err(|error| self.without(area, error))
    }

    /// Every row of a list of the admin API: those of its pages' member `rows`, at most `most`.
    ///
    /// # Errors
    /// As [`Client::admin`].
    pub async fn admin_rows(
        &self,
        path: &[&str],
        rows: &str,
        most: usize,
    ) -> Result<Vec<Value>, ClientError> {
        self.rows_in(Area::Installation, path, rows, most).await
    }

    /// The same in an area.
    ///
    /// # Errors
    /// As [`Client::admin`].
    pub async fn rows_in(
        &self,
        area: Area,
        path: &[&str],
        rows: &str,
        most: usize,
    ) -> Result<Vec<Value>, ClientError> {
        let most = most.min(MOST_ROWS);
        let (mut all, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let limit = ROWS.min(most - all.len());
            let mut query = format!("?limit={limit}");
            if let Some(cursor) = &cursor {
                query.push_str(&format!("&cursor={}", segment(cursor)));
            }
            let page = self.get_json(self.url_in(area, path, &query)).await;
            let mut page: Value = page.map_err(|error| self.without(area, error))?;
            let Some(Value::Array(found)) = page.get_mut(rows).map(Value::take) else {
                return Err(ClientError::Unexpected(format!(
                    "the answer of {} has no {rows}",
                    self.server()
                )));
            };
            let is_empty = found.is_empty();
            all.extend(found);
            all.truncate(most);
            let next = page["next_cursor"].as_str().map(str::to_owned);
            // A page that leads to itself, or that is empty, would never end.
            if all.len() >= most || is_empty || next.is_none() || next == cursor {
                return Ok(all);
            }
            cursor = next;
        }
    }

    /// Has the admin API change what is at `path`. The answer is null if there is nothing to say.
    ///
    /// # Errors
    /// As [`Client::admin`]. A request that may have been carried out is not sent again.
    pub async fn admin_change(
        &self,
        method: Method,
        path: &[&str],
        body: Option<&Map<String, Value>>,
    ) -> Result<Value, ClientError> {
        self.change_in(Area::Installation, method, path, body).await
    }

    /// The same in an area.
    ///
    /// # Errors
    /// As [`Client::admin_change`].
    pub async fn change_in(
        &self,
        area: Area,
        method: Method,
        path: &[&str],
        body: Option<&Map<String, Value>>,
    ) -> Result<Value, ClientError> {
        let url = self.url_in(area, path, "");
        let repeatable = method == Method::PATCH || method == Method::PUT;
        let asked = match body {
            None => Asked::of(method, url),
            Some(body) => {
                let text = Value::Object(body.clone()).to_string();
                Asked {
                    method,
                    ..Asked::post_json(url, Bytes::from(text))
                }
            }
        };
        let asked = Asked {
            repeatable,
            ..asked
        };
        let answer = self.ask(asked).await;
        let answer = answer.map_err(|error| self.without(area, error))?;
        match answer.status().as_u16() {
            204 => Ok(Value::Null),
            _ => json(answer).await,
        }
    }

    /// What calls of models used: one row for each model or day, with calls, results and cents.
    ///
    /// # Errors
    /// [`ClientError::NotOffered`] if the server gives no usage; if it refuses, or cannot be reached.
    pub async fn usage(&self, filter: &UsageFilter) -> Result<Value, ClientError> {
        let parameters = [
            ("by", &filter.by),
            ("label", &filter.label),
            ("from", &filter.from),
            ("until", &filter.until),
            ("workspace", &filter.workspace),
        ];
        let given = parameters.iter().filter_map(|(name, value)| {
            let value = value.as_deref()?;
            Some(format!("{name}={}", segment(value)))
        });
        let query = given.collect::<Vec<_>>().join("&");
        let url = self.server().join(&format!("/v1/usage?{query}"));
        let found = self.get_json(url).await;
        found.map_err(|error| match error.is_status(404) {
            true => self.not_offered("gives no usage of models"),
            false => error,
        })
    }

    fn url_in(&self, area: Area, path: &[&str], query: &str) -> String {
        let base = match area {
            Area::Installation => "/api/v2/admin",
            Area::Account => "/api/v2",
        };
        let parts = path.iter().map(|part| format!("/{}", segment(part)));
        let path: String = parts.collect();
        self.server().join(&format!("{base}{path}{query}"))
    }

    /// A path that is not there says that the API is missing, unless the server says that the thing is.
    fn without(&self, area: Area, error: ClientError) -> ClientError {
        match error.refusal() {
            Some(refusal) if refusal.status == 404 && !refusal.is_of_contract => {
                self.not_offered(match area {
                    Area::Installation => "has no admin API",
                    Area::Account => "lets accounts manage nothing of that kind",
                })
            }
            Some(_) | None => error,
        }
    }

    fn not_offered(&self, what: &str) -> ClientError {
        ClientError::NotOffered(format!(
            "{} {what}; name a server that does with --server",
            self.server()
        ))
    }
}
