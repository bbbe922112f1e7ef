//! Every family on one port.

use it::{Launch, Request, Server};

#[tokio::test]
async fn all_in_one_is_open_for_workflows_and_prints_a_token_for_the_router() {
    let data = tempfile::tempdir().unwrap();
    let mut launch = Launch::of("all-in-one");
    launch
        .variables
        .push(("BFL_API_KEY".to_owned(), "a key of a partner".to_owned()));
    let server = Server::launch(data.path(), &launch).await.unwrap();
    let welcome = &server.welcome;
    let token = welcome
        .split_whitespace()
        .find(|word| word.starts_with("dev-"))
        .unwrap_or_else(|| panic!("{welcome}"));
    assert!(
        welcome.contains("set OPENAI_API_KEY for openai"),
        "{welcome}"
    );

    let jobs = server.send(&Request::get("/api/v2/jobs")).await.unwrap();
    assert_eq!(jobs.status, 200);
    let anonymous = server.send(&Request::get("/v1/models")).await.unwrap();
    assert_eq!(anonymous.status, 401);
    let bearer = format!("Bearer {token}");
    let models = Request::get("/v2/models").header("Authorization", &bearer);
    let models = server.send(&models).await.unwrap();
    assert_eq!(models.status, 200);
    assert!(
        models.text().contains("bfl/flux-2-pro"),
        "{}",
        models.text()
    );

    // Each family words what it has no route for.
    let nothing = server.send(&Request::get("/v1/nothing")).await.unwrap();
    assert_eq!(nothing.json()["error_type"], "invalid_input");
    let nothing = server.send(&Request::get("/api/v2/nothing")).await.unwrap();
    assert_eq!(nothing.error_code(), "not_found");
    let nothing = server.send(&Request::get("/nothing")).await.unwrap();
    assert_eq!(nothing.json()["code"], "NOT_FOUND");
    assert!(server.terminate().await.unwrap().success());
}
