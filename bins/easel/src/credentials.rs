//! Which servers the user signed in to, and with which keys: one file that nobody else can read.
//!
//! A key belongs to one server and is never sent to another. It is never an argument, since other users of the machine see
//! arguments, and never in a message.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};

use crate::failure::{Failure, Kind};

/// The longest file that is read.
const LONGEST: u64 = 1 << 20;

/// What is in the file.
#[derive(Default)]
pub(crate) struct Credentials {
    path: PathBuf,
    /// The server signed in to last.
    pub(crate) current: Option<String>,
    /// The key of each server; none for a server that needs none.
    servers: BTreeMap<String, Option<SecretString>>,
}

impl Credentials {
    /// Reads the file of the user; nothing if there is none.
    pub(crate) fn load() -> Result<Self, Failure> {
        Self::read(&path(std::env::var_os)?)
    }

    fn read(path: &Path) -> Result<Self, Failure> {
        let broken = |reason: String| {
            Failure::usage(format!("{}: {reason}", path.display()))
                .hint("correct the file, or delete it and sign in again with `easel login`")
        };
        let empty = Self {
            path: path.to_owned(),
            ..Self::default()
        };
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(empty),
            Err(error) => return Err(broken(error.to_string())),
        };
        if metadata.permissions().mode() & 0o077 != 0 {
            return Err(Failure::usage(format!(
                "{} can be read by other users, and holds your keys",
                path.display()
            ))
            .hint(format!("make it yours alone: chmod 600 {}", path.display())));
        }
        if metadata.len() > LONGEST {
            return Err(broken("the file is too long".to_owned()));
        }
        let text = fs::read(path).map_err(|error| broken(error.to_string()))?;
        let value: Value =
            serde_json::from_slice(&text).map_err(|_| broken("this is no JSON".to_owned()))?;
        let servers = value["servers"].as_object();
        let servers = servers.into_iter().flatten().map(|(server, entry)| {
            let key = entry["key"].as_str();
            (
                server.clone(),
                key.map(|key| SecretString::from(key.to_owned())),
            )
        });
        Ok(Self {
            current: value["current"].as_str().map(str::to_owned),
            servers: servers.collect(),
            ..empty
        })
    }

    /// Where the file is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The servers that are known.
    pub(crate) fn servers(&self) -> impl Iterator<Item = &str> {
        self.servers.keys().map(String::as_str)
    }

    /// The key of a server.
    pub(crate) fn key(&self, server: &str) -> Option<SecretString> {
        self.servers.get(server)?.clone()
    }

    /// Remembers a server with its key and makes it the current one.
    pub(crate) fn sign_in(&mut self, server: &str, key: Option<SecretString>) {
        self.servers.insert(server.to_owned(), key);
        self.current = Some(server.to_owned());
    }

    /// Forgets a server; whether it was known.
    pub(crate) fn sign_out(&mut self, server: &str) -> bool {
        if self.current.as_deref() == Some(server) {
            self.current = None;
        }
        self.servers.remove(server).is_some()
    }

    /// Writes the file: whole, mode 0600, in a folder of mode 0700.
    pub(crate) fn save(&self) -> Result<(), Failure> {
        self.write().map_err(|error| {
            let path = self.path.display();
            Failure::new(Kind::Failed, format!("{path} cannot be written: {error}"))
                .hint("make the folder writable, or set EASEL_API_KEY instead of signing in")
        })
    }

    fn write(&self) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        let servers = self.servers.iter().map(|(server, key)| {
            let key = key.as_ref().map(ExposeSecret::expose_secret);
            (server.clone(), json!({ "key": key }))
        });
        let value = json!({"current": self.current, "servers": servers.collect::<Map<_, _>>()});
        // A temporary file has the mode 0600 from its first moment.
        let mut file = tempfile::Builder::new()
            .prefix(".credentials-")
            .permissions(fs::Permissions::from_mode(0o600))
            .tempfile_in(folder)?;
        writeln!(file, "{value:#}")?;
        file.as_file().sync_all()?;
        file.persist(&self.path)?;
        Ok(())
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("path", &self.path)
            .field("current", &self.current)
            .finish_non_exhaustive()
    }
}

/// `$XDG_CONFIG_HOME/easel/credentials.json`, otherwise below `~/.config`.
fn path(variable: impl Fn(&'static str) -> Option<OsString>) -> Result<PathBuf, Failure> {
    let folder = |name| {
        variable(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let config =
        folder("XDG_CONFIG_HOME").or_else(|| folder("HOME").map(|home| home.join(".config")));
    let config = config.ok_or_else(|| {
        Failure::usage("neither HOME nor XDG_CONFIG_HOME names a folder for the credentials")
            .hint("set HOME, or name the server with --server and its key in EASEL_API_KEY")
    })?;
    Ok(config.join("easel").join("credentials.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_is_read_again_and_is_for_one_user() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("deep/credentials.json");
        let mut credentials = Credentials::read(&file).expect("none");
        assert_eq!(credentials.current, None);
        let key = SecretString::from("secret-1".to_owned());
        credentials.sign_in("https://a", Some(key));
        credentials.sign_in("http://b", None);
        credentials.save().expect("saved");
        let mode = fs::metadata(&file).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut read = Credentials::read(&file).expect("read");
        assert_eq!(read.current.as_deref(), Some("http://b"));
        let key = read.key("https://a").expect("a key");
        assert_eq!(key.expose_secret(), "secret-1");
        assert!(read.key("http://b").is_none() && read.key("https://c").is_none());
        assert!(read.sign_out("http://b") && !read.sign_out("http://b"));
        assert_eq!(read.current, None);
        assert!(!format!("{read:?}").contains("secret"));
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("credentials.json");
        fs::write(&file, "{}").expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("changed");
        let refused = Credentials::read(&file).expect_err("others can read it");
        assert_eq!(refused.kind, Kind::Usage);
        assert!(refused.text().contains("chmod 600"), "{}", refused.text());
    }

    #[test]
    fn the_folder_follows_the_environment() {
        let found = |xdg: Option<&str>, home: Option<&str>| {
            path(|name| match name {
                "XDG_CONFIG_HOME" => xdg.map(OsString::from),
                _ => home.map(OsString::from),
            })
        };
        let at = |xdg, home| found(xdg, home).expect("a path").display().to_string();
        assert_eq!(at(Some("/x"), Some("/h")), "/x/easel/credentials.json");
        assert_eq!(
            at(Some("relative"), Some("/h")),
            "/h/.config/easel/credentials.json"
        );
        assert!(found(None, None).is_err());
    }
}
