//! The list of the parts.

use super::{Column, Kind, Part};

const ROWS: usize = 1_000;
const WIDE_ROWS: usize = 200;
const PIECES: usize = 16;
const BLOBS: usize = 64;

const fn column(name: &'static str, kind: Kind) -> Column {
    Column {
        name,
        kind,
        is_compared: true,
    }
}

const fn int(name: &'static str) -> Column {
    column(name, Kind::Int)
}

const fn small(name: &'static str) -> Column {
    column(name, Kind::Small)
}

const fn flag(name: &'static str) -> Column {
    column(name, Kind::Flag)
}

const fn real(name: &'static str) -> Column {
    column(name, Kind::Real)
}

const fn text(name: &'static str) -> Column {
    column(name, Kind::Text)
}

const fn bytes(name: &'static str) -> Column {
    column(name, Kind::Bytes)
}

const fn id(name: &'static str) -> Column {
    column(name, Kind::Id)
}

const fn made_again(column: Column) -> Column {
    Column {
        is_compared: false,
        ..column
    }
}

const fn of(name: &'static str, key: usize, page: usize, columns: &'static [Column]) -> Part {
    Part {
        name,
        columns,
        key,
        page,
    }
}

/// Everything, in the order in which rows refer to earlier ones.
pub const PARTS: &[Part] = &[
    // One row: who it is, what its secrets follow from, and the keys that sign links, of which the one with this number is newest.
    of(
        "installation",
        1,
        1,
        &[
            id("id"),
            bytes("secret"),
            bytes("link_key"),
            bytes("link_key_before"),
            int("link_key_number"),
        ],
    ),
    of(
        "accounts",
        1,
        ROWS,
        &[
            text("id"),
            text("name"),
            flag("suspended"),
            flag("subscribed"),
            flag("router"),
            flag("billed"),
            int("concurrent_jobs"),
            int("queued_jobs"),
            int("streams"),
            int("upload_bytes"),
            int("stored_bytes"),
            text("submissions"),
            int("upload_retention"),
            int("job_retention"),
            int("concurrent_calls"),
            int("committed_spend_cents"),
            text("budgets"),
            text("scoped_budgets"),
            text("windows"),
            text("entitlements"),
            int("created_at"),
            int("balance_cents"),
            int("spent_at"),
            int("spent_hour_cents"),
            int("spent_day_cents"),
            int("spent_month_cents"),
        ],
    ),
    of(
        "scoped_spend",
        2,
        ROWS,
        &[
            text("account"),
            text("scope"),
            int("spent_at"),
            int("spent_hour_cents"),
            int("spent_day_cents"),
            int("spent_month_cents"),
        ],
    ),
    of(
        "api_keys",
        1,
        ROWS,
        &[
            text("id"),
            bytes("hash"),
            text("account"),
            text("name"),
            text("scopes"),
            int("created_at"),
            int("expires_at"),
            int("revoked_at"),
        ],
    ),
    of(
        "ledger",
        2,
        ROWS,
        &[
            text("account"),
            int("seq"),
            small("why"),
            id("cause"),
            int("amount_cents"),
            int("at"),
        ],
    ),
    of(
        "sessions",
        1,
        ROWS,
        &[
            bytes("token"),
            text("account"),
            bytes("credential"),
            text("scopes"),
            int("began_at"),
            int("ends_at"),
        ],
    ),
    of(
        "user_settings",
        1,
        WIDE_ROWS,
        &[text("account"), text("settings")],
    ),
    of(
        "user_files",
        2,
        WIDE_ROWS,
        &[
            text("account"),
            text("path"),
            bytes("bytes"),
            int("created_at"),
            int("modified_at"),
        ],
    ),
    of(
        "assets",
        1,
        ROWS,
        &[
            id("id"),
            int("seq"),
            text("account"),
            bytes("hash"),
            int("size_bytes"),
            text("content_type"),
            text("file_path"),
            text("tags"),
            int("created_at"),
            int("expires_at"),
            id("job_id"),
            made_again(flag("temp")),
        ],
    ),
    of(
        "asset_holds",
        3,
        ROWS,
        &[id("asset"), small("kind"), id("job_id")],
    ),
    of(
        "asset_keys",
        2,
        ROWS,
        &[
            text("account"),
            bytes("digest"),
            bytes("fingerprint"),
            id("asset"),
            int("expires_at"),
        ],
    ),
    of(
        "output_counters",
        2,
        ROWS,
        &[text("account"), text("counter"), int("number")],
    ),
    of("stored_bytes", 1, ROWS, &[text("account"), int("bytes")]),
    of(
        "sweeps",
        1,
        ROWS,
        &[
            text("name"),
            int("last_at"),
            int("hold_left"),
            flag("confirmed"),
        ],
    ),
    of(
        "jobs",
        1,
        WIDE_ROWS,
        &[
            id("id"),
            int("number"),
            text("account"),
            text("requirements"),
            int("account_room"),
            int("stored_bytes"),
            int("body_bytes"),
            int("revision"),
            text("status"),
            int("epoch"),
            id("worker"),
            int("lost_claims"),
            int("created_at"),
            int("updated_at"),
            int("started_at"),
            int("completed_at"),
            int("expires_at"),
            int("retention"),
            real("progress_value"),
            int("nodes_done"),
            int("nodes_total"),
            text("current_node"),
            text("current_node_class"),
            int("step"),
            int("steps"),
            text("message"),
            int("outputs"),
            text("error"),
            text("metadata"),
            bytes("workflow"),
            text("files"),
            text("targets"),
            bytes("extra_pnginfo"),
            bytes("origin"),
        ],
    ),
    of(
        "job_logs",
        1,
        WIDE_ROWS,
        &[
            id("job"),
            bytes("text"),
            flag("truncated"),
            int("captured_at"),
            flag("complete"),
            text("report"),
        ],
    ),
    of(
        "job_outputs",
        2,
        ROWS,
        &[
            id("job"),
            int("number"),
            text("node_id"),
            int("output"),
            text("kind"),
            flag("temp"),
            text("path"),
            text("content_type"),
            int("size_bytes"),
            id("asset"),
            bytes("hash"),
        ],
    ),
    of(
        "job_keys",
        2,
        ROWS,
        &[
            text("account"),
            bytes("digest"),
            bytes("fingerprint"),
            id("job"),
        ],
    ),
    // The number of each account's last claim, from the sequence of the numbers of jobs.
    of("job_turns", 1, ROWS, &[text("account"), int("last_claim")]),
    // `replay`: 0 there are no bytes of the partner, 1 they are in `replays`, 2 they were not kept.
    of(
        "generations",
        1,
        ROWS,
        &[
            id("id"),
            text("account"),
            text("model"),
            made_again(bytes("key")),
            int("hold_cents"),
            int("received_at"),
            int("dispatched_at"),
            bytes("handle"),
            int("poll_after_ms"),
            int("accepted_at"),
            bytes("task_id"),
            int("settled_at"),
            int("charge_cents"),
            text("bucket"),
            text("outcome"),
            bytes("code"),
            bytes("message"),
            text("content_type"),
            small("replay"),
        ],
    ),
    of(
        "call_servings",
        1,
        ROWS,
        &[id("generation"), text("serving")],
    ),
    of(
        "call_labels",
        2,
        ROWS,
        &[int("received_at"), id("request"), text("labels")],
    ),
    of(
        "replays",
        2,
        PIECES,
        &[id("generation"), int("piece"), bytes("bytes")],
    ),
    // `stage`: 1 the generation was dispatched, 2 it waits in the queue or ended there. Other claims end with their process.
    of(
        "call_keys",
        2,
        ROWS,
        &[
            text("account"),
            bytes("key"),
            bytes("fingerprint"),
            id("generation"),
            small("stage"),
            int("expires_at"),
        ],
    ),
    of(
        "calls",
        2,
        ROWS,
        &[
            int("received_at"),
            id("request"),
            text("account"),
            text("model"),
            bytes("key"),
            id("generation"),
            text("bucket"),
            flag("replayed"),
            int("answered_at"),
            flag("delivered"),
        ],
    ),
    // `state`: 0 it waits, 2 it was dispatched, 3 it ended without.
    of(
        "queued_calls",
        1,
        ROWS,
        &[
            id("id"),
            int("seq"),
            small("state"),
            text("account"),
            text("model"),
            text("query"),
            bytes("key"),
            text("api_key"),
            int("received_at"),
            int("expires_at"),
            int("cancelled_at"),
            int("ended_at"),
            text("failure"),
            bytes("message"),
        ],
    ),
    of(
        "queued_bodies",
        2,
        PIECES,
        &[id("generation"), int("piece"), bytes("bytes")],
    ),
    // Events wait in the order of their places.
    of(
        "webhooks",
        1,
        ROWS,
        &[
            id("id"),
            text("account"),
            text("url"),
            small("kinds"),
            int("secret_version"),
            int("previous_until"),
            int("disabled_at"),
            text("disabled_reason"),
            int("failures"),
            int("failing_since"),
            int("not_before"),
            int("created_at"),
        ],
    ),
    of(
        "webhook_deliveries",
        1,
        ROWS,
        &[
            int("place"),
            id("webhook"),
            id("message"),
            text("kind"),
            text("object"),
            int("at"),
            text("data"),
            int("next_at"),
            int("delivered_at"),
            int("attempts"),
            int("failing_since"),
            int("attempted_at"),
            int("status"),
            text("error"),
        ],
    ),
    of(
        "budgets_reached",
        2,
        ROWS,
        &[text("account"), text("window"), int("ends_at")],
    ),
    of(
        "deployments",
        1,
        WIDE_ROWS,
        &[
            text("name"),
            int("version"),
            text("text"),
            text("definitions"),
        ],
    ),
    of(
        "deployment_events",
        2,
        ROWS,
        &[
            text("deployment"),
            int("number"),
            int("at"),
            text("kind"),
            text("text"),
        ],
    ),
    // Those that records name. No store has a table of them; their bytes move beside the rows.
    of("blobs", 1, BLOBS, &[bytes("hash"), int("size_bytes")]),
];
