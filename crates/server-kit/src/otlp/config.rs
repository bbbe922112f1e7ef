//! What the `OTEL_*` variables ask for.
//!
//! The exporters read addresses, headers and compression themselves, and the SDK reads the sampler, the limits of spans and the
//! attributes of the resource. What they would pass over in silence is refused here.

use std::str::FromStr;
use std::time::Duration;

use http::Uri;
use hyper_kit::Host;

/// The longest queue: some 100 MB of spans.
const MOST_QUEUED: usize = 65_536;

/// How long a batch may take to be delivered unless a variable says otherwise.
const TIMEOUT: Duration = Duration::from_secs(10);

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
const CERTIFICATE: &str = "OTEL_EXPORTER_OTLP_CERTIFICATE";

/// What is exported, and how.
#[derive(Debug, PartialEq)]
pub(super) struct Config {
    /// Traces, if they are exported.
    pub(super) traces: Option<Signal>,
    /// Logs, if they are exported.
    pub(super) logs: Option<Signal>,
    /// Authorities to trust beside the usual ones: the content of a PEM file.
    pub(super) extra_ca_pem: Option<Vec<u8>>,
    /// What the service is called, unless it has its usual name or one among the attributes of the resource.
    pub(super) service_name: Option<String>,
}

/// How one kind of data is exported.
#[derive(Debug, PartialEq)]
pub(super) struct Signal {
    /// Where it goes.
    pub(super) host: Host,
    /// Most items that wait.
    pub(super) queue: usize,
    /// Most items of a batch.
    pub(super) batch: usize,
    /// How long an item waits for others.
    pub(super) delay: Duration,
    /// How long a batch may take.
    pub(super) timeout: Duration,
}

/// The variables of one kind of data.
struct Names {
    /// As in `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`.
    exporter: &'static str,
    /// As in `OTEL_BSP_MAX_QUEUE_SIZE`.
    batching: &'static str,
    delay: Duration,
}

const TRACES: Names = Names {
    exporter: "TRACES",
    batching: "BSP",
    delay: Duration::from_secs(5),
};

const LOGS: Names = Names {
    exporter: "LOGS",
    batching: "BLRP",
    delay: Duration::from_secs(1),
};

/// A variable for traces and logs that cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum OtlpError {
    /// It is none of the allowed values.
    #[error("{variable} is `{value}`; set it to {allowed}")]
    Value {
        /// Its name.
        variable: String,
        /// Its value.
        value: String,
        /// What it may be.
        allowed: &'static str,
    },
    /// The address of the collector; it may have a password in it.
    #[error(
        "{0} is no address of a collector; set it to one such as http://localhost:4318, without a user name"
    )]
    Endpoint(String),
    /// The file cannot be read.
    #[error("the file that {CERTIFICATE} names cannot be read; correct its path")]
    Certificate(#[source] std::io::Error),
    /// It has no authorities in it.
    #[error("the file that {CERTIFICATE} names has no certificates in it; name a PEM file")]
    NoCertificates(#[source] hyper_kit::client::ExtraCaError),
    /// The exporter refuses what it reads.
    #[error("traces and logs cannot be exported as the OTEL_ variables say: {0}")]
    Exporter(String),
    /// The thread cannot be started.
    #[error("the thread that exports traces and logs cannot be started")]
    Thread(#[source] std::io::Error),
}

/// Looks a variable up.
type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Config {
    /// Reads the variables; `None` if nothing is to be exported.
    ///
    /// # Errors
    /// If one makes no sense.
    pub(super) fn read(variables: Lookup<'_>) -> Result<Option<Self>, OtlpError> {
        let disabled = word(variables, "OTEL_SDK_DISABLED");
        if disabled.is_some_and(|word| word.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let traces = Signal::read(variables, &TRACES)?;
        let logs = Signal::read(variables, &LOGS)?;
        if traces.is_none() && logs.is_none() {
            return Ok(None);
        }
        let certificate = word(variables, CERTIFICATE);
        let extra_ca_pem = certificate.map(std::fs::read).transpose();
        Ok(Some(Self {
            traces,
            logs,
            extra_ca_pem: extra_ca_pem.map_err(OtlpError::Certificate)?,
            service_name: word(variables, "OTEL_SERVICE_NAME"),
        }))
    }
}

impl Signal {
    fn read(variables: Lookup<'_>, names: &Names) -> Result<Option<Self>, OtlpError> {
        let Names {
            exporter, batching, ..
        } = names;
        let own = format!("OTEL_EXPORTER_OTLP_{exporter}_ENDPOINT");
        let endpoint = match word(variables, &own) {
            Some(endpoint) => Some((own, endpoint)),
            None => word(variables, ENDPOINT).map(|endpoint| (ENDPOINT.to_owned(), endpoint)),
        };
        let Some((variable, endpoint)) = endpoint else {
            return Ok(None);
        };
        let chosen = format!("OTEL_{exporter}_EXPORTER");
        match word(variables, &chosen).as_deref() {
            None | Some("otlp") => {}
            Some("none") => return Ok(None),
            Some(other) => return Err(refused(&chosen, other, "otlp or none")),
        }
        for protocol in [&format!("OTEL_EXPORTER_OTLP_{exporter}_PROTOCOL"), PROTOCOL] {
            match word(variables, protocol).as_deref() {
                None => {}
                Some("http/protobuf") => break,
                Some(other) => {
                    let allowed =
                        "http/protobuf, and the address to that port of the collector, mostly 4318";
                    return Err(refused(protocol, other, allowed));
                }
            }
        }
        let timeout = format!("OTEL_EXPORTER_OTLP_{exporter}_TIMEOUT");
        let timeout = match millis(variables, &timeout)? {
            None => millis(variables, "OTEL_EXPORTER_OTLP_TIMEOUT")?,
            timeout => timeout,
        };
        let queue = count(variables, &format!("OTEL_{batching}_MAX_QUEUE_SIZE"))?;
        let queue = queue.unwrap_or(2048);
        let batch = count(variables, &format!("OTEL_{batching}_MAX_EXPORT_BATCH_SIZE"))?;
        let delay = millis(variables, &format!("OTEL_{batching}_SCHEDULE_DELAY"))?;
        Ok(Some(Self {
            host: host(&endpoint).ok_or(OtlpError::Endpoint(variable))?,
            queue,
            batch: batch.unwrap_or(512).min(queue),
            delay: delay.unwrap_or(names.delay),
            timeout: timeout.unwrap_or(TIMEOUT),
        }))
    }
}

/// A variable that is set to something.
fn word(variables: Lookup<'_>, name: &str) -> Option<String> {
    let word = variables(name)?.trim().to_owned();
    (!word.is_empty()).then_some(word)
}

fn refused(variable: &str, value: &str, allowed: &'static str) -> OtlpError {
    OtlpError::Value {
        variable: variable.to_owned(),
        value: value.to_owned(),
        allowed,
    }
}

fn number<T: FromStr + PartialOrd>(
    variables: Lookup<'_>,
    name: &str,
    within: std::ops::RangeInclusive<T>,
    allowed: &'static str,
) -> Result<Option<T>, OtlpError> {
    let Some(word) = word(variables, name) else {
        return Ok(None);
    };
    let number = word.parse().ok().filter(|number| within.contains(number));
    number
        .map(Some)
        .ok_or_else(|| refused(name, &word, allowed))
}

fn count(variables: Lookup<'_>, name: &str) -> Result<Option<usize>, OtlpError> {
    number(variables, name, 1..=MOST_QUEUED, "a number from 1 to 65536")
}

fn millis(variables: Lookup<'_>, name: &str) -> Result<Option<Duration>, OtlpError> {
    let allowed = "milliseconds from 1 to 600000";
    let millis = number(variables, name, 1..=600_000, allowed)?;
    Ok(millis.map(Duration::from_millis))
}

/// The host of a web address.
fn host(endpoint: &str) -> Option<Host> {
    let uri: Uri = endpoint.parse().ok()?;
    let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
    let authority = uri.authority().filter(|_| is_web)?;
    Host::parse(authority.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<Config>, OtlpError> {
        Config::read(&|name| {
            let found = variables.iter().find(|(known, _)| *known == name)?;
            Some(found.1.to_owned())
        })
    }

    const AT: (&str, &str) = (ENDPOINT, "http://localhost:4318");

    #[test]
    fn nothing_is_exported_unless_a_collector_is_named() {
        for none in [
            &[][..],
            &[(ENDPOINT, " ")],
            &[("OTEL_TRACES_EXPORTER", "otlp")],
            &[AT, ("OTEL_SDK_DISABLED", "TRUE")],
            &[
                AT,
                ("OTEL_TRACES_EXPORTER", "none"),
                ("OTEL_LOGS_EXPORTER", "none"),
            ],
        ] {
            assert!(matches!(read(none), Ok(None)), "{none:?}");
        }
    }

    #[test]
    fn a_collector_gets_traces_and_logs_in_batches() {
        let config = read(&[AT]).expect("good").expect("exported");
        let host = Host::parse("localhost:4318").expect("a host");
        let signal = |delay| Signal {
            host: host.clone(),
            queue: 2048,
            batch: 512,
            delay: Duration::from_secs(delay),
            timeout: TIMEOUT,
        };
        let expected = Config {
            traces: Some(signal(5)),
            logs: Some(signal(1)),
            extra_ca_pem: None,
            service_name: None,
        };
        assert_eq!(config, expected);
    }

    #[test]
    fn a_variable_of_one_kind_of_data_wins() {
        let config = read(&[
            (
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
                "https://traces.example/v1/traces",
            ),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
            (PROTOCOL, "grpc"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "3000"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "2000"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "100"),
            ("OTEL_SERVICE_NAME", "pictures"),
        ]);
        let config = config.expect("good").expect("exported");
        let traces = config.traces.expect("traces");
        assert_eq!(traces.host, Host::parse("traces.example").expect("a host"));
        assert_eq!(traces.timeout, Duration::from_secs(2));
        assert_eq!((traces.queue, traces.batch), (100, 100));
        assert!(config.logs.is_none());
        assert_eq!(config.service_name.as_deref(), Some("pictures"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_to_do() {
        for (variable, value, told) in [
            (
                PROTOCOL,
                "grpc",
                "OTEL_EXPORTER_OTLP_PROTOCOL is `grpc`; set it to http/protobuf, and the address to that port of the collector, mostly 4318",
            ),
            (
                "OTEL_LOGS_EXPORTER",
                "console",
                "OTEL_LOGS_EXPORTER is `console`; set it to otlp or none",
            ),
            (
                "OTEL_BSP_MAX_QUEUE_SIZE",
                "0",
                "OTEL_BSP_MAX_QUEUE_SIZE is `0`; set it to a number from 1 to 65536",
            ),
            (
                "OTEL_BLRP_SCHEDULE_DELAY",
                "soon",
                "OTEL_BLRP_SCHEDULE_DELAY is `soon`; set it to milliseconds from 1 to 600000",
            ),
        ] {
            let refused = read(&[AT, (variable, value)]).expect_err(variable);
            assert_eq!(refused.to_string(), told);
        }
        for endpoint in ["localhost:4318", "ftp://a", "http://me:s3cret@a", "nowhere"] {
            let refused = read(&[(ENDPOINT, endpoint)]).expect_err(endpoint);
            assert!(matches!(&refused, OtlpError::Endpoint(name) if name == ENDPOINT));
            assert!(!refused.to_string().contains("s3cret"));
        }
        let refused = read(&[AT, (CERTIFICATE, "/nowhere/ca.pem")]);
        assert!(matches!(refused, Err(OtlpError::Certificate(_))));
    }
}
