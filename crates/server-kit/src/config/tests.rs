//! Layers, origins and refusals of a whole configuration.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Command;
use secrecy::ExposeSecret;

use super::*;

/// A program that was started: its flags, its environment, and the text of its file.
struct Start<'a> {
    flags: &'a [&'a str],
    variables: &'a [(&'a str, &'a str)],
    file: &'a str,
}

const KEYS: &[&[Key]] = &[&[LISTEN, DATA_DIR], SERVER_KEYS];

const NOTHING: Start<'_> = Start {
    flags: &[],
    variables: &[],
    file: "",
};

impl Start<'_> {
    fn settings(&self) -> Result<Settings, ConfigError> {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("easel.toml");
        std::fs::write(&path, self.file).expect("a file");
        let command = Settings::flags(Command::new("easel"), KEYS);
        let matches = command.get_matches_from([&["easel"], self.flags].concat());
        let mut environment: Environment = self
            .variables
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        environment.push(("EASEL_CONFIG".into(), path.into()));
        Settings::gather(KEYS, &matches, environment)
    }

    fn config(&self) -> Result<(ServerConfig, Settings), ConfigError> {
        let mut settings = self.settings()?;
        ServerConfig::read(&mut settings).map(|config| (config, settings))
    }

    /// The refusal, without the folder of the file.
    fn refusal(&self) -> String {
        let error = self.config().map(|_| ()).expect_err("it is refused");
        let text = error.to_string();
        match (text.find("/"), text.find("easel.toml")) {
            (Some(start), Some(end)) if start < end => {
                format!("{}{}", &text[..start], &text[end..])
            }
            _ => text,
        }
    }
}

#[test]
fn a_flag_wins_over_a_variable_over_the_file_over_the_default() {
    let file = "drain_grace = \"1s\"\n";
    let variables = [("EASEL_DRAIN_GRACE", "2s")];
    let flags = ["--drain-grace", "3s"];
    for (start, seconds, origin) in [
        (NOTHING, 30, "default"),
        (Start { file, ..NOTHING }, 1, "easel.toml, line 1"),
        (
            Start {
                file,
                variables: &variables,
                ..NOTHING
            },
            2,
            "variable EASEL_DRAIN_GRACE",
        ),
        (
            Start {
                file,
                variables: &variables,
                flags: &flags,
            },
            3,
            "flag --drain-grace",
        ),
    ] {
        let (config, settings) = start.config().expect("a configuration");
        assert_eq!(config.drain_grace.as_secs(), seconds);
        let shown = settings.origin("drain_grace").to_string();
        assert!(shown.ends_with(origin), "{shown}");
    }
}

#[test]
fn an_unknown_key_is_refused_with_its_line_and_the_nearest_known_one() {
    let file = "# a comment\nlog_format = \"json\"\nlistn = \"127.0.0.1:1\"\n";
    assert_eq!(
        Start { file, ..NOTHING }.refusal(),
        "easel.toml, line 3: unknown key `listn`; did you mean `listen`?"
    );
    let file = "[colours]\nx = 1";
    assert_eq!(
        Start { file, ..NOTHING }.refusal(),
        "easel.toml, line 1: unknown key `colours`; `config show` lists the known ones"
    );
    // The file cannot lead on to another one.
    let file = "config = \"other.toml\"";
    assert!(
        Start { file, ..NOTHING }
            .refusal()
            .contains("unknown key `config`")
    );
}

#[test]
fn an_unknown_variable_is_told_with_the_nearest_known_one() {
    let variables = [
        ("EASEL_LISTN", "x"),
        ("EASEL_COLOUR", "y"),
        ("EASEL_SERVER", "of the command line of users"),
        ("OTHER_LISTEN", "z"),
    ];
    let (_, settings) = Start {
        variables: &variables,
        ..NOTHING
    }
    .config()
    .expect("a configuration");
    assert_eq!(
        settings.unknown_variables(),
        [
            "the variable EASEL_COLOUR means nothing to this program",
            "the variable EASEL_LISTN means nothing; did you mean EASEL_LISTEN?",
        ]
    );
}

#[test]
fn a_bad_value_is_told_with_its_key_its_origin_and_what_is_allowed() {
    let allowed =
        "write a whole number with a unit, such as 500ms, 30s, 15m, 24h or 7d, at most 3650d";
    let flags = ["--drain-grace", "soon"];
    assert_eq!(
        Start {
            flags: &flags,
            ..NOTHING
        }
        .refusal(),
        format!("`drain_grace` cannot be \"soon\" (from flag --drain-grace); {allowed}")
    );
    let variables = [("EASEL_DRAIN_GRACE", "")];
    assert_eq!(
        Start {
            variables: &variables,
            ..NOTHING
        }
        .refusal(),
        format!("`drain_grace` cannot be \"\" (from variable EASEL_DRAIN_GRACE); {allowed}")
    );
    let file = "\ndrain_grace = 30";
    assert_eq!(
        Start { file, ..NOTHING }.refusal(),
        format!("`drain_grace` cannot be \"30\" (from easel.toml, line 2); {allowed}")
    );
}

#[test]
fn a_value_of_another_type_is_told_with_its_line() {
    for (file, expected) in [
        (
            "listen = 1.5",
            "easel.toml, line 1: `listen` cannot be a number with a fraction; write a text or a whole number",
        ),
        (
            "insecure_no_auth = \"true\"",
            "easel.toml, line 1: `insecure_no_auth` cannot be a text; write true or false",
        ),
        (
            "allowed_origins = [1]",
            "easel.toml, line 1: `allowed_origins` cannot be an array like this; write an array of texts",
        ),
        (
            "listen.port = 1",
            "easel.toml, line 1: `listen` cannot be a table; write a text or a whole number",
        ),
    ] {
        assert_eq!(Start { file, ..NOTHING }.refusal(), expected);
    }
}

#[test]
fn what_is_no_toml_is_told_with_its_line() {
    let file = "log_format = \"json\"\nlisten = \n";
    assert!(
        Start { file, ..NOTHING }
            .refusal()
            .starts_with("easel.toml, line 2: ")
    );
    let file = "listen = \"127.0.0.1:1\"\nlisten = \"127.0.0.1:2\"\n";
    assert!(
        Start { file, ..NOTHING }
            .refusal()
            .contains("duplicate key")
    );
}

#[test]
fn a_file_that_is_not_there_is_told_with_what_named_it() {
    let flags = ["--config", "/nowhere/easel.toml"];
    let error = Start {
        flags: &flags,
        ..NOTHING
    }
    .settings()
    .expect_err("it is not there");
    assert_eq!(
        error.to_string(),
        "the configuration file /nowhere/easel.toml (from flag --config) cannot be read; correct its path"
    );
}

#[test]
fn lists_are_commas_repeated_flags_or_an_array() {
    let expected = ["http://a", "http://b"];
    let check = |start: Start<'_>| {
        let (config, _) = start.config().expect("a configuration");
        let origins: Vec<String> = config
            .allowed_origins
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(origins, expected);
    };
    check(Start {
        flags: &["--allowed-origins", "http://a,http://b"],
        ..NOTHING
    });
    check(Start {
        flags: &[
            "--allowed-origins",
            "http://a",
            "--allowed-origins",
            "http://b",
        ],
        ..NOTHING
    });
    check(Start {
        variables: &[("EASEL_ALLOWED_ORIGINS", "http://a, http://b")],
        ..NOTHING
    });
    check(Start {
        file: "allowed_origins = [\"http://a\", \"http://b\"]",
        ..NOTHING
    });
}

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

const SECRET: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn what_is_shown_is_a_file_that_says_the_same() {
    let flags = [
        "--listen",
        "127.0.0.1:1",
        "--insecure-no-auth",
        "--mount-path",
        "/a/b",
    ];
    let (_, settings) = Start {
        flags: &flags,
        ..NOTHING
    }
    .config()
    .expect("a configuration");
    let shown = settings.show();
    assert!(
        shown.contains("mount_path = \"/a/b\"  # flag --mount-path\n")
            && shown.contains("# token is not set\n"),
        "{shown}"
    );
    let (_, again) = Start {
        file: &shown,
        ..NOTHING
    }
    .config()
    .expect("the same configuration");
    let values = |text: &str| -> Vec<String> {
        text.lines()
            .map(|line| line.split("  # ").next().unwrap_or_default().to_owned())
            .collect()
    };
    assert_eq!(values(&again.show()), values(&shown));
}

#[test]
fn a_command_may_settle_what_nobody_set() {
    let mut settings = NOTHING.settings().expect("settings");
    settings.preset("log_level", "warn", "the progress bar has the terminal");
    ServerConfig::read(&mut settings).expect("a configuration");
    assert!(
        settings
            .show()
            .contains("log_level = \"warn\"  # default, the progress bar has the terminal\n")
    );
    let mut settings = Start {
        flags: &["--log-level", "debug"],
        ..NOTHING
    }
    .settings()
    .expect("settings");
    settings.preset("log_level", "warn", "");
    assert_eq!(
        *settings.origin("log_level"),
        Origin::Flag("--log-level".to_owned())
    );
}

#[test]
fn a_mount_path_starts_with_a_slash_and_ends_without_one() {
    for path in ["", "/a", "/deployment/x", "/a.b/-_~"] {
        assert!(
            Start {
                flags: &["--mount-path", path],
                ..NOTHING
            }
            .config()
            .is_ok(),
            "{path}"
        );
    }
    for path in ["/", "a", "/a/", "//a", "/a/../b", "/a b", "/{x}", "/a?b"] {
        assert!(
            Start {
                flags: &["--mount-path", path],
                ..NOTHING
            }
            .config()
            .is_err(),
            "{path}"
        );
    }
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    use std::os::unix::ffi::OsStringExt;
    let command = Settings::flags(Command::new("easel"), KEYS);
    let matches = command.get_matches_from(["easel"]);
    let environment = vec![("EASEL_LISTEN".into(), OsString::from_vec(vec![0xff]))];
    let error = Settings::gather(KEYS, &matches, environment).expect_err("no text");
    assert!(matches!(error, ConfigError::NotText(name) if name == "EASEL_LISTEN"));
}

#[test]
fn flags_stand_before_or_behind_a_subcommand() {
    let command = || {
        Settings::flags(
            Command::new("easel").subcommand(Command::new("serve")),
            KEYS,
        )
    };
    for line in [
        ["easel", "--data-dir", "/d", "serve"],
        ["easel", "serve", "--data-dir", "/d"],
    ] {
        let matches = command().get_matches_from(line);
        let mut settings = Settings::gather(KEYS, &matches, Vec::new()).expect("settings");
        let config = ServerConfig::read(&mut settings).expect("a configuration");
        assert_eq!(config.place.data_dir, PathBuf::from("/d"));
    }
}

mod credentials;

#[test]
fn host_names_are_those_that_the_operator_gave_anywhere() {
    let flags = [
        "--allowed-hosts",
        "Gpu-Box,easel.example",
        "--public-url",
        "https://public.example/x",
        "--allowed-origins",
        "http://pages.example:5173",
    ];
    let (config, settings) = Start {
        flags: &flags,
        ..NOTHING
    }
    .config()
    .expect("a configuration");
    let names = config.host_names();
    let mut names: Vec<&str> = names.iter().collect();
    names.sort_unstable();
    let known = [
        "easel.example",
        "gpu-box",
        "pages.example",
        "public.example",
    ];
    assert_eq!(names, known);
    let shown = settings.show();
    let line = "allowed_hosts = [\"gpu-box\", \"easel.example\"]  # flag --allowed-hosts";
    assert!(shown.contains(line), "{shown}");
    let flags = ["--allowed-hosts", "gpu-box:80"];
    let refusal = Start {
        flags: &flags,
        ..NOTHING
    }
    .refusal();
    assert!(refusal.contains("without ports"), "{refusal}");
}

#[test]
fn a_program_that_embeds_a_server_names_keys_as_a_file_does() {
    let values = [("listen", "127.0.0.1:0"), ("drain_grace", "3s")];
    let mut settings = Settings::of(KEYS, &values).expect("both are keys");
    let config = ServerConfig::read(&mut settings).expect("both are allowed");
    assert_eq!(config.drain_grace.as_secs(), 3);
    assert_eq!(config.listen.tcp().map(|it| it.port()), Some(0));
    assert_eq!(settings.origin("listen"), &Origin::Host);
    let shown = settings.show();
    assert!(
        shown.contains("drain_grace = \"3s\"  # the program"),
        "{shown}"
    );

    let unknown = Settings::of(KEYS, &[("drain-grace", "3s")]).expect_err("it is no key");
    assert_eq!(
        unknown.to_string(),
        "unknown key `drain-grace`; did you mean `drain_grace`?"
    );
    let mut settings = Settings::of(KEYS, &[("drain_grace", "soon")]).expect("it is a key");
    let refused = ServerConfig::read(&mut settings).expect_err("it is no time");
    let text = refused.to_string();
    assert!(
        text.starts_with("`drain_grace` cannot be \"soon\" (from the program); write "),
        "{text}"
    );
}

#[test]
fn an_installation_in_a_database_is_named_by_both_of_its_addresses() {
    const BUCKET: &str = "s3://pictures";
    let place = |database: &str| {
        let flags = ["--store", database, "--blobs", BUCKET];
        let start = Start {
            flags: &flags,
            ..NOTHING
        };
        let mut settings = start.settings()?;
        let place = InstallationPlace::read(&mut settings)?;
        Ok::<_, ConfigError>((place.cloud.expect("both are there"), settings.show()))
    };
    for address in ["postgres://a@b/c", "host=/run/postgresql dbname=easel"] {
        let (cloud, shown) = place(address).expect("it is an address");
        assert_eq!(cloud.database.expose_secret(), address);
        assert_eq!(cloud.bucket, BUCKET);
        assert!(!shown.contains(address), "{shown}");
        assert_eq!(cloud.connections, 16, "what nobody set");
    }
    for (count, expected) in [
        ("2", Some(2)),
        ("64", Some(64)),
        ("1", None),
        ("many", None),
    ] {
        let flags = [
            "--store",
            "postgres://a@b/c",
            "--blobs",
            BUCKET,
            "--store-connections",
            count,
        ];
        let start = Start {
            flags: &flags,
            ..NOTHING
        };
        let mut settings = start.settings().expect("they are keys");
        let place = InstallationPlace::read(&mut settings).ok();
        let connections = place.map(|place| place.cloud.expect("both are there").connections);
        assert_eq!(connections, expected, "{count}");
    }
    let refused = place("easel").expect_err("it is a name").to_string();
    assert!(refused.contains("postgres://USER@HOST/NAME"), "{refused}");
    for half in [["--store", "postgres://a@b/c"], ["--blobs", BUCKET]] {
        let start = Start {
            flags: &half,
            ..NOTHING
        };
        let mut settings = start.settings().expect("they are keys");
        InstallationPlace::read(&mut settings).expect_err("the other half is missing");
    }
}
