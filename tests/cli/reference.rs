//! What needs no server: help, completions, manual pages, schemas, and how fast the program starts.

use std::time::{Duration, Instant};

use super::*;

/// Every command that prints JSON, by the name of its schema.
const COMMANDS: [&str; 52] = [
    "account",
    "accounts",
    "assets delete",
    "assets get",
    "assets show",
    "assets upload",
    "call",
    "cancel",
    "deployments apply",
    "deployments events",
    "deployments list",
    "deployments logs",
    "deployments remove",
    "deployments rollback",
    "deployments scale",
    "deployments show",
    "deployments start",
    "deployments stop",
    "doctor",
    "error",
    "estimate",
    "job",
    "jobs",
    "keys add",
    "keys list",
    "keys revoke",
    "login",
    "logout",
    "logs",
    "model",
    "models",
    "outputs",
    "results",
    "run",
    "submit",
    "usage",
    "watch",
    "webhooks add",
    "webhooks change",
    "webhooks deliveries",
    "webhooks disable",
    "webhooks enable",
    "webhooks list",
    "webhooks remove",
    "webhooks rotate",
    "webhooks show",
    "webhooks test",
    "workers add",
    "workers drain",
    "workers list",
    "workers remove",
    "workers resume",
];

#[tokio::test]
async fn help_is_as_it_was() {
    let user = User::new();
    for (name, arguments) in [
        ("help.txt", &["--help"][..]),
        ("help_run.txt", &["run", "--help"]),
        ("help_call.txt", &["call", "--help"]),
        ("help_assets.txt", &["assets", "--help"]),
    ] {
        golden(name, &user.good(arguments).await);
    }
    // A program gets JSON about its own command line as well.
    for (words, message, hint) in [
        (&["jbos"][..], "unrecognized subcommand 'jbos'", "'jobs'"),
        (
            &["jobs", "-n", "many"],
            "invalid value 'many' for '--limit",
            "--help",
        ),
        (
            &["cancel"],
            "required arguments were not provided: <JOBS>",
            "--help",
        ),
    ] {
        let (code, error) = user.error(words).await;
        assert_eq!(code, 2, "{error}");
        let said = |name: &str| error[name].as_str().unwrap().to_owned();
        assert!(said("message").contains(message), "{error}");
        assert!(said("hint").contains(hint), "{error}");
    }
    let nothing = user.run(&[]).await;
    assert_eq!(nothing.code, 2);
    assert!(nothing.err.contains("Usage: easel"), "{}", nothing.err);
    let unknown = user.run(&["jbos"]).await;
    assert_eq!(unknown.code, 2);
    assert!(
        unknown.err.contains("similar") && unknown.err.contains("jobs"),
        "{}",
        unknown.err
    );
}

#[tokio::test]
async fn four_shells_complete_every_command() {
    let user = User::new();
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let script = user.good(&["completions", shell]).await;
        for command in ["run", "watch", "models", "call", "doctor"] {
            assert!(script.contains(command), "{shell} completes {command}");
        }
    }
}

/// Whether a program is installed. Where nothing may be skipped, it has to be.
fn is_there(test: &str, program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    assert!(
        found || std::env::var_os("CI").is_none(),
        "{program} must be installed where nothing may be skipped"
    );
    if !found {
        it::skipped(test, &format!("no {program}; `.ci/run` installs it"));
    }
    found
}

/// What a program prints that is given a script of `user`.
async fn read_by(user: &User, program: &str, arguments: &[&str]) -> String {
    let done = Command::new(program)
        .args(arguments)
        .current_dir(user.folder.path())
        .output()
        .await
        .unwrap();
    let complaint = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success() && complaint.is_empty(),
        "{program} {arguments:?}: {complaint}"
    );
    String::from_utf8(done.stdout).unwrap()
}

#[tokio::test]
async fn shells_read_their_completions_and_complete() {
    const TEST: &str = "shells_read_their_completions_and_complete";
    let user = User::new();
    for (shell, arguments) in [
        // What a person at a prompt gets for `easel mod` and for `easel keys a`, by the function that the script gives to the shell.
        (
            "bash",
            &[
                "--norc",
                "-c",
                "source ./script && COMP_WORDS=(easel mod) COMP_CWORD=1 && _easel easel mod easel && echo ${COMPREPLY[@]} \
                 && COMP_WORDS=(easel keys a) COMP_CWORD=2 && _easel easel a keys && echo ${COMPREPLY[@]}",
            ][..],
        ),
        (
            "fish",
            &[
                "--no-config",
                "-c",
                "source ./script; complete -C 'easel mod' | cut -f1; complete -C 'easel keys a' | cut -f1",
            ],
        ),
        // Its completions need a terminal. It says which function completes the command.
        (
            "zsh",
            &[
                "-f",
                "-c",
                "zsh -n ./script && autoload -U compinit && compinit -u -D && source ./script && echo $_comps[easel]",
            ],
        ),
    ] {
        if is_there(TEST, shell) {
            let script = user.good(&["completions", shell]).await;
            std::fs::write(user.path("script"), script).unwrap();
            let expected = ["models\nadd\n", "_easel\n"][usize::from(shell == "zsh")];
            assert_eq!(read_by(&user, shell, arguments).await, expected, "{shell}");
        }
    }
}

#[tokio::test]
async fn the_grammar_of_powershell_takes_its_completions() {
    const TEST: &str = "the_grammar_of_powershell_takes_its_completions";
    if it::lacks(TEST, &["EASEL_POWERSHELL"]) {
        return;
    }
    let user = User::new();
    let script = user.good(&["completions", "powershell"]).await;
    std::fs::write(user.path("script"), script).unwrap();
    let reader = root().join("tests/clients/powershell.py");
    let arguments = [
        "-c",
        "exec \"$EASEL_POWERSHELL\" \"$0\" < ./script",
        reader.to_str().unwrap(),
    ];
    read_by(&user, "sh", &arguments).await;
}

#[tokio::test]
async fn manual_pages_are_shown_without_a_warning() {
    const TEST: &str = "manual_pages_are_shown_without_a_warning";
    if !is_there(TEST, "man") {
        return;
    }
    let user = User::new();
    user.good(&["man", "pages"]).await;
    let all = "for page in pages/*.1; do LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings --local-file -Tutf8 \"$page\"; done";
    let shown = read_by(&user, "bash", &["-c", all]).await;
    assert!(shown.contains("uploads its files"), "{shown}");
}

#[tokio::test]
async fn every_command_has_a_manual_page() {
    let user = User::new();
    user.good(&["man", "pages"]).await;
    let pages: Vec<String> = std::fs::read_dir(user.path("pages"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for name in [
        "easel.1",
        "easel-run.1",
        "easel-call.1",
        "easel-assets-upload.1",
    ] {
        assert!(pages.contains(&name.to_owned()), "{name} in {pages:?}");
    }
    let page = |folder| std::fs::read_to_string(user.path(folder).join("easel-run.1")).unwrap();
    assert!(page("pages").contains("uploads its files"));
    // Of the day of the sources, where who packs them says so.
    let mut packing = user.command(["man", "packed"]);
    let packed = packing.env("SOURCE_DATE_EPOCH", "1700000000").output();
    assert!(packed.await.unwrap().status.success());
    let page = page("packed");
    let title = page.lines().find(|line| line.starts_with(".TH ")).unwrap();
    assert!(title.starts_with(".TH easel-run 1 2023-11-14 "), "{title}");
}

#[tokio::test]
async fn schemas_are_printed_whole_or_one_by_one() {
    let user = User::new();
    let file = std::fs::read_to_string(root().join("docs/schemas/easel.json")).unwrap();
    assert_eq!(user.good(&["schema"]).await, file);
    let document: Value = serde_json::from_str(&file).unwrap();
    let outputs = document["outputs"].as_object().unwrap();
    let names: Vec<&str> = outputs
        .keys()
        .map(String::as_str)
        .filter(|name| *name != "workflow")
        .collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, COMMANDS);
    for name in outputs.keys() {
        let one: Value = serde_json::from_str(&user.good(&["schema", name]).await).unwrap();
        assert!(one["$defs"].is_object(), "{name}");
    }
    let (code, error) = user.error(&["schema", "nothing"]).await;
    assert_eq!(code, 2);
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("there are login, logout, run"),
        "{error}"
    );
}

#[test]
fn it_starts_in_ten_milliseconds() {
    let program = binary_of("easel");
    let start = || {
        let begun = Instant::now();
        let output = std::process::Command::new(&program)
            .arg("--version")
            .env_clear()
            .output()
            .unwrap();
        assert!(output.status.success());
        begun.elapsed()
    };
    start();
    // What the program itself takes is the least of many; the rest is what else the machine does.
    let least = (0..50).map(|_| start()).min().unwrap();
    assert!(least < Duration::from_millis(10), "{least:?}");
}
