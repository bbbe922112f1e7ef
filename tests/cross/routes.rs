//! Every route of every family, as the documents have them.

use it::root;
use serde_json::Value;

/// One method of one path.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) method: String,
    pub(super) path: String,
    /// Names of parameters of the query.
    pub(super) query: Vec<String>,
    pub(super) takes_key: bool,
}

impl Route {
    /// How it is called in messages.
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    pub(super) fn is(&self, method: &str, path: &str) -> bool {
        self.method == method && self.path == path
    }
}

/// The routes of the documents of all families.
pub(super) fn routes() -> Vec<Route> {
    let mut routes = Vec::new();
    for name in ["v2", "v1", "router"] {
        let path = root().join(format!("docs/openapi/{name}.json"));
        let document: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        for (path, item) in document["paths"].as_object().unwrap() {
            for method in ["get", "post", "delete", "put", "head"] {
                let operation = &item[method];
                if operation.is_null() {
                    continue;
                }
                let of_path = item["parameters"].as_array().into_iter().flatten();
                let of_method = operation["parameters"].as_array().into_iter().flatten();
                let parameters: Vec<&Value> = of_path
                    .chain(of_method)
                    .map(|parameter| resolved(&document, parameter))
                    .collect();
                let of = |place: &str| -> Vec<String> {
                    let found = parameters.iter().filter(|one| one["in"] == place);
                    found
                        .map(|one| one["name"].as_str().unwrap().to_owned())
                        .collect()
                };
                routes.push(Route {
                    method: method.to_uppercase(),
                    path: path.clone(),
                    query: of("query"),
                    takes_key: of("header").contains(&"Idempotency-Key".to_owned()),
                });
            }
        }
    }
    routes
}

fn resolved<'a>(document: &'a Value, parameter: &'a Value) -> &'a Value {
    match parameter["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap(),
        None => parameter,
    }
}
