//! What loads, what is refused and how it is told, and what a reload notices.

mod alternates;
mod kinds;
mod shipped;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use hyper_kit::Host;
use jiff::Timestamp;
use router_core::Timer;

use super::{Fault, Loaded, Relocation, Settings, Source, Watch, check, load};
use crate::talk::Address;

struct Stopped;

#[async_trait]
impl Timer for Stopped {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    async fn sleep(&self, _: Duration) {
        std::future::pending().await
    }
}

/// A folder of the system's that goes when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("providers-{}-{number}", std::process::id());
        let folder = Self(std::env::temp_dir().join(name));
        fs::create_dir_all(&folder.0).expect("the system has room");
        for (path, text) in files {
            folder.write(path, text);
        }
        folder
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("it has one")).expect("the system has room");
        fs::write(path, text).expect("the system has room");
    }

    fn source(&self) -> Source {
        Source {
            builtin: false,
            folder: Some(self.0.clone()),
        }
    }

    fn faults(&self) -> Vec<String> {
        let faults = check(&self.source(), &settings(&[], &[])).expect_err("something is wrong");
        let shown = |fault: Fault| {
            fault
                .to_string()
                .replace(&format!("{}/", self.0.display()), "")
        };
        faults.into_iter().map(shown).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is the system's to clean.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn settings(exempt: &[&str], relocations: &[(&str, &str)]) -> Settings {
    let host = |text: &&str| Host::parse(text).expect("a host");
    let relocation = |(from, to): &(&str, &str)| Relocation {
        host: host(from),
        base_url: (*to).to_owned().try_into().expect("an address"),
    };
    Settings::new(
        exempt.iter().map(host).collect(),
        relocations.iter().map(relocation).collect(),
        None,
        Arc::new(Stopped),
    )
    .expect("the usual authorities")
}

/// An environment in which every partner has one key.
fn one_key(key: &str) -> impl Fn(&str) -> Option<String> {
    let is_more =
        |name: &str| name.ends_with("_WEIGHT") || name.ends_with(|end: char| end.is_ascii_digit());
    move |name| (!is_more(name)).then(|| key.to_owned())
}

fn ids(loaded: &Loaded) -> Vec<String> {
    let ids = loaded
        .models
        .iter()
        .map(|model| model.model.id().to_string());
    ids.collect()
}

const PARTNER: &str = r#"
name = "Acme"
base_url = "https://api.acme.test"

[auth]
kind = "bearer"
secret = { env = "ACME_KEY" }

[call.run]
style = "sync"

[call.run.submit]
path = "/v1/{endpoint}"
"#;

const MODEL: &str = r#"
schema = "cat.json"
charges_on_policy_rejection = "no"

[values]
endpoint = "cat"

[price]
kind = "fixed"
cents = 4
"#;

const SCHEMA: &str = r#"{"type": "object", "properties": {"a": {"type": "string"}}}"#;

fn acme(changes: &[(&str, &str)]) -> Folder {
    let mut files = BTreeMap::from([
        ("acme/partner.toml", PARTNER),
        ("acme/cat.toml", MODEL),
        ("acme/cat.json", SCHEMA),
    ]);
    files.extend(changes.iter().copied());
    Folder::new(&files.into_iter().collect::<Vec<_>>())
}

#[test]
fn a_model_without_credentials_is_not_listed_and_the_variable_is_told() {
    let folder = acme(&[]);
    let load = |value: Option<&str>| {
        let environment = |name: &str| value.filter(|_| name == "ACME_KEY").map(str::to_owned);
        load(&folder.source(), &settings(&[], &[]), &environment).expect("nothing is wrong")
    };
    let without = load(None);
    assert!(without.models.is_empty());
    let status = &without.partners[0];
    assert_eq!(status.credentials, ["ACME_KEY"]);
    assert_eq!(status.missing.as_deref(), Some("ACME_KEY is not set"));
    assert_eq!((status.id.as_str(), status.models), ("acme", 1));
    let with = load(Some("secret"));
    assert_eq!(ids(&with), ["acme/cat"]);
    assert_eq!(with.partners[0].missing, None);
    assert!(!format!("{with:?}").contains("secret"));
}

#[test]
fn a_secret_may_be_in_a_file() {
    let folder = acme(&[]);
    folder.write("key.txt", "from a file\n");
    let path = folder.0.join("key.txt");
    let with_file = PARTNER.replace(
        "{ env = \"ACME_KEY\" }",
        &format!("{{ file = \"{}\" }}", path.display()),
    );
    folder.write("acme/partner.toml", &with_file);
    let loaded = load(&folder.source(), &settings(&[], &[]), &|_| None).expect("right");
    assert_eq!(ids(&loaded), ["acme/cat"]);
}

#[test]
fn the_documented_partner_loads_also_with_what_is_added_next() {
    let document = include_str!("../../../../docs/PARTNERS.md");
    let (first, small) = document
        .split_once("## A small partner\n")
        .expect("it is documented");
    let block = |text: &str, kind: &str, at: usize| {
        let fence = format!("```{kind}\n");
        let block = text.split(&fence).nth(at + 1).expect("it is there");
        block.split("```").next().expect("it ends").to_owned()
    };
    let (partner, model) = (block(small, "toml", 0), block(small, "toml", 1));
    let (errors, node) = (block(first, "toml", 0), block(first, "toml", 1));
    let (with_errors, with_node) = (partner.clone() + &errors, model.clone() + &node);
    let schema = block(first, "json", 0);
    for files in [[&partner, &model], [&with_errors, &with_node]] {
        let folder = Folder::new(&[
            ("acme/partner.toml", files[0]),
            ("acme/painter.toml", files[1]),
            ("acme/painter.schema.json", &schema),
        ]);
        let loaded = load(&folder.source(), &settings(&[], &[]), &one_key("k"));
        assert_eq!(ids(&loaded.expect("right")), ["acme/painter"]);
    }
}

#[test]
fn a_folder_adds_and_replaces() {
    let folder = acme(&[]);
    folder.write(
        "bfl/flux-pro-1.1.toml",
        "charges_on_policy_rejection = \"yes\"\n[price]\nkind = \"fixed\"\ncents = 5\n",
    );
    let source = Source::with_builtin(Some(folder.0.clone()));
    let loaded = load(&source, &settings(&[], &[]), &one_key("key")).expect("right");
    assert!(ids(&loaded).contains(&"acme/cat".to_owned()));
    let replaced = loaded
        .models
        .iter()
        .find(|model| model.model.id().as_str() == "bfl/flux-pro-1.1");
    let replaced = replaced.expect("it is still there");
    assert!(!replaced.model.document().is_authored());
    let price = replaced.model.provider().price(&serde_json::json!({}));
    assert_eq!(price.hold_cents(), 5);
}

#[test]
fn a_fault_names_file_line_and_reason() {
    for (path, text, expected) in [
        (
            "acme/partner.toml",
            PARTNER.replace("https://", "ftp://"),
            "acme/partner.toml:3: `ftp://api.acme.test` is no address like https://api.example.com/v1",
        ),
        (
            "acme/partner.toml",
            PARTNER.replace("https://", "http://"),
            "acme/partner.toml:3: api.acme.test is plain http; use https, or exempt it by `plain_partners`: --plain-partners api.acme.test",
        ),
        (
            "acme/partner.toml",
            PARTNER.replace("name =", "nome ="),
            "acme/partner.toml:2: unknown field `nome`, expected one of `name`, `base_url`, `allowed_hosts`, `auth`, `headers`, `errors`, `texts`, `call`",
        ),
        (
            "acme/partner.toml",
            PARTNER.replace("kind = \"bearer\"", "kind = \"bear\""),
            "acme/partner.toml:6: unknown variant `bear`, expected one of `bearer`, `header`, `query`, `basic`, `hs256_jwt`, `tc3_hmac_sha256`, `none`",
        ),
        (
            "acme/partner.toml",
            PARTNER.replace("\"sync\"", "\"poll\""),
            "acme/partner.toml:9: a call of style `poll` needs `task`, `poll` and `state`",
        ),
        (
            "acme/cat.toml",
            MODEL.replace("[values]\nendpoint = \"cat\"\n", ""),
            "acme/cat.toml:1: the call `run` needs `endpoint` among `values`",
        ),
        (
            "acme/cat.toml",
            MODEL.replace("endpoint = \"cat\"", "endpoint = \"cat\"\nspare = \"x\""),
            "acme/cat.toml:7: the call `run` has no gap `{spare}`",
        ),
        (
            "acme/cat.toml",
            MODEL.replace("cents = 4", "cents = -4"),
            "acme/cat.toml:8: an amount in cents is neither negative nor above ten million dollars",
        ),
        (
            "acme/cat.toml",
            format!("call = \"walk\"{MODEL}"),
            "acme/cat.toml:1: the partner has no call `walk`",
        ),
        (
            "acme/cat.toml",
            format!("stream = \"sse\"{MODEL}"),
            "acme/cat.toml:1: the call `run` has no `events` to stream",
        ),
        (
            "acme/cat.toml",
            MODEL.replace("cat.json", "dog.json"),
            "acme/cat.toml:2: there is no dog.json beside it",
        ),
        (
            "acme/cat.json",
            "{\n  \"type\": \n}".to_owned(),
            "acme/cat.json:3: it is no JSON: expected value at line 3 column 1",
        ),
        (
            "acme/Cat.toml",
            MODEL.to_owned(),
            "acme/Cat.toml:1: a model id is `provider/model`: lower-case letters and digits with single '.', '_' or '-' between them",
        ),
        (
            "lone.toml",
            MODEL.to_owned(),
            "lone.toml:1: a file belongs into the folder of its partner",
        ),
        (
            "zoo/cat.toml",
            MODEL.to_owned(),
            "zoo/cat.toml:1: there is no partner.toml beside it",
        ),
    ] {
        let folder = acme(&[(path, &text)]);
        assert_eq!(folder.faults(), [expected], "{text}");
    }
}

#[test]
fn all_faults_are_told_at_once() {
    let folder = acme(&[
        ("acme/cat.json", "{\"type\": \"cat\"}"),
        ("acme/dog.toml", "price = 3"),
        ("zoo/partner.toml", "name ="),
    ]);
    let faults = folder.faults();
    let files: Vec<&str> = faults
        .iter()
        .map(|fault| fault.split(':').next().expect("it names one"))
        .collect();
    assert_eq!(
        files,
        ["acme/cat.json", "acme/dog.toml", "zoo/partner.toml"]
    );
}

#[test]
fn a_plain_address_is_for_exempted_hosts() {
    let plain = PARTNER.replace("https://api.acme.test", "http://10.0.0.5:8000/base");
    let folder = acme(&[("acme/partner.toml", &plain)]);
    let check = |exempt: &[&str]| check(&folder.source(), &settings(exempt, &[]));
    assert!(check(&[]).is_err());
    assert!(check(&["10.0.0.5"]).is_err());
    assert!(check(&["10.0.0.5:8001"]).is_err());
    assert_eq!(check(&["10.0.0.5:8000"]), Ok(1));
}

#[test]
fn a_relocation_takes_the_place_of_scheme_and_host() {
    let with_path = PARTNER.replace("https://api.acme.test", "https://api.acme.test/deep/");
    let folder = acme(&[("acme/partner.toml", &with_path)]);
    let settings = settings(&[], &[("api.acme.test", "http://127.0.0.1:9/acme")]);
    let loaded = load(&folder.source(), &settings, &one_key("key")).expect("right");
    let runner = loaded.models[0]
        .runner
        .as_ref()
        .expect("it runs at a partner");
    assert_eq!(runner.base_url, "http://127.0.0.1:9/acme/deep");
    let submit_address = runner.submit_address.as_ref().map(ToString::to_string);
    let there = submit_address.is_some_and(|it| it.starts_with("http://127.0.0.1:9/acme/deep/"));
    assert!(there, "it is the same for all submissions");
    let vet = |url: &str| runner.egress.vet(Address::Told(url.to_owned()));
    vet("http://127.0.0.1:9/acme/x").expect("it is exempted");
    vet("https://api.acme.test/x").expect("it is the partner's");
    for elsewhere in [
        "http://api.acme.test/x",
        "http://127.0.0.1:10/acme/x",
        "http://127.0.0.1/acme/x",
        "https://api.acme.test.evil.test/x",
        "https://api.acme.test@evil.test/x",
        "https://evil.test/?api.acme.test",
        "https://api.acme.test:8443/x",
        "ftp://api.acme.test/x",
        "//api.acme.test/x",
        "/x",
        "",
    ] {
        assert!(vet(elsewhere).is_err(), "{elsewhere}");
    }
}

#[test]
fn a_change_of_the_folder_is_noticed_once() {
    let folder = acme(&[]);
    let mut watch = Watch::new(folder.0.clone());
    assert!(!watch.has_changed());
    folder.write("acme/cat.toml", &format!("{MODEL}\n# longer\n"));
    assert!(watch.has_changed());
    assert!(!watch.has_changed());
    folder.write("acme/dog.toml", MODEL);
    assert!(watch.has_changed());
    fs::remove_file(folder.0.join("acme/dog.toml")).expect("it is there");
    assert!(watch.has_changed());
    fs::remove_dir_all(&folder.0).expect("it is there");
    assert!(watch.has_changed());
    assert!(!Path::new(&folder.0).exists());
}

#[test]
fn a_task_has_the_time_of_its_model_or_of_its_call() {
    let partner = |timeouts: &str| {
        format!(
            "name = \"A\"\nbase_url = \"https://a.test\"\nauth = {{ kind = \"none\" }}\n[call.x]\nstyle = \"poll\"\n\
             submit = {{ path = \"/\" }}\ntask = {{ id = \"/id\" }}\npoll = {{ path = \"/\", interval_ms = 3000 }}\n\
             state = {{ pointer = \"/s\", ok = [\"OK\"] }}\n{timeouts}"
        )
    };
    let model = |timeouts: &str| {
        format!(
            "charges_on_policy_rejection = \"no\"\n{timeouts}\n[price]\nkind = \"fixed\"\ncents = 1\n"
        )
    };
    let loaded = |of_call: &str, of_model: &str| {
        let (partner, model) = (partner(of_call), model(of_model));
        let folder = acme(&[("p/partner.toml", &partner), ("p/m.toml", &model)]);
        load(&folder.source(), &settings(&[], &[]), &|_| None)
    };
    let given = |of_call: &str, of_model: &str| {
        let loaded = loaded(of_call, of_model).expect("it is right");
        let found = loaded
            .models
            .iter()
            .find(|one| one.model.id().as_str() == "p/m");
        let polling = found.and_then(|one| one.model.polling()).expect("it polls");
        assert_eq!(polling.interval.as_millis(), 3000);
        polling.give_up_after.map(|after| after.as_millis())
    };
    let (minute, hour) = (
        "timeouts = { total_ms = 60000 }",
        "timeouts = { total_ms = 3600000 }",
    );
    assert_eq!(given("", ""), None);
    assert_eq!(given(minute, ""), Some(60_000));
    assert_eq!(given("", hour), Some(3_600_000));
    assert_eq!(given(minute, hour), Some(3_600_000));
    for (of_call, of_model) in [
        ("timeouts = { total_ms = 0 }", ""),
        ("", "timeouts = { total_ms = 999 }"),
        ("", "timeouts = { total_ms = 86400001 }"),
    ] {
        let faults = loaded(of_call, of_model).expect_err("no time for a task");
        assert!(faults[0].reason.contains("a second to a day"), "{faults:?}");
    }
}

#[test]
fn what_is_switched_off_is_set_aside_and_a_switch_for_nothing_is_a_mistake() {
    let loaded = |switches: &str| {
        let folder = acme(&[("switches.toml", switches)]);
        let source = Source {
            builtin: true,
            ..folder.source()
        };
        load(&source, &settings(&[], &[]), &one_key("secret"))
    };
    let all = loaded("").expect("it is right");
    assert!(all.switched_off.is_empty());
    let without = loaded("off = [\"bfl/*\", \"openai/dall-e-3\"]").expect("it is right");
    let off: Vec<_> = without
        .switched_off
        .iter()
        .map(|one| one.model.id())
        .collect();
    assert_eq!(off.len() + without.models.len(), all.models.len());
    assert!(off.iter().any(|id| id.as_str() == "openai/dall-e-3"));
    assert!(off.iter().filter(|id| id.provider() == "bfl").count() > 2);
    assert!(!ids(&without).iter().any(|id| id.starts_with("bfl/")));
    for (switches, line, reason) in [
        (
            "\noff = [\"bfl/none\"]",
            2,
            "the catalog has nothing that `bfl/none` names",
        ),
        ("off = [\"BFL\"]", 1, "`BFL` names neither a model"),
        ("on = []", 1, "unknown field `on`"),
    ] {
        let faults = loaded(switches).expect_err("a mistake");
        assert!(faults[0].file.ends_with("switches.toml"), "{faults:?}");
        assert_eq!(faults[0].line, line, "{faults:?}");
        assert!(faults[0].reason.contains(reason), "{faults:?}");
    }
}
