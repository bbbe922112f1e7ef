//! The documents of a server's APIs as pages, at `/docs/`.
//!
//! Only four paths are answered here: ComfyUI's page asks for the help of its nodes below `/docs` as well, by the name of a
//! class and a file below it, which no path here looks like.

use std::sync::Arc;

use http::{HeaderMap, Method, Response, Uri};
use hyper_kit::Body;

use crate::Families;
use crate::files::File;
use crate::serve::{ASK_AGAIN, Found, Page};

/// Where the page is below the mount path.
const ROOT: &str = "/docs";

/// The page itself, in which the server writes the documents that it has.
const PAGE: &str = "reference/index.html";

/// What stands in the page for the documents.
const DOCUMENTS: &str = "{documents}";

/// What the page loads, and the files of the build that it is.
const BESIDE: &[(&str, &str)] = &[
    ("icon.svg", "icon.svg"),
    ("reference.css", "reference/reference.css"),
    ("reference.js", "reference/reference.js"),
];

/// A document: a short name for addresses, a name for people, and its path.
type Document = (&'static str, &'static str, &'static str);

const OF_WORKFLOWS: &[Document] = &[
    ("v2", "Workflows", "/api/v2/openapi.json"),
    ("comfyui", "ComfyUI, as a view of them", "/api/openapi.json"),
];
const OF_MODELS: &[Document] = &[("models", "Partner models", "/v1/openapi.json")];
const OF_OPERATORS: &[Document] = &[("admin", "Operators", "/api/v2/admin/openapi.json")];

/// The pages of a server's documents. Clones are the same.
#[derive(Clone, Debug)]
pub struct Reference {
    page: Arc<Page>,
}

impl Reference {
    /// The pages below `mount_path` (empty, or with a slash in front and none behind) of a server that has `families`.
    #[must_use]
    pub fn new(mount_path: &str, families: Families) -> Self {
        let workflows = families.workflows.then_some(OF_WORKFLOWS);
        let models = families.models.then_some(OF_MODELS);
        let documents = workflows.into_iter().chain(models).chain([OF_OPERATORS]);
        let (mut entries, mut names) = (String::new(), Vec::new());
        for (id, name, path) in documents.flatten() {
            entries.push_str(&format!(
                "<li><a href=\"#/{id}\" data-id=\"{id}\" data-document=\"..{path}\">{name}</a></li>\n"
            ));
            names.push(*id);
        }
        let write = |text: &str| text.replace(DOCUMENTS, &entries);
        let root = format!("{mount_path}{ROOT}");
        Self {
            page: Arc::new(Page::new(root, PAGE, write, &names.join("-"))),
        }
    }

    /// The answer to a request for one of the paths of the page; `None` for any other path.
    #[must_use]
    pub fn answer(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Option<Response<Body>> {
        self.page.answer(method, uri, headers, |path| {
            let (_, name) = BESIDE.iter().find(|(beside, _)| *beside == path)?;
            let file = File::find(name).expect("the build has every file of the page");
            Some(Found::file(file, headers, ASK_AGAIN).reply(headers))
        })
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use http::header::{CONTENT_SECURITY_POLICY, LOCATION};

    use super::*;

    /// What the page may take on the wire, all files together.
    const MOST_BYTES: usize = 12 * 1024;

    const ALL: Families = Families {
        workflows: true,
        open: false,
        models: true,
    };

    fn ask(method: &Method, path: &str) -> Option<Response<Body>> {
        let uri: Uri = path.parse().expect("a path");
        Reference::new("/a/b", ALL).answer(method, &uri, &HeaderMap::new())
    }

    #[test]
    fn only_its_own_paths_are_answered() {
        for path in [
            "/docs/",
            "/a/b/docs/KSampler/en.md",
            "/a/b/docs/reference.css/en.md",
            "/a/b/docs/index.html",
            "/a/b/docs/reference/reference.js",
            "/a/b/docs2",
        ] {
            assert!(ask(&Method::GET, path).is_none(), "{path}");
        }
        for path in ["/", "/reference.js", "/reference.css", "/icon.svg"] {
            let answer = ask(&Method::GET, &format!("/a/b/docs{path}")).expect("an answer");
            assert_eq!(answer.status(), StatusCode::OK, "{path}");
            assert!(answer.headers().contains_key(CONTENT_SECURITY_POLICY));
        }
        let moved = ask(&Method::GET, "/a/b/docs").expect("an answer");
        assert_eq!(moved.headers()[LOCATION], "/a/b/docs/");
        let posted = ask(&Method::POST, "/a/b/docs/").expect("an answer");
        assert_eq!(posted.status(), StatusCode::METHOD_NOT_ALLOWED);
    }

    #[test]
    fn the_page_names_the_documents_of_its_server_alone() {
        let page = |families| {
            let reference = Reference::new("", families);
            String::from_utf8(reference.page.bytes.to_vec()).expect("text")
        };
        let paths = |text: &str| {
            let parts = text.split("data-document=\"..").skip(1);
            let paths = parts.filter_map(|part| part.split('"').next().map(str::to_owned));
            paths.collect::<Vec<_>>()
        };
        let of_all = paths(&page(ALL));
        assert_eq!(
            of_all,
            [
                "/api/v2/openapi.json",
                "/api/openapi.json",
                "/v1/openapi.json",
                "/api/v2/admin/openapi.json"
            ]
        );
        let models = Families {
            workflows: false,
            ..ALL
        };
        assert_eq!(paths(&page(models)), of_all[2..]);
        assert!(!page(ALL).contains(DOCUMENTS));
    }

    #[test]
    fn the_page_is_small() {
        let names = BESIDE.iter().map(|(_, name)| *name).chain([PAGE]);
        let files = names.map(|name| File::find(name).expect("it is there"));
        let bytes: usize = files.map(|file| file.gzip.len()).sum();
        assert!(bytes <= MOST_BYTES, "{bytes} bytes compressed");
    }
}
