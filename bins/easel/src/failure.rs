//! How a command fails: a kind with its exit code, a sentence, and what to do next.

use std::path::Path;

use client::{ClientError, Refusal};
use serde_json::{Value, json};

use crate::text::plain;

/// What kind of failure; each has an exit code of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// What was asked for was tried and failed: a job, a call, a file that cannot be written.
    Failed,
    /// The command line, a file or a request is wrong and can be corrected.
    Usage,
    /// The credential is missing, wrong or not allowed to do this.
    Unauthorized,
    /// There is no such job, asset or model.
    NotFound,
    /// A limit, a quota or the credits are used up.
    Limit,
    /// The server cannot be reached, or the connection broke.
    Network,
    /// The server has a fault, or answers something else than the contract says.
    Server,
    /// The server does not offer this.
    NotOffered,
    /// The user interrupted it.
    Interrupted,
}

/// What other files may meet as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The host cannot be reached.
    Host,
    /// The file cannot be written.
    Disk,
}

/// Why a command ends without success.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    pub(crate) message: String,
    /// What to do next, if the message does not say it.
    pub(crate) hint: Option<String>,
    pub(crate) obstacle: Option<Obstacle>,
    refusal: Option<Box<Refusal>>,
}

impl Kind {
    /// The exit code.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Unauthorized => 3,
            Self::NotFound => 4,
            Self::Limit => 5,
            Self::Network => 6,
            Self::Server => 7,
            Self::NotOffered => 8,
            Self::Interrupted => 130,
        }
    }

    /// Its name in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Unauthorized => "unauthorized",
            Self::NotFound => "not_found",
            Self::Limit => "limit",
            Self::Network => "network",
            Self::Server => "server",
            Self::NotOffered => "not_offered",
            Self::Interrupted => "interrupted",
        }
    }

    fn of_refusal(refusal: &Refusal) -> Self {
        match (refusal.status, refusal.code.as_str()) {
            // The bucket of the router for a refusal by policy is a 400; nothing in the request is malformed.
            (_, "content_policy_violation") => Self::Failed,
            (401 | 403, _) => Self::Unauthorized,
            (404 | 410, _) => Self::NotFound,
            (402 | 429, _) | (_, "storage_quota_exceeded") => Self::Limit,
            (400..=499, _) => Self::Usage,
            // A partner failed, not the server.
            (_, "provider_error" | "provider_timeout") => Self::Failed,
            _ => Self::Server,
        }
    }
}

impl Failure {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
            obstacle: None,
            refusal: None,
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    pub(crate) fn obstacle(self, obstacle: Obstacle) -> Self {
        Self {
            obstacle: Some(obstacle),
            ..self
        }
    }

    /// Without the next step, where it would lead elsewhere.
    pub(crate) fn no_hint(self) -> Self {
        Self { hint: None, ..self }
    }

    /// A failure that is about a file.
    pub(crate) fn of_file(self, path: &Path) -> Self {
        Self {
            message: format!("{}: {}", path.display(), self.message),
            ..self
        }
    }

    /// Names another failure as well, a line each. The first one stays the kind, and its next step comes before that of the other.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.hint = self.hint.or(other.hint);
        self.line(&other.message)
    }

    /// Says more in a line of its own.
    pub(crate) fn line(mut self, line: &str) -> Self {
        self.message.push_str("\n  ");
        self.message.push_str(line);
        self
    }

    /// The text for people: a line of its own for the next step.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("easel: {}", self.message);
        let refusal = self.refusal.as_ref();
        if let Some(id) = refusal.and_then(|refusal| refusal.request_id.as_deref())
            && self.kind == Kind::Server
        {
            text.push_str(&format!("\n  the server's id of the request: {id}"));
        }
        if let Some(hint) = &self.hint {
            text.push_str(&format!("\n  {hint}"));
        }
        text
    }

    /// The text for programs.
    pub(crate) fn json(&self) -> Value {
        let refusal = self.refusal.as_deref();
        json!({"error": {
            "kind": self.kind.name(),
            "exit_code": self.kind.exit_code(),
            "message": self.message,
            "hint": self.hint,
            "status": refusal.map(|refusal| refusal.status),
            "code": refusal.map(|refusal| &refusal.code),
            "details": refusal.map_or(&Value::Null, |refusal| &refusal.details),
            "request_id": refusal.and_then(|refusal| refusal.request_id.as_deref()),
        }})
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let message = error.to_string();
        match error {
            ClientError::Unreachable(_) => Self::new(Kind::Network, message)
                .obstacle(Obstacle::Host)
                .hint("is the server running? name another one with --server; `easel doctor` looks closer"),
            ClientError::Interrupted(_) => Self::new(Kind::Network, message),
            ClientError::Unexpected(_) => Self::new(Kind::Server, message)
                .hint("`easel doctor` says what the server offers"),
            ClientError::NotOffered(_) => Self::new(Kind::NotOffered, message),
            ClientError::File { .. } => Self::usage(message),
            ClientError::Damaged(_) => Self::new(Kind::Failed, message),
            ClientError::Setting(_) => Self::usage(message),
            ClientError::Refused(refusal) => Self::refused(refusal),
        }
    }
}

impl Failure {
    fn refused(refusal: Box<Refusal>) -> Self {
        let kind = Kind::of_refusal(&refusal);
        let mut message = refusal.message.clone();
        message.push_str(&problems(&refusal.details, &refusal.message));
        let hint = match (kind, refusal.status) {
            (Kind::Unauthorized, 401) => {
                Some("sign in with `easel login`, or set EASEL_API_KEY".to_owned())
            }
            (Kind::Limit, _) => refusal
                .retry_after
                .map(|after| format!("try again in {} s", after.as_secs())),
            _ if !refusal.is_of_contract => Some(
                "the address may not be that of such a server; `easel doctor` looks closer"
                    .to_owned(),
            ),
            _ => None,
        };
        Self {
            kind,
            message,
            hint,
            obstacle: None,
            refusal: Some(refusal),
        }
    }
}

/// The errors of a graph and the files that are missing, a line each, as far as the message does not say them.
fn problems(details: &Value, message: &str) -> String {
    let mut text = String::new();
    for (node, errors) in details["node_errors"].as_object().into_iter().flatten() {
        let list = errors.as_array().or_else(|| errors["errors"].as_array());
        for error in list.into_iter().flatten() {
            let field = error["field"].as_str().filter(|field| !field.is_empty());
            let field = field.map_or_else(String::new, |field| format!(", input `{field}`"));
            let reason = error["reason"]
                .as_str()
                .or_else(|| error["message"].as_str());
            let reason = reason.unwrap_or("it is not accepted");
            if !message.contains(reason) {
                text.push_str(&format!("\n  node {node}{field}: {reason}"));
            }
        }
    }
    for reference in details["references"].as_array().into_iter().flatten() {
        let reference = plain(reference);
        if !message.contains(&reference) {
            text.push_str(&format!("\n  missing: {reference}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, code: &str, details: Value) -> Failure {
        Failure::refused(Box::new(Refusal {
            status,
            code: code.to_owned(),
            message: "no".to_owned(),
            details,
            request_id: None,
            retry_after: None,
            is_of_contract: true,
        }))
    }

    #[test]
    fn every_kind_of_refusal_has_its_exit_code() {
        let codes = [
            (400, "invalid_request", 2),
            (400, "content_policy_violation", 1),
            (401, "unauthorized", 3),
            (402, "insufficient_credits", 5),
            (403, "forbidden", 3),
            (404, "not_found", 4),
            (409, "asset_in_use", 2),
            (413, "storage_quota_exceeded", 5),
            (413, "payload_too_large", 2),
            (422, "invalid_workflow", 2),
            (429, "queue_full", 5),
            (500, "upstream_error", 7),
            (502, "provider_error", 1),
            (503, "service_unavailable", 7),
        ];
        for (status, code, exit_code) in codes {
            let failure = refused(status, code, Value::Null);
            assert_eq!(failure.kind.exit_code(), exit_code, "{status} {code}");
        }
    }

    #[test]
    fn errors_of_nodes_are_a_line_each() {
        let details =
            json!({"node_errors": {"3": [{"field": "width", "reason": "it is required"}]}});
        let failure = refused(422, "invalid_workflow", details);
        assert_eq!(
            failure.text(),
            "easel: no\n  node 3, input `width`: it is required"
        );
    }
}
