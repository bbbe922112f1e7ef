//! Settings that change while a server serves: SIGHUP reads the configuration again.
//!
//! A configuration that cannot be used changes nothing. One that can is brought into force as far as the server can do that while
//! it serves; what changed besides is named, and waits for a restart. Flags and variables are those of the start: a process
//! has no others.

mod status;

use std::error::Error;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use accounts::{AccountAdmin, Tier};
use admin_http::wire::SettingBody;
use clap::ArgMatches;
use hyper_kit::error_chain;
use identity::Identity;
use tokio_util::sync::CancellationToken;

use crate::admin::CatalogControl;
use crate::config::{ACCESS_KEYS, Key, ServerConfig, Settings};
use crate::logging::LogControl;
use crate::program::{self, Failure};
use crate::signals::Hangups;
use crate::systemd;

pub use status::ReloadStatus;

const LOG_LEVEL: &str = "log_level";

/// The settings in force of a server, as operators see them. Clones are the same.
#[derive(Clone, Debug)]
pub struct SettingsInForce(Arc<RwLock<Arc<[SettingBody]>>>);

/// What a serving server changes of itself.
#[derive(Clone)]
pub struct Adjustable {
    /// Tells whose requests they are.
    pub identity: Identity,
    /// Changes what accounts get that are given nothing else.
    pub accounts: Arc<dyn AccountAdmin>,
    /// Reads the catalog again, and the credentials of its partners.
    pub catalog: Option<Arc<dyn CatalogControl>>,
    /// What operators see.
    pub settings: Option<SettingsInForce>,
    /// How the last attempt ended.
    pub status: ReloadStatus,
}

/// What a configuration comes to, as far as it can change.
#[derive(Debug)]
pub struct Reread {
    /// What every server is told.
    pub server: ServerConfig,
    /// What an account gets that is given nothing else.
    pub tier: Tier,
}

/// Where a configuration comes from.
pub struct ConfigSource {
    /// Gathers flags, variables and the file.
    gather: Box<dyn Fn() -> Result<Settings, Failure> + Send + Sync>,
    /// Reads what was gathered.
    read: fn(&mut Settings) -> Result<Reread, Failure>,
    /// The settings that make [`Reread::tier`] and nothing else, so that they can change while a server serves.
    limits: &'static [&'static [&'static str]],
}

/// Reads the configuration of a serving server again.
pub struct Reloader {
    adjustable: Adjustable,
    log: LogControl,
    source: Arc<ConfigSource>,
    in_force: Settings,
}

/// What a new configuration changed.
#[derive(Debug, PartialEq, Eq)]
struct Changed {
    /// In force now.
    adjusted: Vec<&'static str>,
    /// Waiting for a restart.
    waiting: Vec<&'static str>,
}

impl SettingsInForce {
    /// What a server starts with.
    #[must_use]
    pub fn new(settings: Arc<[SettingBody]>) -> Self {
        Self(Arc::new(RwLock::new(settings)))
    }

    /// All of them.
    #[must_use]
    pub fn list(&self) -> Arc<[SettingBody]> {
        let list = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&list)
    }

    fn replace(&self, settings: Arc<[SettingBody]>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = settings;
    }
}

impl ConfigSource {
    /// The flags of this process, with its environment and its file, read as its configuration.
    #[must_use]
    pub fn of(
        matches: &ArgMatches,
        keys: &'static [&'static [Key]],
        read: fn(&mut Settings) -> Result<Reread, Failure>,
        limits: &'static [&'static [&'static str]],
    ) -> Self {
        let matches = matches.clone();
        Self {
            gather: Box::new(move || program::settings(&matches, keys)),
            read,
            limits,
        }
    }
}

impl Reloader {
    /// Over a server that `in_force` started.
    #[must_use]
    pub fn new(
        adjustable: Adjustable,
        log: LogControl,
        source: ConfigSource,
        in_force: Settings,
    ) -> Self {
        Self {
            adjustable,
            log,
            source: Arc::new(source),
            in_force,
        }
    }

    /// Reads the configuration again at every hang-up, until `stop`. One at a time: those that come meanwhile are one.
    pub(crate) async fn keep(mut self, mut hangups: Hangups, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = hangups.next() => {}
            }
            systemd::notify("RELOADING=1");
            self.reload().await;
            systemd::notify("READY=1");
        }
    }

    async fn reload(&mut self) {
        let status = self.adjustable.status.clone();
        match self.attempt().await {
            Ok(Changed { adjusted, waiting }) => {
                status.succeeded(&waiting);
                let (adjusted, waiting) = (adjusted.join(", "), waiting.join(", "));
                tracing::info!(changed = %adjusted, "the configuration was read again");
                if !waiting.is_empty() {
                    tracing::warn!(settings = %waiting, "changed settings wait for a restart");
                }
            }
            Err(reasons) => {
                status.refused();
                for reason in reasons {
                    tracing::error!(%reason, "the configuration is refused; the one before stays in force");
                }
            }
        }
    }

    /// Does all that can fail before it changes anything.
    async fn attempt(&mut self) -> Result<Changed, Vec<String>> {
        let (source, before) = (Arc::clone(&self.source), self.in_force.clone());
        let is_open = self.adjustable.identity.is_open();
        // It reads files: of the configuration, and of keys.
        let prepared =
            tokio::task::spawn_blocking(move || Prepared::of(&source, &before, is_open)).await;
        let prepared = prepared.unwrap_or_else(|_| Err("reading it panicked".to_owned()));
        let Prepared {
            settings,
            reread,
            credentials,
            changed,
        } = prepared.map_err(|reason| vec![reason])?;

        if let Some(catalog) = &self.adjustable.catalog {
            catalog.reload().await?;
        }
        if let Some(credentials) = credentials {
            self.adjustable.identity.replace(credentials);
        }
        if changed.adjusted.contains(&LOG_LEVEL) {
            self.log.set(&reread.server.log.levels);
        }
        self.adjustable.accounts.set_defaults(reread.tier);
        if let Some(shown) = &self.adjustable.settings {
            shown.replace(settings.in_force());
        }
        self.in_force = settings;
        Ok(changed)
    }
}

/// A configuration that was read again and can be brought into force.
struct Prepared {
    settings: Settings,
    reread: Reread,
    /// Where they changed.
    credentials: Option<identity::Credentials>,
    changed: Changed,
}

impl Prepared {
    fn of(source: &ConfigSource, before: &Settings, is_open: bool) -> Result<Self, String> {
        let told = |Failure { message, .. }: Failure| message;
        let mut fresh = (source.gather)().map_err(told)?;
        // Judged as a whole, also what waits: a restart must not fail for it.
        let whole = (source.read)(&mut fresh).map_err(told)?;

        // Whether a credential is needed at all decides what the console shows and where the server may listen.
        let stays_open = whole.server.access.anonymous == is_open;
        let can_change = |name: &&'static str| {
            *name == LOG_LEVEL
                || source.limits.iter().any(|names| names.contains(name))
                || (stays_open && ACCESS_KEYS.contains(name))
        };
        let (adjusted, waiting): (Vec<_>, Vec<_>) =
            before.differences(&fresh).into_iter().partition(can_change);

        // What waits stays as it is in force, also where something that changes follows from it.
        let mut settings = fresh.with(&waiting, before);
        let reread = (source.read)(&mut settings).map_err(told)?;
        let access = &reread.server.access;
        let credentials = adjusted.iter().any(|name| ACCESS_KEYS.contains(name));
        let credentials = credentials.then(|| access.credentials()).transpose();
        Ok(Self {
            credentials: credentials.map_err(|error| error_chain(&error as &dyn Error))?,
            settings,
            reread,
            changed: Changed { adjusted, waiting },
        })
    }
}

impl fmt::Debug for Adjustable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adjustable")
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Reloader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloader")
            .field("adjustable", &self.adjustable)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
