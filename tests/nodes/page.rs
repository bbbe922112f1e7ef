//! A partner node, run from the unmodified web page by somebody who signed in with a key of this server.

use super::*;
use crate::router::key_named;
use crate::v1::page::{drive_at, web_root};
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
    assert_eq!(told["errors"], json!([]), "{told:#}");
    assert_eq!(told["refused"], json!([]), "{told:#}");
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
