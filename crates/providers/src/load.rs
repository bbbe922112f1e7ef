//! From files to models: read, parse, check everything at once, and put the parts together.
//!
//! Loading either gives every model or the whole list of what is wrong: a catalog is never half loaded. Which models are
//! offered depends on the credentials that are set; whether the files are right does not.

mod alternates;
mod fault;
mod files;
mod kind;
mod parse;
mod switches;
mod watch;

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderValue;
use hyper_kit::client::ExtraCaError;
use hyper_kit::{AddressPolicy, Client, ClientConfig, Host};
use router_core::{Model, ModelDefinition, ModelId, Polling, Timer};

use crate::credential::Environment;
use crate::definition::{BaseUrl, Call, HostPattern, PartnerFile};
use crate::interpret::Dialect;
use crate::keys::{Breakers, KeyStatus, KeysError, PartnerKeys};
use crate::provider::PartnerModel;
use crate::talk::Egress;
use alternates::Pairs;
use parse::{ParsedModel, ParsedPartner};

pub use fault::Fault;
pub use files::{Builtin, File, Source};
pub use kind::{Kind, KindFolder, KindPartner};
pub use switches::{InvalidSwitch, SWITCHES_FILE, Switch, Switches};
pub use watch::Watch;

/// How many unused connections are kept for each host of a partner: one more would be made anew for nearly every call of a
/// busy moment, while an unused one costs a descriptor and some KiB for a quarter of a minute.
const IDLE_PER_PARTNER: usize = 256;

/// What loading depends on besides the files.
#[derive(Clone)]
pub struct Settings {
    client: Client,
    exempt: Vec<Host>,
    relocations: Vec<Relocation>,
    timer: Arc<dyn Timer>,
    kinds: Vec<Arc<dyn Kind>>,
    breakers: Breakers,
}

/// A partner's host that is asked somewhere else: a gateway, a region, a simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// The host as catalogs name it.
    pub host: Host,
    /// What stands for its scheme and host. The operator vouches for it: it may be plain `http` and private.
    pub base_url: BaseUrl,
}

/// What a catalog offers here.
#[derive(Debug)]
pub struct Loaded {
    /// The models that can be run, by id.
    pub models: Vec<LoadedModel>,
    /// The models that could be run and are switched off.
    pub switched_off: Vec<LoadedModel>,
    /// The models whose partner has no credentials, and what it lacks.
    pub without_credentials: Vec<(ModelId, String)>,
    /// What the operator has switched off.
    pub switches: Switches,
    /// Every partner of the catalog, by id.
    pub partners: Vec<PartnerStatus>,
}

/// A model that can be run.
#[derive(Clone, Debug)]
pub struct LoadedModel {
    /// For the catalog of the router.
    pub model: Arc<Model>,
    /// What runs it at a partner, for trying it out; `None` of a model of another kind.
    pub runner: Option<PartnerModel>,
}

/// Whether a partner is in use, and what brings it into use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartnerStatus {
    /// The first segment of its models' ids.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// The variables or files that hold its credential; never what is in them.
    pub credentials: Vec<String>,
    /// How many models it has.
    pub models: usize,
    /// Why its models are not offered; `None` when they are.
    pub missing: Option<String>,
}

impl Settings {
    /// Settings with a client of their own. `exempt` are hosts and ports that may be plain `http` and private.
    ///
    /// # Errors
    /// If the extra authorities cannot be used.
    pub fn new(
        exempt: Vec<Host>,
        relocations: Vec<Relocation>,
        extra_ca_pem: Option<Vec<u8>>,
        timer: Arc<dyn Timer>,
    ) -> Result<Self, ExtraCaError> {
        let mut exempt = exempt;
        exempt.extend(relocations.iter().map(|to| to.base_url.host().clone()));
        let client = Client::new(ClientConfig {
            policy: AddressPolicy {
                // Who may go without TLS is decided host by host, where a request is vetted.
                https_only: exempt.is_empty(),
                allow_private: exempt.clone(),
            },
            extra_ca_pem,
            user_agent: Some(HeaderValue::from_static("easel")),
            idle_per_host: IDLE_PER_PARTNER,
            ..ClientConfig::default()
        })?;
        Ok(Self {
            client,
            exempt,
            relocations,
            timer,
            kinds: Vec::new(),
            breakers: Breakers::default(),
        })
    }

    /// The same, with another kind of partners besides those that are asked over HTTP.
    #[must_use]
    pub fn with_kind(mut self, kind: Arc<dyn Kind>) -> Self {
        self.kinds.push(kind);
        self
    }

    /// How each key stands of the partners that were loaded with these settings.
    #[must_use]
    pub fn key_states(&self) -> Vec<KeyStatus> {
        self.breakers.states(Instant::now())
    }
}

/// Loads a catalog.
///
/// Of a catalog that is compiled in as a whole, models whose partner has no credential are only counted: tests have judged
/// their files, and most programs use a few of the partners.
///
/// # Errors
/// With everything that is wrong with the files, in their order. Nothing is loaded then.
pub fn load(
    source: &Source,
    settings: &Settings,
    environment: Environment<'_>,
) -> Result<Loaded, Vec<Fault>> {
    read(source, settings, environment, true)
}

/// Checks the files of a catalog as if every credential were set, and answers how many models they hold.
///
/// # Errors
/// With everything that is wrong.
pub fn check(source: &Source, settings: &Settings) -> Result<usize, Vec<Fault>> {
    let loaded = read(source, settings, &|_| None, false)?;
    Ok(loaded.partners.iter().map(|partner| partner.models).sum())
}

/// Loads a catalog. `trusts` what is compiled in, or judges that as well.
fn read(
    source: &Source,
    settings: &Settings,
    environment: Environment<'_>,
    trusts: bool,
) -> Result<Loaded, Vec<Fault>> {
    let mut faults = Vec::new();
    let of_kinds = settings.kinds.iter().map(|kind| kind.builtin());
    let files = source.files(of_kinds, &mut faults);
    let are_right = trusts && files.are_compiled_in;
    let mut loaded = Loaded {
        models: Vec::new(),
        switched_off: Vec::new(),
        without_credentials: Vec::new(),
        switches: Switches::default(),
        partners: Vec::new(),
    };
    let mut pairs = Pairs::default();
    for (id, of_partner) in &files.of_partners {
        if let Some(kind) = kind::named(of_partner) {
            kind::load(&kind, id, of_partner, settings, &mut loaded, &mut faults);
            continue;
        }
        let Some(partner) = &parse::partner(id, of_partner, &mut faults) else {
            continue;
        };
        check_addresses(partner, settings, &mut faults);
        let auth = &partner.file.auth;
        let keys = PartnerKeys::read(&partner.id, auth, environment, &settings.breakers);
        if let Err(KeysError::Wrong(reason)) = &keys {
            faults.push(Fault::at_start(&partner.path, reason.clone()));
        }
        let missing = keys.as_ref().err().map(KeysError::to_string);
        let ids = parse::ids(partner, of_partner, &mut faults);
        loaded.partners.push(PartnerStatus {
            id: partner.id.clone(),
            name: partner.file.name.clone(),
            credentials: auth.secrets().iter().map(ToString::to_string).collect(),
            models: ids.len(),
            missing: missing.clone(),
        });
        let keys = keys.unwrap_or_else(|_| PartnerKeys::none(&partner.id));
        for (id, file) in ids {
            // Files of a folder are compiled without a credential too: a mistake is found before it matters.
            if !(are_right && missing.is_some()) {
                let model = parse::model(&id, file, &partner.file, of_partner, &mut faults);
                let Some(model) = model else { continue };
                pairs.note(&model);
                match assemble(partner, &model, keys.clone(), settings) {
                    Ok(model) if missing.is_none() => loaded.models.push(model),
                    Ok(_) => {}
                    Err(fault) => {
                        faults.push(fault);
                        continue;
                    }
                }
            }
            if let Some(lacks) = &missing {
                loaded.without_credentials.push((id, lacks.clone()));
            }
        }
    }
    if !are_right {
        let others = loaded.models.iter().filter(|one| one.runner.is_none());
        pairs.check(others.map(|one| &*one.model), &mut faults);
    }
    if let Some(file) = source.switches(&mut faults) {
        switch_off(&file, &mut loaded, &mut faults);
    }
    if faults.is_empty() {
        Ok(loaded)
    } else {
        Err(faults)
    }
}

/// Sets the models aside that are switched off.
fn switch_off(file: &File, loaded: &mut Loaded, faults: &mut Vec<Fault>) {
    let switches = match Switches::read(file) {
        Ok(switches) => switches,
        Err(fault) => return faults.push(fault),
    };
    let usable = loaded.models.iter().map(|model| model.model.id());
    let others = loaded.without_credentials.iter().map(|(id, _)| id);
    // Where files are wrong not every model is known.
    if faults.is_empty() {
        let known: Vec<&ModelId> = usable.chain(others).collect();
        switches.check(file, &known, faults);
    }
    let is_off = |loaded: &mut LoadedModel| switches.is_off(loaded.model.id());
    loaded.switched_off = loaded.models.extract_if(.., is_off).collect();
    loaded.switches = switches;
}

/// Puts a model together.
fn assemble(
    partner: &ParsedPartner,
    model: &ParsedModel,
    keys: PartnerKeys,
    settings: &Settings,
) -> Result<LoadedModel, Fault> {
    let file = &partner.file;
    let call = &file.call[&model.call];
    let mut runner = PartnerModel {
        partner: partner.id.as_str().into(),
        model: model.id.model().into(),
        base_url: settings.base_url(base_of(file, call)),
        submit_address: None,
        headers: file.headers.clone(),
        values: model.file.values.clone(),
        fill: model.fill.clone(),
        dialect: Dialect::new(file, call, &model.file),
        read_on: model.file.read_on,
        egress: Egress {
            client: settings.client.clone(),
            allowed: allowed(file, settings),
            exempt: settings.exempt.clone(),
            keys,
            recorder: None,
        },
        timer: Arc::clone(&settings.timer),
    };
    runner.settle_address();
    let mut form = model.file.form(&file.name);
    if let Some(events) = &runner.dialect.events {
        form.streams = true;
        // A person who fills in a form waits for the whole.
        form.fixed.insert(events.asked_by.clone(), false.into());
    }
    let definition = ModelDefinition {
        id: model.id.clone(),
        charges_on_policy_rejection: model.file.charges_on_policy_rejection.into(),
        form,
        input_schema: model.schema.as_ref().map(|schema| schema.value.clone()),
        polling: polling(call, model),
        alternates: alternates::of(model).map_err(|reason| {
            Fault::mentioning(&model.path, &model.text, "[[alternate]]", reason)
        })?,
        provider: Arc::new(runner.clone()),
    };
    let schema_path = model
        .schema
        .as_ref()
        .map_or(&model.path, |schema| &schema.path);
    let compiled =
        Model::new(definition).map_err(|error| Fault::at_start(schema_path, error.to_string()))?;
    Ok(LoadedModel {
        model: Arc::new(compiled),
        runner: Some(runner),
    })
}

/// How tasks of a model are asked after: what its file says comes before its call's.
fn polling(call: &Call, model: &ParsedModel) -> Option<Polling> {
    let polled = call.polled.as_ref()?;
    let total_ms = model.file.timeouts.total_ms.or(call.timeouts.total_ms);
    Some(Polling {
        interval: polled.pace.interval,
        give_up_after: total_ms.map(Duration::from_millis),
    })
}

/// Plain `http` is for hosts that the operator vouches for.
fn check_addresses(partner: &ParsedPartner, settings: &Settings, faults: &mut Vec<Fault>) {
    for base in bases(&partner.file) {
        let exempt = || {
            let mut exempt = settings.exempt.iter();
            exempt.any(|host| host.same_as(base.host(), 80))
        };
        if !base.is_https() && !exempt() && settings.relocation(base).is_none() {
            faults.push(Fault::mentioning(
                &partner.path,
                &partner.text,
                base.as_str(),
                format!(
                    "{0} is plain http; use https, or exempt it by `plain_partners`: --plain-partners {0}",
                    base.host()
                ),
            ));
        }
    }
}

fn base_of<'a>(file: &'a PartnerFile, call: &'a Call) -> &'a BaseUrl {
    call.base_url.as_ref().unwrap_or(&file.base_url)
}

fn bases(file: &PartnerFile) -> impl Iterator<Item = &BaseUrl> {
    let calls = file.call.values();
    std::iter::once(&file.base_url).chain(calls.filter_map(|call| call.base_url.as_ref()))
}

/// Where a partner's credential may go: where its paths begin, and where else its file says.
fn allowed(file: &PartnerFile, settings: &Settings) -> Vec<HostPattern> {
    let mut allowed = file.allowed_hosts.clone();
    for base in bases(file) {
        allowed.push(base.host().clone().into());
        let elsewhere = settings.relocation(base);
        allowed.extend(elsewhere.map(|to| to.base_url.host().clone().into()));
    }
    allowed
}

impl Settings {
    fn relocation(&self, base: &BaseUrl) -> Option<&Relocation> {
        let mut relocations = self.relocations.iter();
        relocations.find(|relocation| relocation.host.same_as(base.host(), 443))
    }

    /// Where paths really begin: a relocation takes the place of scheme and host, and leaves the path.
    fn base_url(&self, base: &BaseUrl) -> String {
        match self.relocation(base) {
            Some(to) => format!("{}{}", to.base_url.as_str(), base.path()),
            None => base.as_str().to_owned(),
        }
    }
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("exempt", &self.exempt)
            .field("relocations", &self.relocations)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
