//! Answers requests for the files of the console, and has what the other page is answered with.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, LOCATION, REFERRER_POLICY, VARY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri};
use hyper_kit::Body;
use hyper_kit::api::drop_body;
use hyper_kit::etag::{self, ETag};

use crate::files::{File, PAGE, VERSION};

/// Where the console is below the mount path.
const ROOT: &str = "/console";

/// What the page may load and reach: this server alone. Pictures may also be bytes that an API answered.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// What stands in the page for the families that the server has.
const FAMILIES: &str = "{families}";

/// What stands in the page for the families that need no key.
const OPEN: &str = "{open}";

/// What stands in the page for the folder of its files: their version, which no later build has again.
const FOLDER: &str = "{files}";

/// How long a browser keeps what has the version in its address: for as long as it likes, without asking.
const FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

/// Everything else is asked for again, which hears 304 while it is the same.
pub(crate) const ASK_AGAIN: HeaderValue = HeaderValue::from_static("no-cache");

/// The API families of a server, which decide the views of its console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Families {
    /// Jobs and assets.
    pub workflows: bool,
    /// Whether jobs and assets need no key; partner models always need one.
    pub open: bool,
    /// Partner models.
    pub models: bool,
}

/// The console of a server. Clones are the same.
#[derive(Clone, Debug)]
pub struct Console {
    page: Arc<Page>,
}

/// A page in which the server wrote something, with files beside it.
#[derive(Debug)]
pub(crate) struct Page {
    /// The path below which everything is.
    root: String,
    pub(crate) bytes: Bytes,
    tag: String,
}

impl Console {
    /// The console below `mount_path` (empty, or with a slash in front and none behind) of a server that has `families`.
    #[must_use]
    pub fn new(mount_path: &str, families: Families) -> Self {
        let known = [
            ("workflows", families.workflows),
            ("models", families.models),
        ];
        let names = known.iter().filter(|(_, has)| *has).map(|(name, _)| *name);
        let names = names.collect::<Vec<_>>().join(" ");
        let open = if families.open { "workflows" } else { "" };
        let write = |text: &str| {
            let text = text.replace(FAMILIES, &names).replace(OPEN, open);
            text.replace(FOLDER, VERSION)
        };
        let tag = format!("{VERSION}-{}-{open}", names.replace(' ', "-"));
        let page = Page::new(format!("{mount_path}{ROOT}"), PAGE, write, &tag);
        Self {
            page: Arc::new(page),
        }
    }

    /// The answer to a request for a path of the console; `None` for any other path.
    #[must_use]
    pub fn answer(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Option<Response<Body>> {
        self.page.answer(method, uri, headers, |path| {
            let (name, kept) = match path.split_once('/') {
                Some((VERSION, name)) => (name, FOR_EVER),
                // A page of another build, while replicas or a browser's tab change over.
                Some((other, name)) if is_version(other) => (name, ASK_AGAIN),
                _ => (path, ASK_AGAIN),
            };
            let file = File::find(name).filter(|file| file.is_of_console());
            Some(match file {
                Some(file) if file.name == PAGE => self.page.reply(headers),
                Some(file) => Found::file(file, headers, kept).reply(headers),
                None => text(StatusCode::NOT_FOUND, "the console has no such file"),
            })
        })
    }
}

impl Page {
    /// The page at `root`, made of the file `name`. `tag` differs where what `write` makes of the file differs.
    pub(crate) fn new(
        root: String,
        name: &str,
        write: impl FnOnce(&str) -> String,
        tag: &str,
    ) -> Self {
        let file = File::find(name).expect("the build has the page");
        Self {
            root,
            bytes: write(&String::from_utf8_lossy(file.plain)).into(),
            tag: format!("{}-{tag}", file.tag),
        }
    }

    /// The answer to a request for the page, or for what `beside` has below it; `None` for any other path.
    pub(crate) fn answer(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        beside: impl FnOnce(&str) -> Option<Response<Body>>,
    ) -> Option<Response<Body>> {
        let mut response = match uri.path().strip_prefix(self.root.as_str())? {
            "" => moved(&self.root),
            "/" => self.reply(headers),
            below => beside(below.strip_prefix('/')?)?,
        };
        if method != Method::GET && method != Method::HEAD {
            response = not_allowed();
        }
        let fields = response.headers_mut();
        fields.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        fields.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        if method == Method::HEAD {
            drop_body(&mut response);
        }
        Some(response)
    }

    fn reply(&self, headers: &HeaderMap) -> Response<Body> {
        let page = Found {
            bytes: self.bytes.clone(),
            tag: self.tag.clone(),
            media_type: HeaderValue::from_static("text/html; charset=utf-8"),
            compressed: false,
            kept: ASK_AGAIN,
        };
        page.reply(headers)
    }
}

/// What a request gets: bytes of a page or of a file.
#[derive(Debug)]
pub(crate) struct Found {
    bytes: Bytes,
    tag: String,
    media_type: HeaderValue,
    compressed: bool,
    kept: HeaderValue,
}

impl Found {
    /// A file of the build, in the coding that the client takes, which keeps it as `kept` says.
    pub(crate) fn file(file: &'static File, headers: &HeaderMap, kept: HeaderValue) -> Self {
        let compressed = takes_gzip(headers);
        let (bytes, tag) = match compressed {
            true => (file.gzip, format!("{}-gzip", file.tag)),
            false => (file.plain, file.tag.to_owned()),
        };
        Self {
            bytes: Bytes::from_static(bytes),
            tag,
            media_type: file.media_type(),
            compressed,
            kept,
        }
    }

    /// The answer; 304 where the client has it.
    pub(crate) fn reply(self, headers: &HeaderMap) -> Response<Body> {
        let tag = ETag::strong(&self.tag).expect("tags are hexadecimal digits and names");
        let is_known = etag::not_modified(headers, &tag);
        let length = HeaderValue::from(self.bytes.len());
        let mut response = Response::new(match is_known {
            true => Body::empty(),
            false => Body::full(self.bytes),
        });
        let mut set = |name: HeaderName, value| response.headers_mut().insert(name, value);
        set(ETAG, tag.to_value());
        set(VARY, HeaderValue::from_static("accept-encoding"));
        set(CACHE_CONTROL, self.kept);
        set(CONTENT_SECURITY_POLICY, POLICY);
        set(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
        if is_known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return response;
        }
        set(CONTENT_TYPE, self.media_type);
        set(CONTENT_LENGTH, length);
        if self.compressed {
            set(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }
}

/// The address of a page ends with a slash, so that the files beside it are found below any mount path.
fn moved(root: &str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
    let page = HeaderValue::from_str(&format!("{root}/"));
    let page = page.expect("mount paths are letters, digits and -._~/");
    response.headers_mut().insert(LOCATION, page);
    response
}

/// Whether a client takes gzip: it names gzip, or everything, with a weight that is not zero.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(ACCEPT_ENCODING).iter();
    let items = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','));
    let mut any = false;
    for item in items {
        let (coding, weight) = item.split_once(';').unwrap_or((item, "q=1"));
        let weight = weight
            .trim()
            .strip_prefix("q=")
            .and_then(|weight| weight.trim().parse::<f32>().ok());
        let taken = weight.is_none_or(|weight| weight > 0.0);
        match coding.trim() {
            coding if coding.eq_ignore_ascii_case("gzip") => return taken,
            "*" => any = taken,
            _ => {}
        }
    }
    any
}

/// Whether a folder is the version of some build.
fn is_version(folder: &str) -> bool {
    folder.len() == VERSION.len() && folder.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn not_allowed() -> Response<Body> {
    let why = "this is read with GET";
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, why);
    response
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}

fn text(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::full(text));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

#[cfg(test)]
mod tests;
