//! An installation with rows of every kind, and in them what is easily lost: U+0000 and other letters, the largest numbers, nothing.

use asset_store::BlobHash;
use bytes::Bytes;
use uuid::Uuid;

use crate::transfer::{PIECE_BYTES, Part, Row, Value};

/// Rows of a part that mean something together with those of the other parts.
pub(super) fn of(part: &'static Part, blobs: &[Bytes; 2]) -> Vec<Row> {
    let hash = |blob: usize| bytes(BlobHash::of(&blobs[blob]).as_bytes());
    let size = |blob: usize| Value::Int(blobs[blob].len() as i64);
    let nul = || bytes(b"with\0nul and \xc3\xa9");
    let now = 1_800_000_000_000_000;
    let job = |n: u128| id(0x10 + n);
    let asset = |n: u128| id(0x20 + n);
    let generation = |n: u128| id(0x30 + n);
    let time = |n: i64| Value::Int(now + n);
    let int = Value::Int;
    let row = |values: &[(&str, Value)]| -> Row {
        let mut row = vec![Value::Null; part.columns.len()];
        for (column, value) in values {
            row[part.place(column)] = value.clone();
        }
        row
    };
    match part.name {
        "installation" => vec![row(&[
            ("id", id(0x99)),
            ("secret", bytes(&[1; 32])),
            ("link_key", bytes(&[2; 32])),
            ("link_key_before", bytes(&[3; 32])),
            ("link_key_number", int(5)),
        ])],
        "accounts" => {
            let plain = |name: &str| {
                row(&[
                    ("id", text(name)),
                    ("name", text("A \u{1F4F7} name")),
                    ("suspended", int(0)),
                    ("subscribed", int(1)),
                    ("router", int(1)),
                    ("billed", int(0)),
                    ("created_at", time(0)),
                    ("balance_cents", int(-7)),
                    ("spent_at", int(0)),
                    ("spent_hour_cents", int(0)),
                    ("spent_day_cents", int(0)),
                    ("spent_month_cents", int(0)),
                ])
            };
            let mut limited = plain("acme");
            for (column, value) in [
                ("suspended", int(1)),
                ("concurrent_jobs", int(1)),
                ("queued_jobs", int(2)),
                ("streams", int(3)),
                ("upload_bytes", int(4)),
                ("stored_bytes", int(i64::MAX)),
                ("submissions", text("none")),
                ("upload_retention", int(5)),
                ("job_retention", int(6)),
                ("concurrent_calls", int(7)),
                ("committed_spend_cents", int(8)),
                ("budgets", text("none")),
                ("scoped_budgets", text("5/day label:team=blue")),
                ("windows", text("none")),
                ("entitlements", text("none")),
                ("keep_results", int(1)),
                ("spent_at", time(3)),
                ("spent_hour_cents", int(9)),
                ("spent_day_cents", int(10)),
                ("spent_month_cents", int(11)),
            ] {
                limited[part.place(column)] = value;
            }
            vec![limited, plain("b"), plain("c")]
        }
        "scoped_spend" => vec![row(&[
            ("account", text("acme")),
            ("scope", text("label:team=blue")),
            ("spent_at", time(3)),
            ("spent_hour_cents", int(1)),
            ("spent_day_cents", int(2)),
            ("spent_month_cents", int(3)),
        ])],
        "api_keys" => vec![row(&[
            ("id", text("abcdefgh")),
            ("hash", bytes(&[4; 32])),
            ("account", text("acme")),
            ("name", text("laptop")),
            ("scopes", text("jobs:read jobs:write")),
            ("created_at", time(1)),
            ("revoked_at", time(2)),
        ])],
        "ledger" => (1..=3)
            .map(|seq| {
                row(&[
                    ("account", text("acme")),
                    ("seq", int(seq)),
                    ("why", int(1 + seq % 2)),
                    ("cause", id(seq.unsigned_abs().into())),
                    ("amount_cents", int(-seq)),
                    ("at", time(seq)),
                ])
            })
            .collect(),
        "sessions" => vec![row(&[
            ("token", bytes(&[5; 32])),
            ("account", text("b")),
            ("credential", bytes(&[6; 32])),
            ("began_at", time(0)),
            ("ends_at", time(9)),
        ])],
        "user_settings" => vec![row(&[
            ("account", text("acme")),
            ("settings", text(r#"{"b":1,"a":"\u0000"}"#)),
        ])],
        "user_files" => vec![row(&[
            ("account", text("acme")),
            ("path", text("workflows/a.json")),
            ("bytes", nul()),
            ("created_at", time(0)),
            ("modified_at", time(1)),
        ])],
        "assets" => (0..3)
            .map(|n| {
                let blob = usize::from(n == 2);
                let mut asset = row(&[
                    ("id", asset(n)),
                    ("seq", int(7 + 3 * n as i64)),
                    ("account", text("acme")),
                    ("hash", hash(blob)),
                    ("size_bytes", size(blob)),
                    ("content_type", text("image/png")),
                    ("tags", text("[]")),
                    ("created_at", time(n as i64)),
                    ("temp", int(0)),
                ]);
                if n == 1 {
                    asset[part.place("file_path")] = text("out/\u{e9}_1.png");
                    asset[part.place("expires_at")] = time(99);
                    asset[part.place("job_id")] = job(2);
                    asset[part.place("temp")] = int(1);
                }
                asset
            })
            .collect(),
        "asset_holds" => vec![
            row(&[("asset", asset(0)), ("kind", int(1)), ("job_id", job(1))]),
            row(&[("asset", asset(0)), ("kind", int(3)), ("job_id", id(0))]),
            row(&[("asset", asset(1)), ("kind", int(2)), ("job_id", job(2))]),
        ],
        "asset_keys" => vec![row(&[
            ("account", text("acme")),
            ("digest", bytes(&[7; 32])),
            ("fingerprint", bytes(&[8; 32])),
            ("asset", asset(0)),
            ("expires_at", time(5)),
        ])],
        "output_counters" => vec![row(&[
            ("account", text("acme")),
            ("counter", text("out/\u{e9}")),
            ("number", int(41)),
        ])],
        "stored_bytes" => vec![row(&[("account", text("acme")), ("bytes", int(123))])],
        "sweeps" => vec![row(&[
            ("name", text("assets")),
            ("last_at", time(0)),
            ("hold_left", int(0)),
            ("confirmed", int(1)),
        ])],
        "jobs" => {
            let plain = |n: u128, status: &str| {
                row(&[
                    ("id", job(n)),
                    ("number", int(100 - n as i64)),
                    ("account", text("acme")),
                    (
                        "requirements",
                        text(r#"{"engine":"native","classes":[],"files":[],"secret_at":null}"#),
                    ),
                    ("account_room", int(2)),
                    ("body_bytes", int(30)),
                    ("revision", int(4)),
                    ("status", text(status)),
                    ("epoch", int(2)),
                    ("lost_claims", int(1)),
                    ("created_at", time(0)),
                    ("updated_at", time(1)),
                    ("expires_at", time(i64::from(u32::MAX))),
                    ("retention", int(86_400_000_000)),
                    ("progress_value", Value::Real(1. / 3.)),
                    ("nodes_done", int(1)),
                    ("nodes_total", int(3)),
                    ("outputs", int(0)),
                    ("metadata", text("{}")),
                    ("workflow", bytes(br#"{"1":{}}"#)),
                    ("files", text("{}")),
                    ("extra_pnginfo", bytes(b"")),
                    ("origin", bytes(b"")),
                ])
            };
            let mut over = plain(2, "succeeded");
            for (column, value) in [
                ("stored_bytes", int(1 << 40)),
                ("worker", id(0x77)),
                ("started_at", time(2)),
                ("completed_at", time(3)),
                ("current_node", text("7")),
                ("current_node_class", text("Made\0Up")),
                ("step", int(1)),
                ("steps", int(4)),
                ("message", text("line\nof text")),
                ("outputs", int(1)),
                (
                    "error",
                    text(
                        r#"{"code":"x","message":"\u0000","node_id":null,"class_type":null,"exception_type":null,"traceback":null}"#,
                    ),
                ),
                ("metadata", text(r#"{"team":"r\u00e9d","b":"2"}"#)),
                ("targets", text(r#"["1"]"#)),
                ("extra_pnginfo", bytes(br#"{"a":"\u0000"}"#)),
                ("origin", nul()),
            ] {
                over[part.place(column)] = value;
            }
            vec![plain(1, "queued"), over, plain(3, "queued")]
        }
        "job_logs" => vec![row(&[
            ("job", job(2)),
            ("text", nul()),
            ("truncated", int(1)),
            ("captured_at", time(1)),
            ("complete", int(0)),
            (
                "report",
                text(r#"{"cached":null,"nodes":[],"shown":{},"stopped_at":null}"#),
            ),
        ])],
        "job_outputs" => vec![row(&[
            ("job", job(2)),
            ("number", int(0)),
            ("node_id", text("9")),
            ("output", int(0)),
            ("kind", text("image")),
            ("temp", int(1)),
            ("path", text("out/\u{e9}_1.png")),
            ("content_type", text("image/png")),
            ("size_bytes", size(0)),
            ("asset", asset(1)),
            ("hash", hash(0)),
        ])],
        "job_keys" => vec![row(&[
            ("account", text("acme")),
            ("digest", bytes(&[9; 32])),
            ("fingerprint", bytes(&[10; 32])),
            ("job", job(1)),
        ])],
        "job_turns" => vec![row(&[("account", text("acme")), ("last_claim", int(120))])],
        "generations" => {
            let running = |n: u128| {
                row(&[
                    ("id", generation(n)),
                    ("account", text("acme")),
                    ("model", text("a/b")),
                    ("hold_cents", int(5)),
                    ("received_at", time(0)),
                    ("dispatched_at", time(1)),
                    ("replay", int(0)),
                    ("api_key", text("abcd2345")),
                ])
            };
            let ended = |n: u128, replay: i64| {
                let mut ended = running(n);
                for (column, value) in [
                    ("accepted_at", time(2)),
                    ("task_id", nul()),
                    ("settled_at", time(3)),
                    ("charge_cents", int(4)),
                    ("outcome", text("answered")),
                    ("content_type", text("image/png")),
                    ("replay", int(replay)),
                ] {
                    ended[part.place(column)] = value;
                }
                ended
            };
            let mut accepted = running(1);
            for (column, value) in [
                ("handle", nul()),
                ("poll_after_ms", int(1_500)),
                ("accepted_at", time(2)),
                ("task_id", bytes(b"task")),
            ] {
                accepted[part.place(column)] = value;
            }
            let mut failed = ended(4, 0);
            for (column, value) in [
                ("outcome", text("failed")),
                ("bucket", text("provider_error")),
                ("code", nul()),
                ("message", nul()),
                ("content_type", Value::Null),
            ] {
                failed[part.place(column)] = value;
            }
            vec![running(0), accepted, ended(2, 1), ended(3, 2), failed]
        }
        "replays" => pieces(&generation(2), b'r'),
        "queued_bodies" => pieces(&generation(8), b'q'),
        "call_keys" => [(2, 1), (8, 2)]
            .map(|(n, stage)| {
                row(&[
                    ("account", text("acme")),
                    ("key", bytes(&[n; 32])),
                    ("fingerprint", bytes(&[11; 32])),
                    ("generation", generation(n.into())),
                    ("stage", int(stage)),
                    ("expires_at", time(i64::from(u32::MAX))),
                ])
            })
            .to_vec(),
        "calls" => (0..3)
            .map(|n| {
                row(&[
                    ("received_at", time(0)),
                    ("request", id(0x40 + n)),
                    ("account", text("acme")),
                    ("key", bytes(&[2; 32])),
                    ("generation", generation(2)),
                    ("replayed", int(1)),
                    ("answered_at", time(4)),
                    ("delivered", int(0)),
                    ("api_key", text("abcd2345")),
                ])
            })
            .collect(),
        "queued_calls" => {
            let request = |n: u8, state: i64| {
                row(&[
                    ("id", generation(n.into())),
                    ("seq", int(n.into())),
                    ("state", int(state)),
                    ("account", text("acme")),
                    ("model", text("a/b")),
                    ("query", text("a=1")),
                    ("api_key", text("abcd2345")),
                    ("key", bytes(&[n; 32])),
                    ("received_at", time(0)),
                    ("expires_at", time(i64::from(u32::MAX))),
                ])
            };
            let mut over = request(9, 3);
            for (column, value) in [
                ("cancelled_at", time(1)),
                ("ended_at", time(1)),
                ("failure", text("cancelled")),
                ("message", nul()),
            ] {
                over[part.place(column)] = value;
            }
            vec![request(2, 2), request(8, 0), over]
        }
        "call_servings" => vec![row(&[
            ("generation", generation(2)),
            ("serving", text(r#"{"attempts":[]}"#)),
        ])],
        "call_labels" => vec![row(&[
            ("received_at", time(1)),
            ("request", generation(2)),
            ("labels", text(r#"{"team":"blue"}"#)),
        ])],
        "kept_results" => {
            let result = |place: i64, state: i64| {
                row(&[
                    ("generation", generation(2)),
                    ("place", int(place)),
                    ("account", text("acme")),
                    ("pointer", text("/images/0/url")),
                    ("settled_at", time(4)),
                    ("state", int(state)),
                    ("attempts", int(1)),
                    ("due_at", time(5)),
                ])
            };
            let with = |mut row: Row, values: Vec<(&str, Value)>| {
                for (column, value) in values {
                    row[part.place(column)] = value;
                }
                row
            };
            let waits = vec![("address", text("https://example.com/a?sig=1"))];
            let kept = vec![
                ("file", id(0x40)),
                ("hash", bytes(&[9; 32])),
                ("size_bytes", int(17)),
                ("content_type", text("image/png")),
            ];
            let failed = vec![("reason", text("it answered 404"))];
            vec![
                with(result(0, 0), waits),
                with(result(1, 1), kept),
                with(result(2, 2), failed),
            ]
        }
        "webhooks" => vec![row(&[
            ("id", id(0x50)),
            ("account", text("acme")),
            ("url", text("https://example.com/hook")),
            ("kinds", int(3)),
            ("secret_version", int(2)),
            ("previous_until", time(5)),
            ("failures", int(1)),
            ("failing_since", time(2)),
            ("created_at", time(0)),
        ])],
        "webhook_deliveries" => [(3, Value::Null), (7, time(4))]
            .map(|(place, delivered_at)| {
                row(&[
                    ("place", int(place)),
                    ("webhook", id(0x50)),
                    ("message", id(0x51)),
                    ("kind", text("job.ended")),
                    ("object", text("job")),
                    ("at", time(1)),
                    ("data", text(r#"{"message":"\u0000"}"#)),
                    ("next_at", time(2)),
                    ("delivered_at", delivered_at),
                    ("attempts", int(1)),
                    ("attempted_at", time(2)),
                    ("status", int(503)),
                    ("error", text("it answered 503")),
                ])
            })
            .to_vec(),
        "budgets_reached" => vec![row(&[
            ("account", text("acme")),
            ("window", text("hour")),
            ("ends_at", time(9)),
        ])],
        "deployments" => vec![row(&[
            ("name", text("a")),
            ("version", int(2)),
            ("text", text(r#"{"name":"a"}"#)),
            ("definitions", text("{}")),
        ])],
        "deployment_events" => vec![row(&[
            ("deployment", text("a")),
            ("number", int(1)),
            ("at", time(0)),
            ("kind", text("applied")),
            ("text", text("revision 1")),
        ])],
        "published_models" => vec![row(&[
            ("model", text("easel/a")),
            ("version", int(1)),
            ("text", text(r#"{"graph":{}}"#)),
            ("calls", text("bfl/flux-2 easel/b")),
            ("changed", int(2)),
            ("published_at", time(1)),
            ("withdrawn_at", time(2)),
        ])],
        other => panic!("there is no sample of {other}"),
    }
}

/// A long piece and a short one.
fn pieces(generation: &Value, byte: u8) -> Vec<Row> {
    let piece = |number: i64, length: usize| {
        let content = bytes(&vec![byte; length]);
        vec![generation.clone(), Value::Int(number), content]
    };
    vec![piece(0, PIECE_BYTES), piece(1, 7)]
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn bytes(bytes: &[u8]) -> Value {
    Value::Bytes(bytes.to_vec())
}

fn id(number: u128) -> Value {
    bytes(Uuid::from_u128(number).as_bytes())
}
