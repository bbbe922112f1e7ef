//! On a pseudo-terminal: what is asked, what is drawn, and what an interrupt does.

use it::pty::Terminal;
use serde_json::json;

use super::*;

/// A graph that takes some seconds.
fn slow() -> Value {
    let mut graph = json!({
        "0": {"class_type": "EmptyImage", "inputs": {"width": 2000, "height": 2000, "batch_size": 1, "color": 255}},
    });
    for node in 1..12 {
        graph[node.to_string()] = json!({"class_type": "ImageBlur",
            "inputs": {"image": [(node - 1).to_string(), 0], "blur_radius": 31, "sigma": 10.0}});
    }
    graph["save"] = json!({"class_type": "SaveImage", "inputs": {"images": ["11", 0], "filename_prefix": "slow"}});
    graph
}

#[tokio::test]
async fn a_key_is_asked_for_and_not_shown() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_with(data.path(), ["--token", "a-token-of-the-operator"])
        .await
        .unwrap();
    let user = User::new();
    let mut terminal =
        Terminal::start(user.command(["login", &format!("http://{}", server.address)])).unwrap();
    terminal.wait_for("(empty for none): ").await;
    terminal.write("a-token-of-the-operator\n").await.unwrap();
    let status = terminal.end().await.unwrap();
    assert!(status.success(), "{}", terminal.shown);
    assert!(
        terminal.shown.contains("signed in to http://"),
        "{}",
        terminal.shown
    );
    assert!(!terminal.shown.contains("a-token"), "{}", terminal.shown);
    user.json("jobs", &["jobs"]).await;
}

#[tokio::test]
async fn an_interrupted_question_changes_nothing() {
    let (server, _data) = server().await;
    let user = User::of(&server);
    let mut terminal = Terminal::start(user.command(["login"])).unwrap();
    terminal.wait_for("(empty for none): ").await;
    terminal.write("half\u{3}").await.unwrap();
    let status = terminal.end().await.unwrap();
    assert_eq!(status.code(), Some(130), "{}", terminal.shown);
    assert!(!terminal.shown.contains("half"), "{}", terminal.shown);
    assert!(!user.path("home/.config").exists());
}

#[tokio::test]
async fn a_run_has_a_bar_and_shows_its_picture() {
    let (server, _data) = server().await;
    let user = User::of(&server).with("TERM", "xterm-kitty");
    user.write("graph.json", &inverted("photo.png"));
    let mut terminal = Terminal::start(user.command(["run", "graph.json"])).unwrap();
    assert!(
        terminal.end().await.unwrap().success(),
        "{}",
        terminal.shown
    );
    let shown = &terminal.shown;
    assert!(
        shown.contains("\u{1b}_Ga=T,f=100"),
        "a picture in {shown:?}"
    );
    assert!(shown.contains("out/inverted_00001_.png"), "{shown:?}");
    assert!(shown.contains("succeeded: 3 of 3 nodes"), "{shown:?}");

    let mut terminal =
        Terminal::start(user.command(["run", "graph.json", "--images", "none"])).unwrap();
    assert!(terminal.end().await.unwrap().success());
    assert!(!terminal.shown.contains("\u{1b}_G"), "{:?}", terminal.shown);
}

#[tokio::test]
async fn an_interrupt_cancels_the_job_that_was_started() {
    let (server, _data) = server().await;
    let user = User::of(&server).with("TERM", "xterm");
    user.write("graph.json", &slow());
    let mut terminal = Terminal::start(user.command(["run", "graph.json"])).unwrap();
    terminal.wait_for("nodes done, node").await;
    interrupt(&terminal).await;
    let status = terminal.end().await.unwrap();
    assert_eq!(status.code(), Some(130), "{}", terminal.shown);
    assert!(
        terminal.shown.contains("was canceled"),
        "{}",
        terminal.shown
    );
    let jobs = user.json("jobs", &["jobs"]).await;
    assert_eq!(jobs[0]["status"], "canceled");
}

#[tokio::test]
async fn an_interrupt_of_watch_leaves_the_job_alone() {
    let (server, _data) = server().await;
    let user = User::of(&server).with("TERM", "xterm");
    user.write("graph.json", &slow());
    let id = user.good(&["submit", "graph.json"]).await;
    let mut terminal = Terminal::start(user.command(["watch", id.trim()])).unwrap();
    terminal.wait_for("nodes done, node").await;
    interrupt(&terminal).await;
    let status = terminal.end().await.unwrap();
    assert_eq!(status.code(), Some(130), "{}", terminal.shown);
    assert!(terminal.shown.contains("still runs"), "{}", terminal.shown);
    let ended = user.run(&["watch", id.trim()]).await;
    assert_eq!(ended.code, 0, "{}", ended.err);
}

#[tokio::test]
async fn tables_have_headings_and_colours_only_where_they_are_wanted() {
    let (server, _data) = server().await;
    let user = User::of(&server).with("TERM", "xterm");
    user.write("graph.json", &one_picture("a"));
    let id = user.good(&["submit", "graph.json"]).await;
    user.good(&["watch", id.trim()]).await;
    let shown = async |user: &User, arguments: &[&str]| {
        let mut terminal = Terminal::start(user.command(arguments)).unwrap();
        assert!(
            terminal.end().await.unwrap().success(),
            "{}",
            terminal.shown
        );
        terminal.shown
    };
    let table = shown(&user, &["jobs"]).await;
    assert!(
        table.starts_with("ID") && table.contains("STATUS"),
        "{table:?}"
    );
    let one = shown(&user, &["jobs", id.trim()]).await;
    assert!(one.contains("\u{1b}[32msucceeded\u{1b}[0m"), "{one:?}");
    let plain = shown(&user.with("NO_COLOR", "1"), &["jobs", id.trim()]).await;
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
}

/// Sends the signal of Ctrl-C.
async fn interrupt(terminal: &Terminal) {
    let pid = terminal.pid().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status().await;
    assert!(sent.unwrap().success());
}
