//! Stopping jobs at workers, and never another one's.

use it::comfy::Fault;

use super::*;

#[tokio::test]
async fn a_running_job_is_interrupted_and_its_neighbour_is_not() {
    let rig = Rig::start().await;
    rig.worker().pace(Duration::from_millis(10));
    let first = rig.submit(&sampled("first", "a.safetensors", 1000)).await;
    rig.worker().until(|ran| ran.len() == 1).await;
    let second = rig.submit(&sampled("second", "a.safetensors", 2)).await;
    // An interrupt that is lost is sent again.
    rig.worker().fault(Fault::IgnoredInterrupts(2));
    rig.cancel(&first).await;
    assert_eq!(rig.ended(&first).await["status"], "canceled");
    assert_eq!(rig.ended(&second).await["status"], "succeeded");
    let ends: Vec<_> = rig.worker().ran().iter().map(|ran| ran.end).collect();
    assert_eq!(ends, [Some("interrupted"), Some("success")]);
    assert_eq!(rig.worker().wrong_interrupts(), 0);
}

#[tokio::test]
async fn a_job_that_waits_behind_somebody_elses_prompt_is_deleted() {
    let rig = Rig::start().await;
    // It goes on for as long as a slow machine takes to cancel.
    rig.worker().pace(Duration::from_millis(200));
    let foreign = rig
        .worker()
        .foreign(&sampled("foreign", "a.safetensors", 200));
    rig.worker().until(|ran| ran.len() == 1).await;
    let job = rig.submit(&graph("waiting", 1)).await;
    loop {
        if !rig.worker().submissions().is_empty() {
            break;
        }
        pause().await;
    }
    rig.cancel(&job).await;
    assert_eq!(rig.ended(&job).await["status"], "canceled");
    rig.worker().pace(Duration::from_millis(1));
    rig.worker().until(|ran| ran[0].end.is_some()).await;
    let ran = rig.worker().ran();
    assert_eq!(
        (ran.len(), ran[0].prompt == foreign, ran[0].end),
        (1, true, Some("success"))
    );
}

#[tokio::test]
async fn an_older_version_interrupts_nobody_else_either() {
    let rig = Rig::with(vec![Comfy::start(Version::Old).await.unwrap()]).await;
    rig.worker().pace(Duration::from_millis(5));
    let job = rig.submit(&sampled("job", "a.safetensors", 100)).await;
    rig.worker().until(|ran| ran.len() == 1).await;
    // Somebody else's prompt could be hit, so the job runs to its end.
    rig.worker()
        .foreign(&sampled("foreign", "a.safetensors", 20));
    rig.cancel(&job).await;
    rig.ended(&job).await;
    rig.worker()
        .until(|ran| ran.len() == 2 && ran[1].end.is_some())
        .await;
    assert_eq!(rig.worker().wrong_interrupts(), 0);
    assert_eq!(rig.worker().ran()[1].end, Some("success"));
}

#[tokio::test]
async fn cancels_at_any_moment_hit_their_own_job_alone() {
    let rig = Rig::start().await;
    for round in 0..40_u64 {
        let canceled = rig
            .submit(&sampled(&format!("c{round}"), "a.safetensors", 3))
            .await;
        let kept = rig
            .submit(&sampled(&format!("k{round}"), "a.safetensors", 3))
            .await;
        tokio::time::sleep(Duration::from_micros(round * 400)).await;
        rig.cancel(&canceled).await;
        let canceled = rig.ended(&canceled).await;
        let status = canceled["status"].as_str().unwrap();
        assert!(["canceled", "succeeded"].contains(&status), "{canceled:#}");
        let kept = rig.ended(&kept).await;
        assert_eq!(kept["status"], "succeeded", "{kept:#}");
    }
    assert_eq!(rig.worker().wrong_interrupts(), 0);
}

#[tokio::test]
async fn the_newest_version_cancels_what_waits_or_runs_in_one_step() {
    for has_route in [true, false] {
        let rig = Rig::with(vec![Comfy::start(Version::Latest).await.unwrap()]).await;
        if !has_route {
            // A proxy in front of it passes the older routes alone.
            rig.worker().fault(Fault::MissingRoutes);
        }
        rig.worker().pace(Duration::from_millis(10));
        let foreign = rig
            .worker()
            .foreign(&sampled("foreign", "a.safetensors", 100_000));
        let waiting = rig.submit(&sampled("waiting", "a.safetensors", 2)).await;
        rig.worker().until(|ran| ran.len() == 1).await;
        while rig.worker().submissions().is_empty() {
            pause().await;
        }
        rig.cancel(&waiting).await;
        assert_eq!(rig.ended(&waiting).await["status"], "canceled");
        assert_eq!(rig.worker().ran()[0].end, None, "{foreign} goes on");
        rig.worker().restart();

        let running = rig
            .submit(&sampled("running", "a.safetensors", 100_000))
            .await;
        rig.worker().until(|ran| ran.len() == 2).await;
        rig.worker().fault(Fault::IgnoredInterrupts(1));
        rig.cancel(&running).await;
        assert_eq!(rig.ended(&running).await["status"], "canceled");
        rig.worker().until(|ran| ran[1].end.is_some()).await;
        assert_eq!(rig.worker().ran()[1].end, Some("interrupted"));
        assert_eq!(rig.worker().interrupts() == 0, has_route);
    }
}
