//! The dialects, one file for each partner. What they answer is written in odd ways on purpose (spaces, keys twice, long
//! numbers, escapes), so that a rewrite on the way is found out.

pub(super) mod bfl;
pub(super) mod byteplus;
pub(super) mod dashscope;
pub(super) mod elevenlabs;
pub(super) mod fal;
pub(super) mod google;
pub(super) mod ideogram;
pub(super) mod kling;
pub(super) mod luma;
pub(super) mod minimax;
pub(super) mod openai;
pub(super) mod pixverse;
pub(super) mod recraft;
pub(super) mod replicate;
pub(super) mod rodin;
pub(super) mod runway;
pub(super) mod stability;
pub(super) mod tripo;
pub(super) mod xai;

use super::desk::{Desk, Outcome};
use super::wire::{Reply, Request, Step};

/// Members that no reader of JSON gives back as it found them.
const ODD: &str = r#""odd" : 1.0,  "odd":123456789012345678901234567890 , "text":"\u00e9\/""#;

/// Takes a submission: refused as planned, or as a new task whose id `accepted` answers with.
fn submit(
    desk: &mut Desk,
    request: &Request,
    refused: fn(Outcome) -> Reply,
    accepted: impl FnOnce(&str) -> Reply,
) -> (Step, Reply) {
    let plan = desk.next_plan();
    let reply = match plan.outcome {
        Outcome::RefusePolicy | Outcome::RefuseInput | Outcome::RefuseFunds => {
            refused(plan.outcome)
        }
        Outcome::Succeed | Outcome::Fail | Outcome::Moderate => {
            accepted(&desk.take(plan, &request.body))
        }
    };
    (Step::Submit, reply)
}

/// Answers a synchronous call: with what succeeds, or as `otherwise` says.
fn at_once(
    desk: &mut Desk,
    request: &Request,
    media_type: &str,
    usual: impl Into<Vec<u8>>,
    otherwise: fn(Outcome) -> Reply,
) -> (Step, Reply) {
    let plan = desk.next_plan();
    let reply = match plan.outcome {
        Outcome::Succeed => {
            let id = desk.take(plan, &request.body);
            Reply::success(desk.success(&id, media_type, usual))
        }
        Outcome::Fail | Outcome::Moderate => {
            desk.take(plan, &request.body);
            otherwise(plan.outcome)
        }
        Outcome::RefusePolicy | Outcome::RefuseInput | Outcome::RefuseFunds => {
            otherwise(plan.outcome)
        }
    };
    (Step::Submit, reply)
}

/// JSON that succeeds.
fn done(desk: &Desk, id: &str, usual: String) -> Reply {
    Reply::success(desk.success(id, "application/json", usual))
}

fn unknown() -> (Step, Reply) {
    (Step::Unknown, Reply::not_found())
}
