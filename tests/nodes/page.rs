//! A partner node, run from the unmodified web page by somebody who signed in with a key of this server.

use std::collections::BTreeSet;

use super::*;
use crate::router::key_named;
use crate::v1::page::{drive_at, judge_windows, web_root};
use secrecy::ExposeSecret;

#[tokio::test]
async fn a_partner_node_runs_from_the_page_and_is_paid_by_its_user() {
    let test = "a_partner_node_runs_from_the_page_and_is_paid_by_its_user";
    let Some(web_root) = web_root(test) else {
        return;
    };
    let changes = [AccountChange::Billed(true)];
    let rig = Rig::with(&["--web-root", &web_root], &changes).await;
    let granted = it::operate(&rig.data(), ["account", "credit", "acme", "500"]).await;
    assert_eq!(granted.code, 0, "{granted:?}");
    let body = json!({"data": [{"b64_json": base64_of(&edited())}]}).to_string();
    rig.partners
        .answer_with(Partner::OpenaiImages, "application/json", body);

    let key = key_named("acme").text.expose_secret().to_owned();
    let server = rig.server.as_ref().unwrap();
    let values = json!({"quality": "low", "size": "1024x1024", "n": 2});
    let arguments = [&key, AT_ONCE, &values.to_string()];
    let told = drive_at(server, test, "web_partner.mjs", &arguments).await;
    judge_windows(&told);
    assert_eq!(
        told["painted"],
        json!({"width": 3, "height": 1}),
        "{told:#}"
    );
    assert_eq!(told["jobs"], 1, "{told:#}");
    assert_eq!(rig.submits(Partner::OpenaiImages), 1);
    let (before, after) = (&told["before"], &told["after"]);
    assert!(
        before.as_str().unwrap().contains("5.00 US dollars"),
        "{told:#}"
    );
    assert!(
        !after.as_str().unwrap().contains("5.00 US dollars"),
        "{told:#}"
    );

    // The page's own calculation of each price is the router's.
    let badges = told["badges"].as_object().unwrap();
    assert!(badges.len() >= 10, "{badges:#?}");
    assert_eq!(badges["FluxKontextProImageNode"], "$0.04/Run");
    for (class, badge) in badges {
        let described = told["described"][class].as_str().unwrap();
        let badge = badge.as_str().unwrap();
        let is_said = match badge {
            "price known after the run" => described.contains("The price is known after the run"),
            badge => described.ends_with(&format!(": {badge}.")),
        };
        assert!(is_said, "{class}: {badge}: {described}");
    }
    let mut body = values;
    body["model"] = "gpt-image-1".into();
    body["prompt"] = "a cat".into();
    let estimate = Request::post_json("/v2/models/openai/gpt-image-1/estimate", &body);
    let estimate = rig.send(estimate).await.json();
    let cents = estimate["amount_cents"].as_u64().unwrap();
    assert_eq!(told["changed"], format!("$0.{cents:02}/Run"), "{estimate}");
    assert_ne!(told["changed"], badges[AT_ONCE]);
}

#[tokio::test]
async fn official_templates_with_partner_nodes_run_here() {
    let test = "official_templates_with_partner_nodes_run_here";
    let Some(web_root) = web_root(test) else {
        return;
    };
    let packages = Path::new(&web_root).ancestors().nth(2).unwrap();
    if !packages.join("comfyui_workflow_templates_json").is_dir() {
        assert!(std::env::var_os("CI").is_none(), "`.ci/run` installs them");
        return;
    }
    let rig = Rig::with(&["--web-root", &web_root], &[]).await;
    rig.partners
        .answer_with(Partner::Bfl, "application/json", ready(&edited()));
    let server = rig.server.as_ref().unwrap();
    let told = drive_at(server, test, "web_templates.mjs", &["api_bfl_flux"]).await;
    assert_eq!(told["errors"], json!([]), "{told:#}");
    let ran = told["ran"].as_object().unwrap();
    let names: Vec<&String> = ran.keys().collect();
    let expected = [
        "api_bfl_flux1_expand_image",
        "api_bfl_flux_1_kontext_multiple_images_input",
        "api_bfl_flux_1_kontext_pro_image",
        "api_bfl_flux_pro_t2i",
    ];
    assert_eq!(
        BTreeSet::from_iter(names),
        BTreeSet::from_iter(&expected.map(String::from)),
        "{told:#}"
    );
    for (name, run) in ran {
        assert_eq!(run["status"], "success", "{name}: {run}");
        assert!(run["outputs"].as_u64() > Some(0), "{name}: {run}");
    }
    let asked = rig.partners.requests_of(Partner::Bfl, Step::Submit);
    let targets: BTreeSet<&str> = asked.iter().map(|asked| asked.target.as_str()).collect();
    let models = [
        "flux-kontext-pro",
        "flux-pro-1.0-expand",
        "flux-pro-1.1-ultra",
    ];
    let models = models.map(|model| format!("/v1/{model}"));
    assert_eq!(
        targets,
        models.iter().map(String::as_str).collect(),
        "{targets:?}"
    );
    assert_eq!(asked.len(), 4);
}
