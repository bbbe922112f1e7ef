//! Cursors of lists: a position, sealed with whose list it is and how that is filtered.
//!
//! The seal is no secret: a forged position would only begin the forger's own list elsewhere. It keeps a cursor from being
//! used with another list, where jobs would be left out without anybody noticing.

use accounts::AccountId;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use uuid::Uuid;
use workflow_core::{JobCursor, JobId, JobStatus};

/// Bytes of the seal: too many to be met by chance.
const SEAL: usize = 8;

/// Spells a position in the list of an account under these filters.
pub(crate) fn write(
    cursor: &JobCursor,
    account: &AccountId,
    labels: &[(String, String)],
    statuses: &[JobStatus],
) -> String {
    let mut bytes = Vec::with_capacity(16 + 16 + SEAL);
    bytes.extend_from_slice(&cursor.created_at.as_nanosecond().to_be_bytes());
    bytes.extend_from_slice(cursor.id.0.as_bytes());
    let seal = seal(&bytes, account, labels, statuses);
    bytes.extend_from_slice(&seal);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Reads a position; `None` when it was not written for this list.
pub(crate) fn read(
    text: &str,
    account: &AccountId,
    labels: &[(String, String)],
    statuses: &[JobStatus],
) -> Option<JobCursor> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (position, given) = bytes.split_last_chunk::<SEAL>()?;
    if seal(position, account, labels, statuses) != *given {
        return None;
    }
    let (nanoseconds, id) = position.split_first_chunk::<16>()?;
    let created_at = Timestamp::from_nanosecond(i128::from_be_bytes(*nanoseconds)).ok()?;
    let id = JobId(Uuid::from_slice(id).ok()?);
    Some(JobCursor { created_at, id })
}

fn seal(
    position: &[u8],
    account: &AccountId,
    labels: &[(String, String)],
    statuses: &[JobStatus],
) -> [u8; SEAL] {
    let mut hasher = blake3::Hasher::new_derive_key("easel jobs cursor v1");
    hasher.update(position);
    let labels = labels.iter().flat_map(|(key, value)| [key.as_str(), value]);
    // No key of a label has a `?` in it, so a state is read as none.
    let statuses = statuses
        .iter()
        .flat_map(|status| ["?status", status.name()]);
    for text in std::iter::once(account.as_str())
        .chain(labels)
        .chain(statuses)
    {
        // The length in front keeps two texts from being read as one.
        hasher
            .update(&(text.len() as u64).to_be_bytes())
            .update(text.as_bytes());
    }
    let mut seal = [0; SEAL];
    hasher.finalize_xof().fill(&mut seal);
    seal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_only_for_the_list_it_was_written_for() {
        let cursor = JobCursor {
            created_at: "2026-01-01T00:00:00.123456789Z".parse().expect("a time"),
            id: JobId(Uuid::from_u128(7)),
        };
        let (account, other) = (AccountId::local(), "other".parse().expect("an id"));
        let labels = [("k".to_owned(), "v".to_owned())];
        let text = write(&cursor, &account, &labels, &[]);
        assert_eq!(read(&text, &account, &labels, &[]), Some(cursor));
        assert_eq!(read(&text, &account, &[], &[]), None);
        assert_eq!(read(&text, &other, &labels, &[]), None);
        assert_eq!(read(&text, &account, &labels, &[JobStatus::Failed]), None);
    }

    #[test]
    fn no_flipped_bit_and_no_other_text_is_a_cursor() {
        let cursor = JobCursor {
            created_at: Timestamp::UNIX_EPOCH,
            id: JobId(Uuid::from_u128(7)),
        };
        let account = AccountId::local();
        let bytes = URL_SAFE_NO_PAD.decode(write(&cursor, &account, &[], &[]));
        let bytes = bytes.expect("a cursor is base64url");
        for bit in 0..bytes.len() * 8 {
            let mut forged = bytes.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            let forged = URL_SAFE_NO_PAD.encode(forged);
            assert_eq!(read(&forged, &account, &[], &[]), None, "bit {bit}");
        }
        for text in ["", "AAAA", "not base64!", "eyJpZCI6MX0"] {
            assert_eq!(read(text, &account, &[], &[]), None, "{text}");
        }
    }
}
