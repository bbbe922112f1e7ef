//! Where each part of an installation lies in the tables of a database.

use std::ops::Range;

use installation::transfer::{Kind, Part};

/// The SQL of a part. What is not said here is a table of its name with its columns.
pub(super) struct Mapping {
    /// `SELECT ... FROM ...`, the columns in the order of [`Mapping::columns`].
    select: String,
    /// What rows are left out: a condition.
    filter: String,
    /// The key, as expressions of that statement.
    keys: Vec<String>,
    /// Behind the condition.
    group: &'static str,
    /// Counts the rows.
    pub(super) count: String,
    /// Adds rows that are in `n`, by their names.
    writes: Vec<String>,
    /// The columns of the part that lie together in one column as JSON, and what it is called.
    pub(super) document: Option<(&'static str, Range<usize>)>,
    /// Whether a few rows may have more bytes than a page should.
    pub(super) is_wide: bool,
}

/// Whether a queued request was dispatched, whatever its row says.
const DISPATCHED: &str = "(EXISTS (SELECT FROM generations_running AS r WHERE r.id = q.id)
    OR EXISTS (SELECT FROM generations AS g WHERE g.id = q.id))";

impl Mapping {
    /// The columns as they lie in the database: names and types.
    pub(super) fn columns(&self, part: &Part) -> Vec<(&'static str, Kind)> {
        let mut columns: Vec<_> = part
            .columns
            .iter()
            .map(|column| (column.name, column.kind))
            .collect();
        if let Some((name, fields)) = &self.document {
            columns.splice(fields.clone(), [(*name, Kind::Text)]);
        }
        columns
    }

    /// A page of rows, behind the key of the parameters.
    pub(super) fn page(&self, part: &Part, is_behind: bool) -> String {
        let keys = self.keys.join(", ");
        let places = (1..).zip(part.key_columns());
        let places: Vec<String> = places
            .map(|(place, column)| format!("${place}::{}", sql_type(column.kind)))
            .collect();
        let behind = match is_behind {
            true => format!("({keys}) > ({})", places.join(", ")),
            false => "true".to_owned(),
        };
        let (select, filter, group, limit) = (&self.select, &self.filter, self.group, part.page);
        format!("{select} WHERE {behind} AND {filter} {group} ORDER BY {keys} LIMIT {limit}")
    }

    /// The statements that add rows; each takes one array for each column, and the names of requirement sets behind them.
    pub(super) fn inserts(&self, part: &Part) -> Vec<String> {
        let mut columns = self.columns(part);
        if part.name == "jobs" {
            columns.push(("set_name", Kind::Id));
        }
        let types = (1..).zip(&columns);
        let types: Vec<String> = types
            .map(|(place, (_, kind))| format!("${place}::{}[]", sql_type(*kind)))
            .collect();
        let names: Vec<String> = columns
            .iter()
            .map(|(name, _)| format!("\"{name}\""))
            .collect();
        let rows = format!("unnest({}) AS n ({})", types.join(", "), names.join(", "));
        let writes = self.writes.iter();
        writes
            .map(|write| format!("WITH n AS (SELECT * FROM {rows}) {write}"))
            .collect()
    }

    /// The mapping of a part.
    pub(super) fn of(part: &Part) -> Self {
        let plain = Self::plain(part);
        match part.name {
            "accounts" => {
                const CREDITS: &str = "balance_cents, spent_at, spent_hour_cents, spent_day_cents, spent_month_cents";
                let credits = part.place("balance_cents");
                let own: Vec<String> = part.columns[..credits]
                    .iter()
                    .map(|column| format!("a.{}", column.name))
                    .collect();
                let own = own.join(", ");
                let names = own.replace("a.", "");
                Self {
                    select: format!(
                        "SELECT {own}, {CREDITS} FROM accounts AS a JOIN credits AS c ON c.account = a.id"
                    ),
                    keys: vec!["a.id".to_owned()],
                    writes: vec![
                        format!("INSERT INTO accounts ({names}) SELECT {names} FROM n"),
                        format!(
                            "INSERT INTO credits (account, newest_seq, {CREDITS}) SELECT id, 0, {CREDITS} FROM n"
                        ),
                    ],
                    ..plain
                }
            }
            "assets" => Self {
                writes: vec![plain.writes[0].replace(") SELECT", ") OVERRIDING SYSTEM VALUE SELECT")],
                ..plain
            },
            "user_files" | "job_logs" => Self {
                is_wide: true,
                ..plain
            },
            "jobs" => jobs(part, plain),
            "job_outputs" => Self {
                select: "SELECT job, number, document FROM job_outputs".to_owned(),
                writes: vec![
                    "INSERT INTO job_outputs (job, number, document) SELECT job, number, document FROM n".to_owned(),
                ],
                document: Some(("document", part.place("node_id")..part.columns.len())),
                ..plain
            },
            "job_turns" => Self {
                writes: vec![
                    "INSERT INTO job_turns (account, departed, last_claim) SELECT account, 0, last_claim FROM n"
                        .to_owned(),
                ],
                ..plain
            },
            "generations" => generations(plain),
            "replays" => Self::pieces("call_replays", plain),
            "queued_bodies" => Self {
                select: "SELECT b.generation, b.piece::bigint, b.bytes
                    FROM queued_bodies AS b JOIN queued_calls AS q ON q.id = b.generation"
                    .to_owned(),
                filter: format!("q.state < 2 AND q.cancelled_at IS NULL AND NOT {DISPATCHED}"),
                keys: vec!["b.generation".to_owned(), "b.piece".to_owned()],
                ..Self::pieces("queued_bodies", plain)
            },
            "call_keys" => Self {
                select: "SELECT k.account, k.key, k.fingerprint, k.generation,
                        (CASE WHEN k.is_dispatched THEN 1 ELSE 2 END)::smallint, k.expires_at
                    FROM call_keys AS k"
                    .to_owned(),
                // Other claims end with their process.
                filter: "(k.is_dispatched OR EXISTS (SELECT FROM queued_calls AS q WHERE q.id = k.generation))"
                    .to_owned(),
                keys: vec!["k.account".to_owned(), "k.key".to_owned()],
                writes: vec![
                    "INSERT INTO call_keys (account, key, fingerprint, generation, is_dispatched, claimed_until, expires_at)
                     SELECT account, key, fingerprint, generation, stage = 1, expires_at, expires_at FROM n"
                        .to_owned(),
                ],
                ..plain
            },
            "queued_calls" => queued_calls(plain),
            "call_servings" => Self {
                writes: vec![
                    "INSERT INTO call_servings (generation, received_at, serving)
                     SELECT n.generation, coalesce(g.received_at, r.received_at, 0), n.serving FROM n
                     LEFT JOIN generations AS g ON g.id = n.generation
                     LEFT JOIN generations_running AS r ON r.id = n.generation"
                        .to_owned(),
                ],
                ..plain
            },
            "webhook_deliveries" => Self {
                select: plain.select.replace("\"status\"", "status::bigint"),
                writes: vec![plain.writes[0].replace(") SELECT", ") OVERRIDING SYSTEM VALUE SELECT")],
                ..plain
            },
            "blobs" => Self {
                select: "SELECT hash, max(size_bytes) FROM assets".to_owned(),
                count: "SELECT count(DISTINCT hash) FROM assets".to_owned(),
                group: "GROUP BY hash",
                writes: Vec::new(),
                ..plain
            },
            _ => plain,
        }
    }

    /// A table of the name of the part, with its columns.
    fn plain(part: &Part) -> Self {
        let quoted = |columns: &[installation::transfer::Column]| -> Vec<String> {
            let names = columns.iter().map(|column| column.name);
            names.map(|name| format!("\"{name}\"")).collect()
        };
        let columns = quoted(part.columns).join(", ");
        let name = part.name;
        Self {
            select: format!("SELECT {columns} FROM {name}"),
            filter: "true".to_owned(),
            keys: quoted(part.key_columns()),
            group: "",
            count: format!("SELECT count(*) FROM {name}"),
            writes: vec![format!(
                "INSERT INTO {name} ({columns}) SELECT {columns} FROM n"
            )],
            document: None,
            is_wide: false,
        }
    }

    /// A table of pieces.
    fn pieces(table: &str, plain: Self) -> Self {
        Self {
            select: format!("SELECT generation, piece::bigint, bytes FROM {table}"),
            count: format!("SELECT count(*) FROM {table}"),
            writes: vec![format!(
                "INSERT INTO {table} (generation, piece, bytes) SELECT generation, piece::integer, bytes FROM n"
            )],
            ..plain
        }
    }
}

/// Jobs with what lies beside them. Running ones have claims that have lapsed.
fn jobs(part: &Part, plain: Mapping) -> Mapping {
    const OWN: &str = "id, account, number, account_room, stored_bytes, body_bytes, revision, status, epoch, worker,
        lost_claims, created_at, updated_at, started_at, completed_at, expires_at, retention, progress_value, progress, outputs,
        error, metadata";
    let insert = |table: &str, is_over: &str| {
        format!(
            "INSERT INTO {table} ({OWN}, requirements) SELECT {OWN}, set_name FROM n WHERE completed_at IS {is_over}"
        )
    };
    Mapping {
        select: "SELECT j.id, j.number, j.account, s.text, j.account_room, j.stored_bytes, j.body_bytes, j.revision, j.status,
                j.epoch, j.worker, j.lost_claims, j.created_at, j.updated_at, j.started_at, j.completed_at, j.expires_at,
                j.retention, j.progress_value, j.progress, j.outputs, j.error, j.metadata, b.workflow, b.files, b.targets,
                b.extra_pnginfo, b.origin
            FROM (SELECT * FROM jobs UNION ALL SELECT * FROM jobs_over) AS j
            JOIN job_bodies AS b ON b.job = j.id JOIN requirement_sets AS s ON s.requirements = j.requirements"
            .to_owned(),
        keys: vec!["j.id".to_owned()],
        count: "SELECT (SELECT count(*) FROM jobs) + (SELECT count(*) FROM jobs_over)".to_owned(),
        writes: vec![
            "INSERT INTO requirement_sets (requirements, text, seen_at)
             SELECT set_name, min(requirements), max(created_at) FROM n GROUP BY set_name ON CONFLICT DO NOTHING"
                .to_owned(),
            insert("jobs", "NULL"),
            insert("jobs_over", "NOT NULL"),
            "INSERT INTO job_bodies (job, requirements, workflow, files, targets, extra_pnginfo, origin)
             SELECT id, set_name, workflow, files, targets, extra_pnginfo, origin FROM n"
                .to_owned(),
            "INSERT INTO job_queue (requirements, account, number, job, account_room, created_at)
             SELECT set_name, account, number, id, account_room, created_at FROM n WHERE status = 'queued'"
                .to_owned(),
            "INSERT INTO job_runs (job, account, epoch, lease_until)
             SELECT id, account, epoch, 0 FROM n WHERE completed_at IS NULL AND status <> 'queued'"
                .to_owned(),
        ],
        document: Some(("progress", part.place("nodes_done")..part.place("message") + 1)),
        is_wide: true,
        ..plain
    }
}

/// Generations that run and that ended. Those that run are nobody's, so that any replica takes them over. How many bytes of a result
/// are kept follows from its pieces, at the end of the move.
fn generations(plain: Mapping) -> Mapping {
    Mapping {
        select: "SELECT * FROM (
                SELECT id, account, model, key, hold_cents, received_at, dispatched_at, handle, poll_after_ms, accepted_at,
                    task_id, NULL::bigint AS settled_at, NULL::bigint AS charge_cents, NULL::text AS bucket,
                    NULL::text AS outcome, NULL::bytea AS code, NULL::bytea AS message, NULL::text AS content_type,
                    0::smallint AS replay, api_key FROM generations_running
                UNION ALL
                SELECT id, account, model, key, hold_cents, received_at, dispatched_at, NULL, NULL, accepted_at, task_id,
                    settled_at, charge_cents, bucket, outcome, code, message, content_type,
                    (CASE WHEN replay_bytes IS NULL THEN 2 WHEN replay_bytes = 0 THEN 0 ELSE 1 END)::smallint, api_key
                    FROM generations
            ) AS g"
            .to_owned(),
        count: "SELECT (SELECT count(*) FROM generations_running) + (SELECT count(*) FROM generations)"
            .to_owned(),
        writes: vec![
            "INSERT INTO generations_running (id, account, model, key, hold_cents, received_at, dispatched_at, owner, lease_until,
                handle, poll_after_ms, accepted_at, task_id, api_key)
             SELECT id, account, model, key, hold_cents, received_at, dispatched_at,
                '00000000-0000-0000-0000-000000000000', 0, handle, poll_after_ms, accepted_at, task_id, api_key
             FROM n WHERE settled_at IS NULL"
                .to_owned(),
            "INSERT INTO generations (id, account, model, key, hold_cents, received_at, dispatched_at, accepted_at, task_id,
                settled_at, settled_by, charge_cents, bucket, outcome, code, message, content_type, replay_bytes, api_key)
             SELECT id, account, model, key, hold_cents, received_at, dispatched_at, accepted_at, task_id, settled_at,
                '00000000-0000-0000-0000-000000000000', charge_cents, bucket, outcome, code, message, content_type,
                CASE replay WHEN 0 THEN 0 WHEN 1 THEN -1 END, api_key
             FROM n WHERE settled_at IS NOT NULL"
                .to_owned(),
        ],
        ..plain
    }
}

/// Requests of the queue. What a process had taken waits again, unless it was dispatched or its caller cancelled it.
fn queued_calls(plain: Mapping) -> Mapping {
    let is_cancelled = format!("q.state < 2 AND q.cancelled_at IS NOT NULL AND NOT {DISPATCHED}");
    Mapping {
        select: format!(
            "SELECT q.id, q.seq, (CASE WHEN q.state >= 2 THEN q.state WHEN {DISPATCHED} THEN 2
                    WHEN q.cancelled_at IS NOT NULL THEN 3 ELSE 0 END)::smallint, q.account, q.model, q.query, q.key,
                q.api_key, q.received_at, q.expires_at, q.cancelled_at,
                CASE WHEN {is_cancelled} THEN q.cancelled_at ELSE q.ended_at END,
                CASE WHEN {is_cancelled} THEN 'cancelled' ELSE q.failure END, q.message
             FROM queued_calls AS q"
        ),
        keys: vec!["q.id".to_owned()],
        writes: vec![
            "INSERT INTO queued_calls (id, seq, changed, state, account, model, query, key, received_at, expires_at, body_bytes,
                cancelled_at, ended_at, failure, message, api_key)
             SELECT id, seq, seq, state, account, model, query, key, received_at, expires_at, 0, cancelled_at, ended_at, failure,
                message, api_key FROM n"
                .to_owned(),
        ],
        ..plain
    }
}

/// The type of columns that hold this.
pub(super) fn sql_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Int => "bigint",
        Kind::Small => "smallint",
        Kind::Flag => "boolean",
        Kind::Real => "double precision",
        Kind::Text => "text",
        Kind::Bytes => "bytea",
        Kind::Id => "uuid",
    }
}
