//! What a query asks of a list: how much, from where on, which labels and which states.
//!
//! Parameters that the API does not know are passed over, so that newer clients may send more.

use percent_encoding::percent_decode;
use workflow_core::JobStatus;

use super::errors::ApiError;

/// How many items a page has unless the query says otherwise.
const DEFAULT_LIMIT: usize = 50;

/// Most items of a page.
const MOST_LIMIT: usize = 100;

/// Most labels that a list can be filtered by at once.
const MOST_FILTERS: usize = 3;

/// The query of a list of jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListQuery {
    /// Items of a page: 1 to 100.
    pub(crate) limit: usize,
    /// Where to go on, as it came.
    pub(crate) cursor: Option<String>,
    /// Labels that must be there, sorted by key.
    pub(crate) labels: Vec<(String, String)>,
    /// States of which a job must have one, each once and in the order of [`JobStatus::ALL`]; empty for any.
    pub(crate) statuses: Vec<JobStatus>,
}

impl ListQuery {
    /// Reads the part of an address behind the question mark.
    ///
    /// # Errors
    /// [`ApiError::Field`] for the limit, [`ApiError::Status`], [`ApiError::Filter`] and [`ApiError::Cursor`] for theirs.
    pub(crate) fn read(query: &str) -> Result<Self, ApiError> {
        let mut limits = Vec::new();
        let mut cursors = Vec::new();
        let mut labels = Vec::new();
        let mut statuses = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(value);
            match decode(name).as_deref() {
                Some("limit") => limits.push(value),
                Some("cursor") => cursors.push(value),
                Some("status") => statuses.push(status(value.as_deref())?),
                Some(name) if is_filter(name) => labels.push(filter(name, value)?),
                Some(_) | None => {}
            }
        }
        labels.sort_unstable();
        if labels.len() > MOST_FILTERS {
            let message = format!("a list is filtered by at most {MOST_FILTERS} labels");
            return Err(ApiError::Filter(message));
        }
        if labels.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            let message = "a list is filtered by one value for each label";
            return Err(ApiError::Filter(message.to_owned()));
        }
        Ok(Self {
            limit: limit(&limits)?,
            cursor: cursor(cursors)?,
            labels,
            statuses: {
                let all = JobStatus::ALL.into_iter();
                all.filter(|status| statuses.contains(status)).collect()
            },
        })
    }
}

/// Clamps a limit rather than refusing it; what is no whole number is refused.
fn limit(values: &[Option<String>]) -> Result<usize, ApiError> {
    let Some(first) = values.first() else {
        return Ok(DEFAULT_LIMIT);
    };
    let text = first.as_deref().filter(|_| values.len() == 1);
    let (negative, digits) = match text.map(|text| (text, text.strip_prefix('-'))) {
        Some((_, Some(digits))) => (true, digits),
        Some((digits, None)) => (false, digits),
        None => (false, ""),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let must = format!("one whole number; it is taken for 1 to {MOST_LIMIT}");
        return Err(ApiError::Field {
            name: "limit",
            must,
        });
    }
    if negative {
        return Ok(1);
    }
    Ok(digits.parse().unwrap_or(MOST_LIMIT).clamp(1, MOST_LIMIT))
}

fn status(text: Option<&str>) -> Result<JobStatus, ApiError> {
    text.and_then(JobStatus::from_name).ok_or(ApiError::Status)
}

fn cursor(values: Vec<Option<String>>) -> Result<Option<String>, ApiError> {
    let mut values = values.into_iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(Some(only)), None) => Ok(Some(only)),
        (Some(_), _) => Err(ApiError::Cursor),
    }
}

fn filter(name: &str, value: Option<String>) -> Result<(String, String), ApiError> {
    let key = name
        .strip_prefix("metadata[")
        .and_then(|rest| rest.strip_suffix(']'));
    let key = key.ok_or("a filter is written `metadata[key]=value`");
    let checked = key.and_then(|key| {
        accounts::Label::check_key(key)?;
        let value = value.ok_or("a value is UTF-8")?;
        accounts::Label::check_value(&value)?;
        Ok((key.to_owned(), value))
    });
    checked.map_err(|must| ApiError::Filter(format!("the filter {name:?} breaks a rule: {must}")))
}

fn is_filter(name: &str) -> bool {
    name == "metadata" || name.starts_with("metadata[")
}

/// A name or value of a form; `None` when it is not UTF-8.
fn decode(text: &str) -> Option<String> {
    let spaced = text.replace('+', " ");
    let decoded = percent_decode(spaced.as_bytes()).decode_utf8().ok()?;
    Some(decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit_of(query: &str) -> Option<usize> {
        ListQuery::read(query).ok().map(|query| query.limit)
    }

    #[test]
    fn a_limit_is_clamped_and_a_text_refused() {
        assert_eq!(limit_of(""), Some(50));
        for (query, limit) in [
            ("limit=1", 1),
            ("limit=0", 1),
            ("limit=-7", 1),
            ("limit=100", 100),
            ("limit=101", 100),
            ("limit=99999999999999999999999", 100),
            ("limit=%31%30", 10),
        ] {
            assert_eq!(limit_of(query), Some(limit), "{query}");
        }
        for query in [
            "limit=",
            "limit",
            "limit=ten",
            "limit=1.5",
            "limit=-",
            "limit=+5",
            "limit=1&limit=2",
            "limit=%ff",
        ] {
            let refused = ListQuery::read(query);
            assert!(
                matches!(refused, Err(ApiError::Field { name: "limit", .. })),
                "{query}"
            );
        }
    }

    #[test]
    fn filters_are_read_as_clients_encode_them() {
        let query = "metadata%5Bb%5D=x+y%26&limit=3&metadata[a]=%C3%A9&unknown=1";
        let read = ListQuery::read(query).expect("a good query");
        let labels = [("a", "é"), ("b", "x y&")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(read.labels, labels);
    }

    #[test]
    fn a_filter_that_breaks_a_rule_is_refused() {
        for query in [
            "metadata=x",
            "metadata[]=x",
            "metadata[a b]=x",
            "metadata[a=x",
            "metadata[a]=%ff",
            "metadata[a]=%0a",
            "metadata[a]=1&metadata[a]=2",
            "metadata[a]=1&metadata[b]=1&metadata[c]=1&metadata[d]=1",
        ] {
            assert!(
                matches!(ListQuery::read(query), Err(ApiError::Filter(_))),
                "{query}"
            );
        }
    }

    #[test]
    fn states_are_words_that_may_come_more_than_once() {
        let read = |query: &str| ListQuery::read(query).map(|query| query.statuses);
        assert_eq!(read("").ok(), Some(vec![]));
        let two = vec![JobStatus::Queued, JobStatus::Failed];
        for query in [
            "status=failed&status=queued",
            "status=queued&status=%66ailed&status=queued",
        ] {
            assert_eq!(read(query).ok(), Some(two.clone()), "{query}");
        }
        for query in [
            "status=done",
            "status=",
            "status",
            "status=QUEUED",
            "status=queued,failed",
            "status=%ff",
        ] {
            let refused = read(query);
            assert!(matches!(refused, Err(ApiError::Status)), "{query}");
        }
    }

    #[test]
    fn a_cursor_comes_once() {
        let read = ListQuery::read("cursor=abc").expect("a good query");
        assert_eq!(read.cursor.as_deref(), Some("abc"));
        assert!(matches!(
            ListQuery::read("cursor=a&cursor=b"),
            Err(ApiError::Cursor)
        ));
    }
}
