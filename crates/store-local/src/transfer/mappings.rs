//! Where each part of an installation lies in the tables of a data directory.

use ::installation::transfer::Part;

/// The SQL of a part. What is not said here is a table of its name with its columns.
pub(super) struct Mapping {
    /// `SELECT ... FROM ...`, the columns in the order of the part.
    select: String,
    /// What rows are left out: a condition.
    filter: &'static str,
    /// The key, as expressions of that statement.
    keys: Vec<String>,
    /// Behind the condition.
    group: &'static str,
    /// Counts the rows.
    pub(super) count: String,
    /// Adds a row, by statements whose parameters are named as the columns.
    pub(super) writes: Vec<String>,
}

/// What a job needs that ended before it was kept: nothing will run it.
const NATIVE: &str = r#"'{"engine":"native","classes":[],"files":[],"secret_at":null}'"#;

/// What a run told before it was kept.
const NO_REPORT: &str = r#"'{"cached":null,"nodes":[],"shown":{},"stopped_at":null}'"#;

impl Mapping {
    /// A page of rows, behind the key of the parameters.
    pub(super) fn page(&self, part: &Part, is_behind: bool) -> String {
        let Self {
            select,
            filter,
            keys,
            group,
            ..
        } = self;
        let keys = keys.join(", ");
        let places: Vec<String> = (1..=part.key).map(|place| format!("?{place}")).collect();
        let behind = match is_behind {
            true => format!("({keys}) > ({})", places.join(", ")),
            false => "TRUE".to_owned(),
        };
        let limit = part.page;
        format!("{select} WHERE {behind} AND {filter} {group} ORDER BY {keys} LIMIT {limit}")
    }

    /// The mapping of a part.
    pub(super) fn of(part: &Part) -> Self {
        let plain = Self::plain(part);
        match part.name {
            "assets" => {
                let temp = "EXISTS (SELECT 1 FROM jobs JOIN job_outputs USING (seq)
                    WHERE jobs.id = assets.job_id AND job_outputs.asset = assets.id AND job_outputs.temp)";
                Self {
                    select: plain.select.replace("\"temp\"", temp),
                    writes: vec![
                        plain.writes[0]
                            .replace(", \"temp\"", "")
                            .replace(", :temp", ""),
                    ],
                    ..plain
                }
            }
            "jobs" => Self {
                select: format!(
                    "SELECT jobs.id, jobs.seq, account, coalesce(requirement_sets.text, {NATIVE}),
                        coalesce(json_extract(placement, '$.account_room'), 0), json_extract(placement, '$.stored_bytes'),
                        body_bytes, revision, status, epoch, worker, lost_claims, created_at, updated_at, started_at,
                        completed_at, expires_at, retention, progress_value, nodes_done, nodes_total, current_node,
                        current_node_class, step, steps, message,
                        (SELECT count(*) FROM job_outputs WHERE job_outputs.seq = jobs.seq), error, metadata, workflow,
                        files, targets, coalesce(extra_pnginfo, ''), origin
                     FROM jobs JOIN job_bodies USING (seq) LEFT JOIN requirement_sets USING (requirements)"
                ),
                keys: vec!["jobs.id".to_owned()],
                writes: [
                    "INSERT OR IGNORE INTO requirement_sets (text) VALUES (:requirements)",
                    "INSERT INTO jobs (seq, id, account, revision, status, epoch, worker, lost_claims, created_at, updated_at,
                        started_at, completed_at, expires_at, retention, progress_value, nodes_done, nodes_total, current_node,
                        current_node_class, step, steps, message, error, metadata, body_bytes, requirements)
                     VALUES (:number, :id, :account, :revision, :status, :epoch, :worker, :lost_claims, :created_at,
                        :updated_at, :started_at, :completed_at, :expires_at, :retention, :progress_value, :nodes_done,
                        :nodes_total, :current_node, :current_node_class, :step, :steps, :message, :error, :metadata,
                        :body_bytes, (SELECT requirements FROM requirement_sets WHERE text = :requirements))",
                    "INSERT INTO job_bodies (seq, workflow, files, targets, origin, placement, extra_pnginfo)
                     VALUES (:number, :workflow, :files, :targets, :origin,
                        json_object('account_room', :account_room, 'stored_bytes', :stored_bytes),
                        nullif(CAST(:extra_pnginfo AS TEXT), ''))",
                    "INSERT INTO job_labels (account, key, value, created_at, id, seq)
                     SELECT :account, key, value, :created_at, :id, :number FROM json_each(:metadata)",
                ]
                .map(str::to_owned)
                .to_vec(),
                ..plain
            },
            "job_logs" => plain.beside_jobs(
                &format!("text, truncated, captured_at, complete, coalesce(report, {NO_REPORT})"),
                "text, truncated, captured_at, complete, report",
                "CAST(:text AS TEXT), :truncated, :captured_at, :complete, :report",
                &[],
            ),
            "job_outputs" => {
                const COLUMNS: &str =
                    "number, node_id, output, kind, temp, path, content_type, size_bytes, asset, hash";
                let values = COLUMNS.split(", ").map(|name| format!(":{name}"));
                let values = values.collect::<Vec<_>>().join(", ");
                plain.beside_jobs(COLUMNS, COLUMNS, &values, &["number"])
            }
            "job_keys" => Self {
                select: "SELECT job_keys.account, digest, fingerprint, jobs.id FROM job_keys JOIN jobs USING (seq)"
                    .to_owned(),
                keys: vec!["job_keys.account".to_owned(), "digest".to_owned()],
                writes: vec![
                    "INSERT INTO job_keys (account, digest, fingerprint, seq)
                     VALUES (:account, :digest, :fingerprint, (SELECT seq FROM jobs WHERE id = :job))"
                        .to_owned(),
                ],
                ..plain
            },
            "job_turns" => Self {
                select: "SELECT account, number FROM account_claims".to_owned(),
                count: "SELECT count(*) FROM account_claims".to_owned(),
                writes: vec![
                    "INSERT INTO account_claims (account, number) VALUES (:account, :last_claim)"
                        .to_owned(),
                ],
                ..plain
            },
            "generations" => Self {
                select: "SELECT id, account, model, (SELECT key FROM call_keys WHERE call_keys.generation = generations.id),
                        hold_cents, coalesce(received_at, dispatched_at), dispatched_at, handle,
                        CASE WHEN settled_at IS NULL THEN poll_after_ms END, accepted_at, task_id, settled_at,
                        CASE WHEN settled_at IS NOT NULL THEN coalesce(charge_cents, 0) END, bucket, outcome, code, message,
                        content_type, CASE replay WHEN 3 THEN 1 ELSE replay END, api_key
                     FROM generations"
                    .to_owned(),
                writes: vec![
                    "INSERT INTO generations (id, account, model, hold_cents, received_at, dispatched_at, handle, poll_after_ms,
                        accepted_at, task_id, settled_at, charge_cents, bucket, outcome, code, message, content_type, replay,
                        api_key)
                     VALUES (:id, :account, :model, :hold_cents, :received_at, :dispatched_at, :handle, :poll_after_ms,
                        :accepted_at, CAST(:task_id AS TEXT), :settled_at, :charge_cents, :bucket, :outcome,
                        CAST(:code AS TEXT), CAST(:message AS TEXT), :content_type, :replay, :api_key)"
                        .to_owned(),
                ],
                ..plain
            },
            "call_keys" => Self {
                select: "SELECT account, key, fingerprint, generation, dispatched, expires_at FROM call_keys"
                    .to_owned(),
                filter: "dispatched > 0",
                writes: vec![
                    "INSERT INTO call_keys (account, key, fingerprint, generation, dispatched, expires_at)
                     VALUES (:account, :key, :fingerprint, :generation, :stage, :expires_at)"
                        .to_owned(),
                ],
                ..plain
            },
            "queued_calls" => Self {
                select: "SELECT id, seq, CASE WHEN ended_at IS NOT NULL THEN 3 WHEN dispatched = 1 THEN 2 ELSE 0 END,
                        account, model, \"query\", key, api_key, received_at, expires_at, cancelled_at, ended_at, failure, message
                     FROM queued_calls"
                    .to_owned(),
                writes: vec![
                    "INSERT INTO queued_calls (seq, id, account, model, \"query\", key, received_at, expires_at, dispatched,
                        cancelled_at, ended_at, failure, message, api_key)
                     VALUES (:seq, :id, :account, :model, :query, :key, :received_at, :expires_at, :state = 2, :cancelled_at,
                        :ended_at, :failure, CAST(:message AS TEXT), :api_key)"
                        .to_owned(),
                ],
                ..plain
            },
            "replays" => Self {
                count: "SELECT count(*) FROM generations WHERE replay IN (1, 3)".to_owned(),
                ..plain
            },
            "queued_bodies" => Self {
                count: "SELECT count(*) FROM queued_calls WHERE dispatched = 0 AND ended_at IS NULL"
                    .to_owned(),
                ..plain
            },
            "installation" => Self {
                count: "SELECT 1".to_owned(),
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
        let quoted = |names: &mut dyn Iterator<Item = &'static str>| {
            let quoted: Vec<String> = names.map(|name| format!("\"{name}\"")).collect();
            quoted
        };
        let mut names = part.columns.iter().map(|column| column.name);
        let columns = quoted(&mut names).join(", ");
        let values: Vec<String> = part
            .columns
            .iter()
            .map(|column| format!(":{}", column.name))
            .collect();
        let mut keys = part.key_columns().iter().map(|column| column.name);
        let name = part.name;
        Self {
            select: format!("SELECT {columns} FROM {name}"),
            filter: "TRUE",
            keys: quoted(&mut keys),
            group: "",
            count: format!("SELECT count(*) FROM {name}"),
            writes: vec![format!(
                "INSERT INTO {name} ({columns}) VALUES ({})",
                values.join(", ")
            )],
        }
    }

    /// A table whose rows belong to jobs, which the table names by their numbers and parts by their ids.
    fn beside_jobs(self, read: &str, columns: &str, values: &str, keys: &[&str]) -> Self {
        let table = self.count.rsplit(' ').next().unwrap_or_default().to_owned();
        let mut all = vec!["jobs.id".to_owned()];
        all.extend(keys.iter().map(|key| format!("{table}.{key}")));
        Self {
            select: format!("SELECT jobs.id, {read} FROM jobs JOIN {table} USING (seq)"),
            keys: all,
            writes: vec![format!(
                "INSERT INTO {table} (seq, {columns}) VALUES ((SELECT seq FROM jobs WHERE id = :job), {values})"
            )],
            ..self
        }
    }
}
