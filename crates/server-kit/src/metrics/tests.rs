//! What a scrape shows.

use std::sync::Arc;
use std::time::Duration;

use hyper_kit::ServerStats;

use super::*;

/// The value of one line of a scrape.
fn value(text: &str, series: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(series))?;
    line.trim().parse().ok()
}

#[test]
fn requests_are_counted_by_method_route_and_status() {
    let mut metrics = Metrics::new("easel", "1.2.3");
    let http = HttpMetrics::register(&mut metrics, Arc::new(ServerStats::default()));
    for (status, milliseconds) in [(200, 1), (200, 40), (404, 1)] {
        http.observe(
            "GET",
            "/api/v2/jobs/{id}",
            status,
            Duration::from_millis(milliseconds),
        );
    }
    http.observe("BREW", "unknown", 404, Duration::ZERO);

    let text = metrics.write();
    let series = |rest: &str| value(&text, rest);
    let of = |status: u16| {
        format!(
            "easel_http_requests_total{{method=\"GET\",route=\"/api/v2/jobs/{{id}}\",status=\"{status}\"}}"
        )
    };
    assert_eq!(series(&of(200)), Some(2.0), "{text}");
    assert_eq!(series(&of(404)), Some(1.0));
    assert_eq!(
        series("easel_http_requests_total{method=\"other\",route=\"unknown\",status=\"404\"}"),
        Some(1.0)
    );
    let bucket = |le: &str| {
        format!(
            "easel_http_request_duration_seconds_bucket{{le=\"{le}\",route=\"/api/v2/jobs/{{id}}\"}}"
        )
    };
    assert_eq!(series(&bucket("0.025")), Some(2.0));
    assert_eq!(series(&bucket("0.05")), Some(3.0));
    assert_eq!(
        series("easel_build_info{program=\"easel\",version=\"1.2.3\"}"),
        Some(1.0)
    );
}

#[test]
fn a_scrape_ends_as_the_format_wants_and_shows_the_process() {
    let mut metrics = Metrics::new("easel", "1.2.3");
    let _http = HttpMetrics::register(&mut metrics, Arc::new(ServerStats::default()));
    let text = metrics.write();
    assert!(text.ends_with("# EOF\n"));
    assert_eq!(
        value(&text, "easel_http_connections_accepted_total"),
        Some(0.0)
    );
    if std::path::Path::new("/proc/self/status").exists() {
        assert!(
            value(&text, "process_resident_memory_bytes").is_some_and(|bytes| bytes > 1e6),
            "{text}"
        );
        assert!(value(&text, "process_open_fds").is_some_and(|count| count >= 3.0));
        assert!(value(&text, "process_cpu_seconds_total").is_some());
    }
}
