//! A family of four routes: its answers, its errors, and what it hears of its requests.

use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use futures_util::FutureExt;
use http::header::{ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_REQUEST_METHOD, CONTENT_TYPE};

use super::*;
use crate::origin::Origin;

/// What the family of these tests does with a request.
#[derive(Clone, Copy)]
enum Does {
    Greet,
    Wait,
    Fail,
    Panic,
}

/// Status, route, whether the client left, and the note of each request.
type Ended = (u16, &'static str, bool, u32);

struct Family {
    mount: ApiMount<Does>,
    ended: Mutex<Vec<Ended>>,
}

impl Family {
    fn new(is_shared: bool) -> Self {
        let table = [
            (Method::GET, "/greet/{name}", Does::Greet),
            (Method::GET, "/wait", Does::Wait),
            (Method::GET, "/fail", Does::Fail),
            (Method::GET, "/panic", Does::Panic),
        ];
        let origins = OriginPolicy {
            allowed: vec![Origin::parse("https://page.example").expect("an origin")],
            credentials: false,
            request_headers: HeaderValue::from_static("authorization"),
            response_headers: HeaderValue::from_static("etag"),
        };
        let mount = ApiMount::new("/x", table, is_shared.then_some(origins), UNKNOWN);
        Self {
            mount: mount.expect("a table"),
            ended: Mutex::default(),
        }
    }

    fn ended(&self) -> Vec<Ended> {
        std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The answer, if it is made at once.
    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Option<Response<Body>> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).expect("a request");
        let connection = ConnectionInfo::from_peer(([192, 0, 2, 1], 1).into());
        handle(self, request, connection).now_or_never()
    }
}

impl Api for Family {
    type Target = Does;
    type Dialect = bool;
    type Error = StatusCode;
    type Note = u32;

    fn mount(&self) -> &ApiMount<Does> {
        &self.mount
    }

    fn context(&self) -> RequestContext {
        RequestContext {
            request_id: Uuid::from_u128(7),
            now: Timestamp::UNIX_EPOCH,
        }
    }

    fn dialect(&self, path: &str) -> bool {
        path.starts_with("/x/wait")
    }

    async fn answer(
        &self,
        asked: Box<Asked<Does>>,
        note: &mut u32,
    ) -> Result<Response<Body>, StatusCode> {
        *note += 1;
        let does = asked.target.ok_or(StatusCode::NOT_FOUND)?;
        match does {
            Does::Greet => {
                let params = asked.params.ok_or(StatusCode::BAD_REQUEST)?;
                Ok(Response::new(Body::full(params["name"].to_owned())))
            }
            Does::Wait => pending().await,
            Does::Fail => Err(StatusCode::CONFLICT),
            Does::Panic => panic!("as meant"),
        }
    }

    fn word(
        &self,
        fault: Fault<StatusCode>,
        waits: bool,
        _: Uuid,
        note: &mut u32,
    ) -> Response<Body> {
        *note += 10;
        let status = match fault {
            Fault::Refused(refusal) => refusal.status(),
            Fault::MethodNotAllowed(_) => StatusCode::METHOD_NOT_ALLOWED,
            Fault::Own(status) => status,
        };
        let text = if waits { "waits" } else { "does not wait" };
        let mut response = Response::new(Body::full(text));
        *response.status_mut() = status;
        response
    }

    fn mark(&self, request_id: HeaderValue, headers: &mut HeaderMap) {
        headers.insert("x-id", request_id);
    }

    fn observe(&self, seen: &Observed, note: &u32) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.push((seen.status.as_u16(), seen.route, seen.client_left, *note));
    }
}

fn header<'r>(response: &'r Response<Body>, name: &str) -> Option<&'r str> {
    response.headers().get(name)?.to_str().ok()
}

async fn body(response: Response<Body>) -> String {
    let body = crate::read_limited(response.into_body(), 100, crate::ReadPace::default()).await;
    String::from_utf8(body.expect("it is short").to_vec()).expect("a text")
}

#[tokio::test]
async fn an_answer_is_marked_and_observed_once() {
    let family = Family::new(true);
    let answer = family.ask("GET", "/x/greet/a%20b", &[]).expect("an answer");
    let id = "00000000-0000-0000-0000-000000000007";
    assert_eq!(header(&answer, "x-id"), Some(id));
    assert_eq!(header(&answer, "x-content-type-options"), Some("nosniff"));
    assert_eq!(body(answer).await, "a b");
    assert_eq!(family.ended(), [(200, "/greet/{name}", false, 1)]);
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let family = Family::new(true);
    let answer = family.ask("HEAD", "/x/greet/you", &[]).expect("an answer");
    assert_eq!(header(&answer, "content-length"), Some("3"));
    assert_eq!(header(&answer, CONTENT_TYPE.as_str()), None);
    assert_eq!(body(answer).await, "");
}

#[tokio::test]
async fn errors_are_worded_by_the_family() {
    let family = Family::new(true);
    let answers = [
        ("GET", "/x/fail", 409, "/fail", 11),
        ("GET", "/x/greet/a%2Fb", 400, "/greet/{name}", 11),
        ("GET", "/x/nothing", 404, UNKNOWN, 11),
        ("OPTIONS", "/x/nothing", 404, UNKNOWN, 11),
        ("GET", "/nothing", 404, UNKNOWN, 11),
        ("POST", "/x/fail", 405, UNKNOWN, 10),
    ];
    for (method, path, status, route, note) in answers {
        let answer = family.ask(method, path, &[]).expect("an answer");
        assert_eq!(answer.status().as_u16(), status, "{method} {path}");
        assert!(header(&answer, "x-id").is_some(), "{method} {path}");
        assert_eq!(family.ended(), [(status, route, false, note)]);
    }
    let answer = family.ask("POST", "/x/wait", &[]).expect("an answer");
    assert_eq!(body(answer).await, "waits");
    let answer = refuse(&family, Refusal::MissingHost, "/x/fail");
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    assert!(header(&answer, "x-id").is_some());
    assert_eq!(body(answer).await, "does not wait");
}

#[test]
fn pages_of_other_origins_learn_what_they_may_do() {
    let page = ("origin", "https://page.example");
    let preflight = [page, (ACCESS_CONTROL_REQUEST_METHOD.as_str(), "GET")];
    let family = Family::new(true);
    let answer = family
        .ask("OPTIONS", "/x/fail", &preflight)
        .expect("an answer");
    let allowed = header(&answer, ACCESS_CONTROL_ALLOW_METHODS.as_str());
    assert_eq!(
        (answer.status().as_u16(), allowed),
        (204, Some("GET, HEAD"))
    );
    let vary = answer.headers().get_all("vary").iter().count();
    assert_eq!(vary, 1, "a preflight is decorated once");
    let answer = family.ask("OPTIONS", "/x/fail", &[]).expect("an answer");
    assert_eq!(
        (answer.status().as_u16(), header(&answer, "allow")),
        (204, Some("GET, HEAD"))
    );
    let answer = family.ask("GET", "/x/fail", &[page]).expect("an answer");
    let allowed = header(&answer, "access-control-allow-origin");
    assert_eq!(allowed, Some("https://page.example"));

    let silent = Family::new(false);
    for headers in [&preflight[..], &[]] {
        let answer = silent
            .ask("OPTIONS", "/x/fail", headers)
            .expect("an answer");
        assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED);
    }
    let answer = silent.ask("GET", "/x/fail", &[page]).expect("an answer");
    assert_eq!(header(&answer, "access-control-allow-origin"), None);
}

#[test]
fn a_client_that_leaves_is_observed_once() {
    let family = Family::new(true);
    assert!(family.ask("GET", "/x/wait", &[]).is_none());
    assert_eq!(family.ended(), [(499, "/wait", true, 1)]);
}

#[test]
fn a_panic_is_no_client_that_leaves() {
    let family = Family::new(true);
    let asked = AssertUnwindSafe(|| family.ask("GET", "/x/panic", &[]));
    assert!(catch_unwind(asked).is_err());
    assert_eq!(family.ended(), []);
}
