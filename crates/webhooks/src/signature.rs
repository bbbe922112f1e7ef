//! What is signed and how, as Standard Webhooks says: HMAC with SHA-256 over id, time and body.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;

use crate::event::second;
use crate::{Event, MessageId, SECRET_PREFIX};

/// What every signature begins with: the version of the scheme.
const VERSION: &str = "v1,";

/// How far the time of a delivery may be from the receiver's clock, in seconds.
const TOLERANCE_S: u64 = 300;

/// Why a delivery is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The secret is none.
    #[error("the secret is not valid: a secret is whsec_ and base64")]
    Secret,
    /// The time is too far from the receiver's clock, or none.
    #[error("webhook-timestamp is more than {TOLERANCE_S} s from the clock")]
    Timestamp,
    /// No signature fits.
    #[error("no signature fits")]
    Signature,
}

/// The body of a delivery: the same bytes at every attempt.
#[must_use]
pub fn body(event: &Event) -> String {
    format!(
        r#"{{"type":"{}","timestamp":"{}","data":{}}}"#,
        event.kind.name(),
        second(event.at),
        event.data
    )
}

/// The value of `webhook-signature`: a signature for each secret, separated by spaces.
#[must_use]
pub fn sign(message: MessageId, now: Timestamp, body: &str, secrets: &[SecretString]) -> String {
    let signed = format!("{message}.{}.{body}", now.as_second());
    let signatures = secrets.iter().filter_map(|secret| {
        let mac = mac(secret.expose_secret(), &signed).ok()?;
        Some(format!(
            "{VERSION}{}",
            STANDARD.encode(mac.finalize().into_bytes())
        ))
    });
    signatures.collect::<Vec<_>>().join(" ")
}

/// Verifies a delivery, as a receiver does.
///
/// # Errors
/// If the secret is none, the time is too far from `now`, or no signature fits.
pub fn verify(
    secret: &str,
    id: &str,
    timestamp: &str,
    signatures: &str,
    body: &str,
    now: Timestamp,
) -> Result<(), SignatureError> {
    let sent: i64 = timestamp.parse().map_err(|_| SignatureError::Timestamp)?;
    if sent.abs_diff(now.as_second()) > TOLERANCE_S {
        return Err(SignatureError::Timestamp);
    }
    let signed = format!("{id}.{timestamp}.{body}");
    let mac = mac(secret, &signed)?;
    let fits = |signature: &str| {
        let bytes = signature
            .strip_prefix(VERSION)
            .and_then(|text| STANDARD.decode(text).ok());
        bytes.is_some_and(|bytes| mac.clone().verify_slice(&bytes).is_ok())
    };
    match signatures.split(' ').any(fits) {
        true => Ok(()),
        false => Err(SignatureError::Signature),
    }
}

fn mac(secret: &str, signed: &str) -> Result<Hmac<Sha256>, SignatureError> {
    let key = secret
        .strip_prefix(SECRET_PREFIX)
        .ok_or(SignatureError::Secret)?;
    let key = STANDARD.decode(key).map_err(|_| SignatureError::Secret)?;
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).map_err(|_| SignatureError::Secret)?;
    mac.update(signed.as_bytes());
    Ok(mac)
}

#[cfg(test)]
mod tests {
    use accounts::AccountId;
    use uuid::Uuid;

    use super::*;
    use crate::WebhookId;

    /// The example that the specification of Standard Webhooks signs.
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const TIMESTAMP: &str = "1614265330";
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const BODY: &str = r#"{"test": 2432232314}"#;
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    #[test]
    fn the_published_example_verifies() {
        let verify = |signatures: &str, body: &str, now| {
            verify(SECRET, ID, TIMESTAMP, signatures, body, at(now))
        };
        assert_eq!(verify(SIGNATURE, BODY, 1_614_265_330), Ok(()));
        assert_eq!(
            verify(&format!("v1a,x {SIGNATURE}"), BODY, 1_614_265_330),
            Ok(())
        );
        assert_eq!(
            verify(SIGNATURE, "{}", 1_614_265_330),
            Err(SignatureError::Signature)
        );
        assert_eq!(
            verify("", BODY, 1_614_265_330),
            Err(SignatureError::Signature)
        );
        assert_eq!(
            verify(SIGNATURE, BODY, 1_614_265_330 + 301),
            Err(SignatureError::Timestamp)
        );
        assert_eq!(
            verify(SIGNATURE, BODY, 1_614_265_330 - 301),
            Err(SignatureError::Timestamp)
        );
    }

    #[test]
    fn each_secret_signs_and_the_body_is_what_the_event_says() {
        let account = AccountId::local();
        let event = Event::test(&account, WebhookId(Uuid::from_u128(1)), at(1_750_000_000));
        let body = body(&event);
        assert_eq!(
            body,
            r#"{"type":"webhook.test","timestamp":"2025-06-15T15:06:40Z","data":{"id":"00000000-0000-0000-0000-000000000001","account":"local"}}"#
        );
        let other = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
        let message = MessageId(Uuid::from_u128(2));
        let signed = sign(message, at(10), &body, &[SECRET.into(), other.into()]);
        for secret in [SECRET, other] {
            assert_eq!(
                verify(secret, &message.to_string(), "10", &signed, &body, at(12)),
                Ok(())
            );
        }
        assert_eq!(
            verify("x", &message.to_string(), "10", &signed, &body, at(12)),
            Err(SignatureError::Secret)
        );
    }
}
