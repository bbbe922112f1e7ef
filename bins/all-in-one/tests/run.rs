//! `run` as a user starts it: the real program, its files, what it prints and its exit code.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A folder with a graph and a photograph, in which the program is started.
struct Desk {
    folder: TempDir,
}

const COPY: &str = r#"{
    "1": {"class_type": "LoadImage", "inputs": {"image": "photo.png"}},
    "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "sub/copy"}}
}"#;

impl Desk {
    fn new(graph: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let desk = Self { folder };
        desk.put("graph.json", graph.as_bytes());
        std::fs::copy(example("photo.png"), desk.path("photo.png")).expect("the example is there");
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path(name), bytes).expect("a file");
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        Ended::of(
            program()
                .args(["run", "graph.json"])
                .args(arguments)
                .current_dir(self.folder.path()),
        )
    }
}

/// How the program ended, and what it said.
struct Ended {
    code: Option<i32>,
    out: Vec<String>,
    err: String,
}

impl Ended {
    fn of(command: &mut Command) -> Self {
        let Output {
            status,
            stdout,
            stderr,
        } = command.output().expect("the program starts");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        Self {
            code: status.code(),
            out: text(stdout).lines().map(str::to_owned).collect(),
            err: text(stderr),
        }
    }

    fn refused(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{}", self.err);
        assert_eq!(self.out, [""; 0], "nothing was made");
        for word in words {
            assert!(self.err.contains(word), "{word:?} in {}", self.err);
        }
    }
}

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_all-in-one"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("EASEL_") {
            command.env_remove(name);
        }
    }
    command
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples")
        .join(name)
}

/// Width and height of a PNG file.
fn size(png: &Path) -> (u32, u32) {
    let bytes = std::fs::read(png).expect("the output is there");
    assert_eq!(&bytes[1..4], b"PNG");
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    (number(16), number(20))
}

#[test]
fn outputs_are_written_and_their_paths_printed() {
    let desk = Desk::new(COPY);
    let ended = desk.run(&["--out", "made"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_eq!(ended.out, ["made/sub/copy_00001_.png"]);
    assert_eq!(size(&desk.path("made/sub/copy_00001_.png")), (192, 144));
    assert!(ended.err.ends_with("2 of 2 nodes done\n"), "{}", ended.err);
    assert!(!ended.err.contains("WARN"), "{}", ended.err);
}

#[test]
fn outputs_count_on_from_what_is_there_and_overwrite_nothing() {
    let desk = Desk::new(COPY);
    std::fs::create_dir_all(desk.path("out/sub")).expect("a folder");
    desk.put("out/sub/copy_00001_.png", b"mine");
    let ended = desk.run(&[]);
    assert_eq!(ended.out, ["out/sub/copy_00002_.png"], "{}", ended.err);
    assert_eq!(
        std::fs::read(desk.path("out/sub/copy_00001_.png")).expect("there"),
        b"mine"
    );
    assert_eq!(desk.run(&[]).out, ["out/sub/copy_00003_.png"]);
    // As ComfyUI counts: whatever the ending, on from the highest.
    desk.put("out/sub/copy_00041_.webp", b"mine");
    assert_eq!(desk.run(&[]).out, ["out/sub/copy_00042_.png"]);
}

#[test]
fn a_file_and_a_value_are_set_from_the_command_line() {
    let desk = Desk::new(COPY);
    std::fs::rename(desk.path("photo.png"), desk.path("other.png")).expect("renamed");
    let ended = desk.run(&[
        "--input",
        "1.image=other.png",
        "--input",
        "2.filename_prefix=42",
    ]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_eq!(ended.out, ["out/42_00001_.png"]);
}

#[test]
fn a_data_directory_keeps_what_was_run_and_otherwise_nothing_stays() {
    let desk = Desk::new(COPY);
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let run = |data: &[&str]| {
        let mut command = program();
        command
            .args(["run", "graph.json"])
            .args(data)
            .current_dir(desk.folder.path());
        Ended::of(command.env("TMPDIR", temporary.path()))
    };
    assert_eq!(
        run(&["--data-dir", "kept"]).out,
        ["out/copy_00001_.png".replace("copy", "sub/copy")]
    );
    // The counter of names goes on where it was.
    assert_eq!(
        run(&["--data-dir", "kept"]).out,
        ["out/sub/copy_00002_.png"]
    );
    assert_eq!(run(&[]).out, ["out/sub/copy_00003_.png"]);
    let left = std::fs::read_dir(temporary.path())
        .expect("a folder")
        .count();
    assert_eq!(left, 0);
}

#[test]
fn a_file_that_is_not_found_is_told_with_where_it_was_looked_for() {
    let desk = Desk::new(&COPY.replace("photo.png", "absent.png"));
    let words = [
        "node 1 (LoadImage), input `image`",
        "\"absent.png\"",
        "--input 1.image=FILE",
    ];
    desk.run(&[]).refused(2, &words);
    desk.run(&["--input", "1.image=gone.png"])
        .refused(2, &["gone.png", "no such file"]);
}

#[test]
fn what_cannot_run_is_told_with_node_and_reason() {
    let desk = Desk::new(
        r#"{"7": {"class_type": "NoSuchNode", "inputs": {}}, "8": {"class_type": "SaveImage", "inputs": {}}}"#,
    );
    desk.run(&[]).refused(
        2,
        &["node 7", "NoSuchNode", "node 8 (SaveImage), input `images`"],
    );
    desk.run(&["--input", "9.x=1"])
        .refused(2, &["no such node", "7 (NoSuchNode), 8 (SaveImage)"]);
    desk.run(&["--input", "8.colour=1"])
        .refused(2, &["no input `colour`", "images, filename_prefix"]);
    desk.run(&["--input", "nonsense"])
        .refused(2, &["NODE.FIELD=FILE_OR_VALUE"]);
}

#[test]
fn what_is_no_workflow_is_told_with_its_file() {
    for (graph, words) in [
        ("{", "this is no JSON"),
        ("[]", "must be a JSON object"),
        ("{}", "no nodes"),
        (r#"{"nodes": [], "links": []}"#, "Save (API Format)"),
    ] {
        Desk::new(graph)
            .run(&[])
            .refused(2, &["graph.json: ", words]);
    }
    let desk = Desk::new(COPY);
    std::fs::remove_file(desk.path("graph.json")).expect("removed");
    desk.run(&[])
        .refused(2, &["graph.json: ", "cannot be read"]);
}

#[test]
fn a_graph_may_come_as_other_programs_write_it() {
    let with_mark = format!("\u{feff}{COPY}");
    let ui = r#"{"nodes": [], "links": [], "version": 0.4}"#;
    for graph in [
        with_mark,
        format!(r#"{{"prompt": {COPY}, "client_id": "x"}}"#),
        format!(r#"{{"workflow": {COPY}}}"#),
        // As pictures have them in their metadata.
        format!(r#"{{"workflow": {ui}, "prompt": {COPY}}}"#),
    ] {
        let ended = Desk::new(&graph).run(&[]);
        assert_eq!(ended.code, Some(0), "{graph}: {}", ended.err);
        assert_eq!(ended.out, ["out/sub/copy_00001_.png"]);
    }
    for graph in [ui.to_owned(), format!(r#"{{"workflow": {ui}}}"#)] {
        let words = ["the ComfyUI editor saves for itself", "Export (API)"];
        Desk::new(&graph).run(&[]).refused(2, &words);
    }
    // A node may be called so.
    let named = COPY.replace("\"1\"", "\"prompt\"");
    assert_eq!(Desk::new(&named).run(&[]).code, Some(0));
    let desk = Desk::new("");
    desk.put("graph.json", b"\xff\xfe{\0}\0");
    desk.run(&[])
        .refused(2, &["UTF-16", "save the file as UTF-8"]);
}

#[test]
fn a_picture_may_come_from_an_address() {
    // No server listens there: the failure names the address that the node asked.
    let desk = Desk::new(COPY);
    let hosts = ["--private-hosts", "127.0.0.1:1"];
    let address = ["--input", "1.image=https://127.0.0.1:1/photo.png"];
    desk.run(&[hosts, address].concat()).refused(
        1,
        &[
            "node 1 (LoadImage) failed: ",
            "127.0.0.1",
            "cannot be reached",
        ],
    );
    let graph = COPY.replace("photo.png", "https://127.0.0.1:1/photo.png");
    Desk::new(&graph)
        .run(&hosts)
        .refused(1, &["node 1 (LoadImage) failed: "]);
    desk.run(&["--input", "1.image=http://127.0.0.1:1/photo.png"])
        .refused(2, &["https"]);
}

#[test]
fn a_folder_that_takes_no_outputs_is_found_before_the_work() {
    let desk = Desk::new(COPY);
    desk.put("file", b"mine");
    for out in ["file", "file/below", "/proc/none/out"] {
        let ended = desk.run(&["--out", out]);
        ended.refused(2, &["--out", out, "name another folder"]);
        assert!(!ended.err.contains("nodes done"), "{}", ended.err);
    }
    // Nothing is left where nothing was made.
    desk.run(&["--out", "new/deep", "--input", "9.x=1"])
        .refused(2, &["no such node"]);
    assert!(!desk.path("new").exists());
}

#[test]
fn an_output_that_cannot_be_written_keeps_no_other_from_the_disk() {
    let desk = Desk::new(
        r#"{"1": {"class_type": "LoadImage", "inputs": {"image": "photo.png"}},
            "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "file/a"}},
            "3": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "sub/b"}}}"#,
    );
    std::fs::create_dir(desk.path("out")).expect("a folder");
    desk.put("out/file", b"mine");
    let ended = desk.run(&[]);
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    assert_eq!(ended.out, ["out/sub/b_00001_.png"], "{}", ended.err);
    assert!(
        ended
            .err
            .contains("out/file/a_00001_.png cannot be written"),
        "{}",
        ended.err
    );
}

#[test]
fn a_prefix_that_no_file_system_takes_is_told_before_the_end() {
    let prefix = "z".repeat(251);
    let desk = Desk::new(&COPY.replace("sub/copy", &format!("q11/{prefix}")));
    desk.run(&[])
        .refused(1, &["node 2 (SaveImage) failed: ", "235 bytes"]);
}

#[test]
fn classes_that_need_a_model_are_told_apart_from_unknown_ones() {
    let desk = Desk::new(
        r#"{"1": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "a"}},
            "2": {"class_type": "NoSuchNode", "inputs": {}},
            "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0]}}}"#,
    );
    let ended = desk.run(&[]);
    ended.refused(
        2,
        &[
            "node 1 (CheckpointLoaderSimple): ",
            "ComfyUI worker",
            "`nodes list`",
        ],
    );
    let unknown = ended.err.lines().find(|line| line.contains("NoSuchNode"));
    assert!(
        unknown.expect("a line of its own").contains("spelling"),
        "{}",
        ended.err
    );
}

#[test]
fn a_node_that_fails_is_named_with_its_reason() {
    let desk = Desk::new(COPY);
    desk.put("photo.png", b"no picture");
    desk.run(&[]).refused(1, &["node 1 (LoadImage) failed: "]);
}

#[test]
fn the_examples_run() {
    for (graph, output, expected) in [
        ("postcard.json", "postcard_00001_.png", (480, 568)),
        ("thumbnail.json", "thumbnail_00001_.png", (96, 96)),
    ] {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let mut command = program();
        command
            .arg("run")
            .arg(example(graph))
            .current_dir(folder.path());
        let ended = Ended::of(&mut command);
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        assert_eq!(ended.out, [format!("out/{output}")]);
        assert_eq!(size(&folder.path().join("out").join(output)), expected);
    }
}
