//! The official clients, unmodified, against the real binary.

use std::path::PathBuf;

use it::partners::{Outcome, Partner, Plan, Step};
use it::{skipped, with_typescript_client};
use tokio::process::Command;

use super::*;

#[tokio::test]
async fn comfy_sdk_0_5_0_calls_models_unmodified() {
    let test = "comfy_sdk_0_5_0_calls_models_unmodified";
    let variable = "EASEL_SDK_0_5_0";
    let Some(python) = std::env::var_os(variable).map(PathBuf::from) else {
        assert!(
            std::env::var_os("CI").is_none(),
            "{variable} must be set where nothing may be skipped"
        );
        return skipped(
            test,
            &format!("{variable} does not name a Python with the client; `.ci/run` installs one"),
        );
    };
    let mut scenario = Command::new(python);
    scenario.arg(root().join("tests/clients/router_scenario.py"));
    calls_models(scenario).await;
}

#[tokio::test]
async fn the_typescript_client_0_1_9_calls_models_unmodified() {
    let test = "the_typescript_client_0_1_9_calls_models_unmodified";
    if let Some(scenario) = with_typescript_client(test, "router_scenario.mjs") {
        calls_models(scenario).await;
    }
}

/// Runs a scenario in which the first generation of the polled model outlives the deadline, and is collected.
async fn calls_models(mut scenario: Command) {
    let off = ("off", vec![accounts::AccountChange::Router(false)]);
    let rig = Rig::with(&["--deadline", "1s"], &[off]).await;
    // The first call of the polled model runs past the deadline: the client collects it.
    rig.partners.plan(Partner::Bfl, Plan::held());
    // The last thing that the scenario does is refused for its content.
    rig.partners.plan(Partner::FalSync, Plan::default());
    rig.partners
        .plan(Partner::FalSync, Plan::of(Outcome::RefusePolicy));
    let key = |name: &str| key_named(name).text.expose_secret().to_owned();
    let scenario = scenario
        .args([POLLED, AT_ONCE])
        .env(
            "COMFY_ROUTER_BASE_URL",
            format!("http://{}", rig.server().address),
        )
        .env("COMFY_API_KEY", key("acme"))
        .env("KEY_WITHOUT_ROUTER", key("off"))
        .kill_on_drop(true)
        .output();
    let collected = async {
        // More than a deadline's worth of looks.
        rig.partners.seen(Partner::Bfl, Step::Poll, 30).await;
        let task = rig.partners.tasks(Partner::Bfl).remove(0);
        rig.partners.end(Partner::Bfl, &task, Outcome::Succeed);
        std::future::pending::<()>().await;
    };
    let ended = tokio::select! {
        ended = scenario => ended.unwrap(),
        () = collected => unreachable!("it never completes"),
    };
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{}: {errors}", ended.status);
    assert_eq!(rig.submits(Partner::Bfl), 1);
}
