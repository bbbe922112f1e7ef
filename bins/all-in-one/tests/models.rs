//! Models that run here, without a server around them: what is offered, how a call runs, what is refused.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use accounts::AccountId;
use all_in_one::models::{WorkflowKind, Workflows};
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use clap::Command;
use jiff::Timestamp;
use providers::{Loaded, Settings, Source};
use router_core::{
    Collected, Contact, Done, Failure, GenerationId, Model, Refusal, Submission, Submitted, Timer,
};
use serde_json::{Value, json};
use server_kit::config::InstallationPlace;
use server_kit::metrics::Metrics;
use uuid::Uuid;
use workflow_core::JobQuery;
use workflow_server::{Background, Config, KEYS, Role, Stack, store_at};

const PHOTO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/photo.png");

const BASE: &str = "http://easel.test";

#[derive(Debug)]
struct Clock;

#[async_trait]
impl Timer for Clock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// An installation whose jobs run.
struct House {
    stack: Stack,
    kind: Arc<WorkflowKind>,
    _running: Background,
    folder: tempfile::TempDir,
}

impl House {
    async fn open() -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let command = server_kit::config::Settings::flags(Command::new("server"), KEYS);
        let matches = command.get_matches_from(["server"]);
        let mut settings = server_kit::config::Settings::gather(KEYS, &matches, Vec::new());
        let config = Config::read(settings.as_mut().expect("settings")).expect("a configuration");
        let mut metrics = Metrics::new("easel", "0");
        let place = InstallationPlace::directory(&folder.path().join("data"));
        let data = store_at(&place).expect("a directory");
        let stack = Stack::open(&*data, &config.workflows, &mut metrics).await;
        let stack = stack.expect("an installation");
        let workflows = Workflows::of(&stack, BASE.to_owned());
        Self {
            kind: Arc::new(WorkflowKind::new(workflows)),
            _running: stack.start(Role::All),
            stack,
            folder,
        }
    }

    /// The catalog, with the files of `folder` over what is compiled in.
    fn load(&self, folder: Option<&Path>) -> Result<Loaded, Vec<String>> {
        let settings = Settings::new(Vec::new(), Vec::new(), None, Arc::new(Clock));
        let settings = settings.expect("the usual authorities");
        let source = Source {
            builtin: true,
            folder: folder.map(Path::to_owned),
        };
        let loaded = providers::load(&source, &settings.with_kind(self.kind.clone()), &|_| None);
        loaded.map_err(|faults| faults.iter().map(ToString::to_string).collect())
    }

    fn model(&self, id: &str) -> Arc<Model> {
        let loaded = self.load(None).expect("what is compiled in is right");
        let mut models = loaded.models.into_iter();
        let found = models.find(|loaded| loaded.model.id().as_str() == id);
        found.expect("it is offered").model
    }

    async fn call(&self, id: &str, body: &Value) -> Result<Done, Failure> {
        let model = self.model(id);
        let submission = submission(&model, 1, body);
        let accepted = model.provider().submit(submission).await?;
        let Submitted::Accepted { handle, .. } = accepted else {
            panic!("a run is accepted first");
        };
        loop {
            match model
                .provider()
                .collect(&handle, &router_core::Contact::default())
                .await?
            {
                Collected::Done(done) => return Ok(done),
                Collected::Pending { .. } => {}
            }
        }
    }

    async fn jobs(&self) -> usize {
        let query = JobQuery {
            account: AccountId::local(),
            labels: Vec::new(),
            over: None,
            statuses: Vec::new(),
            after: None,
            limit: 100,
            outputs: usize::MAX,
        };
        let page = self.stack.jobs.list(&query, Timestamp::now()).await;
        page.expect("the store answers").jobs.len()
    }
}

fn submission(model: &Model, number: u128, body: &Value) -> Submission {
    Submission {
        generation: GenerationId(Uuid::from_u128(number)),
        account: AccountId::local(),
        model: model.id().clone(),
        body: Bytes::from(body.to_string()),
        contact: Contact::default(),
        stream: None,
    }
}

fn photo() -> String {
    let bytes = fs::read(PHOTO).expect("the example is there");
    format!("data:image/png;base64,{}", STANDARD.encode(bytes))
}

fn outputs(done: &Done) -> Value {
    assert_eq!(done.answer.content_type, "application/json");
    let body: Value = serde_json::from_slice(&done.answer.body).expect("JSON");
    body["outputs"].clone()
}

/// The size of a PNG file in a data URL.
fn size(url: &Value) -> (u32, u32) {
    let text = url.as_str().expect("a text");
    let data = text.strip_prefix("data:image/png;base64,").expect("a PNG");
    let bytes = STANDARD.decode(data).expect("base64");
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
    (number(16), number(20))
}

/// The entries of a refusal.
fn detail(failure: Failure) -> Value {
    let Failure::Refused {
        refusal: Refusal::Detail(answer),
        ..
    } = failure
    else {
        panic!("it is refused field by field, not {failure:?}");
    };
    let body: Value = serde_json::from_slice(&answer.body).expect("JSON");
    body["detail"].clone()
}

#[tokio::test]
async fn three_models_are_offered_without_any_key() {
    let house = House::open().await;
    let loaded = house.load(None).expect("what is compiled in is right");
    let ids: Vec<&str> = loaded
        .models
        .iter()
        .map(|loaded| loaded.model.id().as_str())
        .collect();
    assert_eq!(ids, ["easel/blend", "easel/postcard", "easel/resize"]);
    for loaded in &loaded.models {
        assert!(loaded.model.document().is_authored());
    }
}

#[tokio::test]
async fn the_shipped_models_run() {
    let house = House::open().await;
    let resize = json!({"image": photo(), "width": 96, "inline": true});
    let done = house.call("easel/resize", &resize).await.expect("it runs");
    let made = outputs(&done);
    assert_eq!(size(&made[0]["url"]), (96, 72), "its shape is kept");
    assert_eq!(made[0]["content_type"], "image/png");

    // What was made is an asset, and so can go into the next call.
    let blend = json!({"image": made[0]["asset_id"], "overlay": photo(), "inline": true});
    let model = house.model("easel/blend");
    let accepted = model.provider().submit(submission(&model, 2, &blend)).await;
    let Ok(Submitted::Accepted { handle, .. }) = accepted else {
        panic!("it is accepted, not {accepted:?}");
    };
    let blended = loop {
        match model
            .provider()
            .collect(&handle, &router_core::Contact::default())
            .await
            .expect("it runs")
        {
            Collected::Done(done) => break done,
            Collected::Pending { .. } => {}
        }
    };
    assert_eq!(size(&outputs(&blended)[0]["url"]), (96, 72));
}

#[tokio::test]
async fn a_result_is_a_signed_link_unless_it_is_wanted_inline() {
    let house = House::open().await;
    let done = house
        .call("easel/postcard", &json!({"image": photo()}))
        .await;
    let made = outputs(&done.expect("it runs"));
    let url = made[0]["url"].as_str().expect("a link");
    assert!(
        url.starts_with(&format!("{BASE}/signed/")) && url.ends_with("/postcard_00001_.png"),
        "{url}"
    );
    assert_eq!(made.as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn submitting_again_makes_no_second_job() {
    let house = House::open().await;
    let model = house.model("easel/resize");
    let body = json!({"image": photo(), "width": 8});
    let first = model.provider().submit(submission(&model, 7, &body)).await;
    let again = model.provider().submit(submission(&model, 7, &body)).await;
    assert_eq!(first.expect("it is accepted"), again.expect("it is known"));
    assert_eq!(house.jobs().await, 1);
    let other = model.provider().submit(submission(&model, 8, &body)).await;
    other.expect("it is accepted");
    assert_eq!(house.jobs().await, 2);
}

#[tokio::test]
async fn what_is_wrong_with_a_body_is_told_field_by_field() {
    let house = House::open().await;
    let refused = async |model: &str, body: Value| {
        let ended = house.call(model, &body).await;
        detail(ended.expect_err("it is refused"))
    };
    let both = refused(
        "easel/blend",
        json!({"image": "x", "overlay": "data:image/png;base64,?"}),
    );
    let both = both.await;
    assert_eq!(both[0]["loc"], json!(["body", "image"]));
    assert_eq!(both[1]["loc"], json!(["body", "overlay"]));
    assert_eq!(both[1]["msg"], "the data URL is no valid base64");
    assert_eq!(house.jobs().await, 0, "nothing ran");

    let foreign = refused(
        "easel/resize",
        json!({"image": Uuid::from_u128(9).to_string()}),
    );
    assert_eq!(
        foreign.await,
        json!([{"loc": ["body", "image"], "msg": "there is no such asset", "type": "picture"}])
    );

    let text = STANDARD.encode("no picture at all");
    let broken = json!({"image": format!("data:image/png;base64,{text}")});
    let broken = refused("easel/resize", broken).await;
    assert_eq!(broken[0]["loc"], json!(["body", "image"]));
    assert_eq!(house.jobs().await, 1, "only the engine can tell");
}

#[tokio::test]
async fn adding_a_model_is_a_file() {
    let house = House::open().await;
    let catalog = house.folder.path().join("catalog");
    let write = |name: &str, text: &str| {
        let path = catalog.join(name);
        fs::create_dir_all(path.parent().expect("it has one")).expect("room");
        fs::write(path, text).expect("room");
    };
    write(
        "mine/partner.toml",
        "kind = \"workflow\"\nname = \"Mine\"\n",
    );
    write(
        "mine/invert.toml",
        "graph = \"invert.graph.json\"\nschema = \"invert.schema.json\"\nprice_cents = 3\n\n\
         [output]\nnode = \"3\"\n\n\
         [fields.image]\npicture = true\ninto = [{ node = \"1\", input = \"image\" }]\n",
    );
    let graph = r#"{
  "1": {"class_type": "LoadImage", "inputs": {"image": "the picture"}},
  "2": {"class_type": "ImageInvert", "inputs": {"image": ["1", 0]}},
  "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "invert"}}
}"#;
    write("mine/invert.graph.json", graph);
    let schema =
        r#"{"type": "object", "properties": {"image": {"type": "string"}}, "required": ["image"]}"#;
    write("mine/invert.schema.json", schema);
    let loaded = house.load(Some(&catalog)).expect("it is right");
    assert_eq!(loaded.models.len(), 4);
    let price = loaded.models[3].model.provider().price(&json!({}));
    assert_eq!(price.hold_cents(), 3);

    let faults = || {
        let faults = house.load(Some(&catalog)).expect_err("it is wrong");
        let base = format!("{}/", catalog.display());
        let faults: Vec<String> = faults
            .iter()
            .map(|fault| fault.replace(&base, ""))
            .collect();
        faults
    };
    write(
        "mine/invert.graph.json",
        &graph.replace("ImageInvert", "Unheard"),
    );
    assert!(
        faults()[0].starts_with("mine/invert.graph.json:3: node 2"),
        "{:?}",
        faults()
    );
    write(
        "mine/invert.graph.json",
        &graph.replace("[\"1\", 0]", "[\"1\", 7]"),
    );
    assert!(faults()[0].starts_with("mine/invert.graph.json:3: node 2, input `image`"));
    write("mine/invert.graph.json", "{\n\n}}");
    assert!(faults()[0].starts_with("mine/invert.graph.json:3: it is no JSON"));
    write("mine/invert.graph.json", graph);
    write(
        "mine/invert.schema.json",
        "{\"type\": \"object\",\n \"properties\": {\"image\": {},\n  \"size\": {}}}",
    );
    assert_eq!(
        faults(),
        [
            "mine/invert.schema.json:3: the property `size` goes into no node; the model's file has no such field",
            "mine/invert.schema.json:2: the picture `image` is not among `required`; nothing stands for it",
        ]
    );
    write("mine/invert.schema.json", schema);
    write(
        "mine/invert.toml",
        "graph = \"invert.graph.json\"\nschema = \"invert.schema.json\"\n[output]\nnode = \"2\"\n\
         [fields.image]\ninto = [{ node = \"1\", input = \"image\" }]\n",
    );
    assert_eq!(
        faults()[..2],
        [
            "mine/invert.toml:5: input `image` of node 1 (LoadImage) takes a file; say `picture = true`",
            "mine/invert.toml:3: node 2 (ImageInvert) makes no outputs",
        ]
    );
}
