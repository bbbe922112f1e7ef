//! The secrets that sign deliveries. They are derived and nowhere stored: no copy of the rows alone gives one away.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use secrecy::SecretString;

use crate::WebhookId;

/// What a secret begins with, as Standard Webhooks says.
pub const PREFIX: &str = "whsec_";

/// What the derivation is for. Another text would make other secrets of all webhooks.
const CONTEXT: &str = "easel 2026-11-25 secrets of webhooks";

/// Which secrets of a webhook sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretVersions {
    /// The newest one.
    pub current: u32,
    /// Until when the one before it signs as well.
    pub previous_until: Option<Timestamp>,
}

/// The secrets that sign now, the newest first: one, or two after a rotation.
pub type Secrets = Vec<SecretString>;

impl SecretVersions {
    /// Those of a new webhook.
    pub const FIRST: Self = Self {
        current: 1,
        previous_until: None,
    };

    /// Those after a new secret was made.
    #[must_use]
    pub fn rotated(self, previous_until: Timestamp) -> Self {
        Self {
            current: self.current.saturating_add(1),
            previous_until: Some(previous_until),
        }
    }

    /// The secrets that sign at a time.
    #[must_use]
    pub fn signing(self, installation: &[u8; 32], webhook: WebhookId, now: Timestamp) -> Secrets {
        let previous = self.previous_until.filter(|until| now < *until);
        let previous = previous.and_then(|_| self.current.checked_sub(1));
        let versions = [Some(self.current), previous.filter(|version| *version > 0)];
        let versions = versions.into_iter().flatten();
        versions
            .map(|version| signing_secret(installation, webhook, version))
            .collect()
    }
}

/// A secret of a webhook, as its receiver has it: it follows from the secret of the installation.
#[must_use]
pub fn signing_secret(installation: &[u8; 32], webhook: WebhookId, version: u32) -> SecretString {
    let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
    hasher.update(installation);
    hasher.update(webhook.0.as_bytes());
    hasher.update(&version.to_le_bytes());
    format!("{PREFIX}{}", STANDARD.encode(hasher.finalize().as_bytes())).into()
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_rotation_leaves_two_secrets_for_a_time() {
        let (installation, webhook) = ([1; 32], WebhookId(Uuid::from_u128(1)));
        let at = |second| Timestamp::from_second(second).expect("in range");
        let texts = |versions: SecretVersions, now| -> Vec<String> {
            let signing = versions.signing(&installation, webhook, now);
            signing
                .iter()
                .map(|secret| secret.expose_secret().to_owned())
                .collect()
        };
        let first = texts(SecretVersions::FIRST, at(0));
        assert_eq!(first.len(), 1);
        let rotated = SecretVersions::FIRST.rotated(at(100));
        let both = texts(rotated, at(99));
        assert_eq!(both.len(), 2);
        assert_eq!(both[1], first[0], "the one before signs as well");
        assert_eq!(texts(rotated, at(100)), both[..1], "and then no more");
        let other = SecretVersions::FIRST.signing(&[2; 32], webhook, at(0));
        assert_ne!(
            other[0].expose_secret(),
            first[0],
            "another installation has others"
        );
    }
}
