//! What is said of credentials, and what needs them.

use super::*;

#[test]
fn whoever_asks_for_credentials_gets_no_anonymous_requests() {
    let anonymous = |flags: &[&str]| {
        let start = Start { flags, ..NOTHING };
        let (config, _) = start.config().expect("a configuration");
        config.access.anonymous
    };
    assert!(anonymous(&[]));
    assert!(!anonymous(&["--require-credentials"]));
    assert!(!anonymous(&["--token", TOKEN]));
    assert!(!anonymous(&["--jwt-secret", SECRET]));
    assert!(!anonymous(&["--jwt-keys", "/keys.json"]));
    let open = Start {
        flags: &["--listen", "0.0.0.0:80", "--require-credentials"],
        ..NOTHING
    };
    assert!(open.config().is_ok());
}

#[test]
fn tokens_are_verified_in_one_way() {
    let both = Start {
        flags: &["--jwt-secret", SECRET, "--jwt-keys", "/keys.json"],
        ..NOTHING
    };
    assert_eq!(
        both.refusal(),
        "JSON Web Tokens are verified with jwt_secret or with jwt_keys; set one of them"
    );
    for flags in [["--jwt-secret", "short"], ["--jwt-algorithm", "none"]] {
        let start = Start {
            flags: &flags,
            ..NOTHING
        };
        let text = start.refusal();
        assert!(text.contains("cannot be"), "{text}");
        assert!(!text.contains("short"), "{text}");
    }
    let set = Start {
        flags: &[
            "--jwt-keys",
            "/keys.json",
            "--jwt-algorithm",
            "EdDSA",
            "--jwt-issuer",
            "us",
        ],
        ..NOTHING
    };
    let (config, settings) = set.config().expect("a configuration");
    let jwt = config.access.jwt.expect("tokens are taken");
    assert_eq!((jwt.issuer.as_deref(), jwt.audience), (Some("us"), None));
    assert!(settings.show().contains("jwt_algorithm = \"EdDSA\""));
}

#[test]
fn a_network_address_needs_credentials() {
    for listen in ["0.0.0.0:80", "192.0.2.1:80", "[::]:80"] {
        let open = Start {
            flags: &["--listen", listen],
            ..NOTHING
        };
        let text = open.refusal();
        assert!(
            text.contains("EASEL_TOKEN")
                && text.contains("--listen 127.0.0.1:80")
                && text.contains("--insecure-no-auth"),
            "{text}"
        );
        let variables = [("EASEL_TOKEN", TOKEN)];
        assert!(
            Start {
                variables: &variables,
                ..open
            }
            .config()
            .is_ok()
        );
        let flags = ["--listen", listen, "--insecure-no-auth"];
        assert!(
            Start {
                flags: &flags,
                ..NOTHING
            }
            .config()
            .is_ok()
        );
    }
    for listen in [
        "127.0.0.1:80",
        "127.9.9.9:80",
        "[::1]:80",
        "[::ffff:127.0.0.1]:80",
    ] {
        assert!(
            Start {
                flags: &["--listen", listen],
                ..NOTHING
            }
            .config()
            .is_ok(),
            "{listen}"
        );
    }
}

#[test]
fn a_token_is_masked_and_kept_out_of_refusals() {
    let variables = [("EASEL_TOKEN", TOKEN)];
    let (config, settings) = Start {
        variables: &variables,
        ..NOTHING
    }
    .config()
    .expect("a configuration");
    assert!(
        settings
            .show()
            .contains("token = \"********\"  # variable EASEL_TOKEN\n")
    );
    assert!(!settings.show().contains(TOKEN) && !format!("{config:?}{settings:?}").contains(TOKEN));
    let variables = [("EASEL_TOKEN", "too short")];
    let text = Start {
        variables: &variables,
        ..NOTHING
    }
    .refusal();
    assert!(
        text.contains("EASEL_TOKEN") && !text.contains("too short"),
        "{text}"
    );
}
