//! What a partner says of a rejection, without what it says of us.

use router_core::{Failure, Refusal};

use super::PartnerModel;

impl PartnerModel {
    /// What a partner says of a rejection goes to the caller, unless it tells the router's own secret.
    pub(super) fn discreet(&self, failure: Failure) -> Failure {
        let keys = &self.egress.keys;
        match failure {
            Failure::Refused {
                refusal: Refusal::Detail(answer),
                charge,
            } if keys.is_in(&answer.body) => Failure::Refused {
                refusal: Refusal::Content {
                    code: "rejected".to_owned(),
                    message: "the provider rejected the input".to_owned(),
                },
                charge,
            },
            Failure::Refused {
                refusal: Refusal::Content { code, message },
                charge,
            } => Failure::Refused {
                refusal: Refusal::Content {
                    code: keys.mask(&code),
                    message: keys.mask(&message),
                },
                charge,
            },
            Failure::Policy {
                message,
                detail,
                charge,
            } => Failure::Policy {
                message,
                detail: detail.filter(|answer| !keys.is_in(&answer.body)),
                charge,
            },
            Failure::InStream { cause, charge } => Failure::InStream {
                cause: Box::new(self.discreet(*cause)),
                charge,
            },
            Failure::Refused { .. }
            | Failure::Failed { .. }
            | Failure::TimedOut { .. }
            | Failure::Account { .. }
            | Failure::Transient { .. } => failure,
        }
    }
}
