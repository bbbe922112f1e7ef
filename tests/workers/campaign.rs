//! Many jobs over several workers that go wrong all the time: each ends truly, and none twice.

use std::collections::HashMap;

use it::Random;
use it::comfy::Fault;

use super::*;

/// Jobs of a run; `EASEL_CAMPAIGN_JOBS` says another number.
const JOBS: usize = 60;

#[tokio::test]
async fn every_job_ends_truly_while_workers_go_wrong() {
    let jobs = std::env::var("EASEL_CAMPAIGN_JOBS").ok();
    let jobs = jobs.map_or(JOBS, |jobs| jobs.parse().unwrap());
    let mut workers = Vec::new();
    for version in [Version::Recorded, Version::New, Version::New, Version::Old] {
        workers.push(Comfy::start(version).await.unwrap());
    }
    let rig = Rig::with(workers).await;
    for worker in &rig.workers {
        worker.pace(Duration::from_millis(2));
    }
    let mut random = Random::of(20);
    let mut submitted = HashMap::new();
    for at in 0..jobs {
        let name = format!("campaign-{at}");
        let graph = match at % 3 {
            0 => sampled(&name, "a.safetensors", 5),
            _ => graph(&name, 3),
        };
        submitted.insert(rig.submit(&graph).await, name);
        if at % 5 == 4 {
            let worker = &rig.workers[random.index(4)];
            match random.index(9) {
                0 => worker.restart(),
                1 => worker.fault(Fault::GarbageFrames),
                2 => worker.fault(Fault::LateSocket(Duration::from_millis(30))),
                3 => worker.fault(Fault::WrongLength(1)),
                4 => worker.fault(Fault::Errors(2)),
                5 => worker.fault(Fault::CutSubmissions(1, Duration::from_millis(300))),
                6 => worker.fault(Fault::SilentSocket),
                7 => worker.fault(Fault::Garbage(1)),
                _ => worker.fault(Fault::None),
            }
        }
    }
    for worker in &rig.workers {
        worker.fault(Fault::None);
    }
    let mut ends: HashMap<String, usize> = HashMap::new();
    for (id, name) in &submitted {
        let job = rig.ended(id).await;
        let status = job["status"].as_str().unwrap().to_owned();
        match status.as_str() {
            "succeeded" => {
                assert_eq!(job["outputs"].as_array().map(Vec::len), Some(1), "{job:#}");
                let bytes = rig.output(&job, 0).await;
                let text = String::from_utf8_lossy(&bytes).into_owned();
                assert!(
                    text.contains(&format!("\"{name}\"")),
                    "somebody else's output: {text}"
                );
            }
            // Lost twice, or after an output.
            "failed" => assert_eq!(job["error"]["code"], "worker_lost", "{job:#}"),
            other => panic!("{other}: {job:#}"),
        }
        *ends.entry(status).or_default() += 1;
    }
    let succeeded = ends.get("succeeded").copied().unwrap_or_default();
    assert!(succeeded * 10 >= jobs * 9, "{ends:?}");
    let wrong: usize = rig.workers.iter().map(Comfy::wrong_interrupts).sum();
    assert_eq!(wrong, 0);
}
