//! What a server says when it refuses: the four shapes of errors of the contract, read into one.

use std::fmt;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use serde_json::Value;

/// Most characters that are kept of a body that is no error of the contract.
const MOST_FOREIGN: usize = 200;

/// An error answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// `error.code` of the v2 API, the bucket of the router, or `http_<status>` where the server names none.
    pub code: String,
    /// The server's message for people.
    pub message: String,
    /// What the server adds for programs; null if nothing.
    pub details: Value,
    /// The server's id of the request.
    pub request_id: Option<String>,
    /// How long to wait before the next attempt.
    pub retry_after: Option<Duration>,
    /// Whether the body is an error of the contract. A proxy or another service answers something else.
    pub is_of_contract: bool,
}

impl Refusal {
    /// Reads an error answer.
    pub(crate) fn read(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let text = |name: &str| {
            let value = headers.get(name)?.to_str().ok()?;
            Some(value.to_owned())
        };
        let parsed: Value = serde_json::from_slice(body).unwrap_or_default();
        let bucket = text("x-service-error-type").or_else(|| text("x-comfy-error-type"));
        let worded = worded(&parsed, bucket);
        let is_of_contract = worded.is_some();
        let (code, message, details) = worded.unwrap_or_else(|| {
            (
                format!("http_{}", status.as_u16()),
                foreign(body, status),
                Value::Null,
            )
        });
        Self {
            status: status.as_u16(),
            code,
            message,
            details,
            request_id: text("x-service-request-id").or_else(|| text("x-comfy-request-id")),
            retry_after: text("retry-after")
                .and_then(|value| value.trim().parse().ok())
                .map(Duration::from_secs),
            is_of_contract,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Code, message and details of an error of the contract.
fn worded(body: &Value, bucket: Option<String>) -> Option<(String, String, Value)> {
    let string = |value: &Value| value.as_str().map(str::to_owned);
    if let Some(error) = body.get("error").filter(|error| error.is_object()) {
        // The v2 envelope, and the refusal of a submission in the older API.
        let code = string(&error["code"]).or_else(|| string(&error["type"]))?;
        let mut details = error["details"].clone();
        if let Some(nodes) = body.get("node_errors").filter(|nodes| nodes.is_object()) {
            details = serde_json::json!({ "node_errors": nodes });
        }
        return Some((code, string(&error["message"])?, details));
    }
    if let Some(entries) = body.get("detail").and_then(Value::as_array) {
        let lines: Vec<String> = entries.iter().map(violation).collect();
        let code = bucket.unwrap_or_else(|| "invalid_input".to_owned());
        let message = format!(
            "the model does not accept this input\n  {}",
            lines.join("\n  ")
        );
        return Some((code, message, body["detail"].clone()));
    }
    if let Some(detail) = body.get("detail").and_then(Value::as_str) {
        let code = string(&body["error_type"]).or(bucket)?;
        return Some((code, detail.to_owned(), Value::Null));
    }
    let (code, message) = (string(&body["code"])?, string(&body["message"])?);
    Some((code, message, body["details"].clone()))
}

/// One entry of a router's 422 as a line: the path behind `body`, and what is wrong there.
fn violation(entry: &Value) -> String {
    let mut path = String::new();
    for step in entry["loc"].as_array().into_iter().flatten() {
        match step.as_str() {
            Some("body") if path.is_empty() => {}
            Some(name) if path.is_empty() => path.push_str(name),
            Some(name) => path.push_str(&format!(".{name}")),
            None => path.push_str(&format!("[{step}]")),
        }
    }
    let message = entry["msg"].as_str().unwrap_or("it is not accepted");
    if path.is_empty() {
        message.to_owned()
    } else {
        format!("{path}: {message}")
    }
}

/// What a body that is no error of the contract says, without the markup of a page.
fn foreign(body: &[u8], status: StatusCode) -> String {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    let reason = status.canonical_reason().unwrap_or("an error");
    if text.is_empty() || text.starts_with('<') || text.starts_with('{') {
        return format!("the server answers {} ({reason})", status.as_u16());
    }
    let shown: String = text
        .chars()
        .filter(|c| !c.is_control())
        .take(MOST_FOREIGN)
        .collect();
    format!("the server answers {}: {shown}", status.as_u16())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> Refusal {
        let headers = headers.iter().map(|(name, value)| {
            let name = http::HeaderName::from_static(name);
            (name, http::HeaderValue::from_static(value))
        });
        let status = StatusCode::from_u16(status).expect("a status");
        Refusal::read(status, &headers.collect(), body.as_bytes())
    }

    #[test]
    fn the_envelope_of_v2_is_read_whole() {
        let body = json!({"error": {"code": "queue_full", "message": "wait", "details": {"a": 1}}});
        let headers = [("retry-after", "7"), ("x-service-request-id", "r-1")];
        let refusal = read(429, &headers, &body.to_string());
        assert_eq!(
            (refusal.code.as_str(), refusal.message.as_str()),
            ("queue_full", "wait")
        );
        assert_eq!(refusal.details, json!({"a": 1}));
        assert_eq!(refusal.retry_after, Some(Duration::from_secs(7)));
        assert_eq!(refusal.request_id.as_deref(), Some("r-1"));
        assert!(refusal.is_of_contract);
    }

    #[test]
    fn a_bucket_of_the_router_is_a_code() {
        let body = r#"{"detail": "no such model", "error_type": "model_not_found"}"#;
        let refusal = read(404, &[], body);
        assert_eq!(
            (refusal.code.as_str(), refusal.message.as_str()),
            ("model_not_found", "no such model")
        );
    }

    #[test]
    fn a_model_level_refusal_is_a_line_for_each_field() {
        let body = json!({"detail": [
            {"loc": ["body", "prompt"], "msg": "Field required", "type": "missing"},
            {"loc": ["body", "images", 0, "url"], "msg": "Not a URL", "type": "url"},
            {"loc": ["body"], "msg": "Too large", "type": "x"},
        ]});
        let refusal = read(
            422,
            &[("x-comfy-error-type", "invalid_input")],
            &body.to_string(),
        );
        assert_eq!(refusal.code, "invalid_input");
        assert_eq!(
            refusal.message,
            "the model does not accept this input\n  prompt: Field required\n  images[0].url: Not a URL\n  Too large"
        );
    }

    #[test]
    fn errors_of_the_older_api_are_read_too() {
        let refusal = read(401, &[], r#"{"code": "UNAUTHORIZED", "message": "no"}"#);
        assert_eq!(refusal.code, "UNAUTHORIZED");
    }

    #[test]
    fn a_page_of_a_proxy_is_no_error_of_the_contract() {
        let refusal = read(502, &[], "<html>Bad gateway</html>");
        assert_eq!(refusal.code, "http_502");
        assert_eq!(refusal.message, "the server answers 502 (Bad Gateway)");
        assert!(!refusal.is_of_contract);
        let plain = read(400, &[], "go\u{1b}[31m away\n");
        assert_eq!(plain.message, "the server answers 400: go[31m away");
    }
}
