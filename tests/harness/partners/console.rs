//! The simulated partners driven by lines of text, for those who run them as a process of their own.
//!
//! One command a line, one line of JSON for an answer.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::{Fault, Outcome, Partner, Partners, Plan, Recorded, Step};

/// What can be asked.
pub const HELP: &str = "\
plan PARTNER OUTCOME [LOOKS|held]   the next task: succeed, fail, moderate, refuse-policy, refuse-input, refuse-funds
end PARTNER TASK OUTCOME            a task that is held
fault PARTNER STEP KIND [VALUE]     the next submit, poll, result or cancel: stall, status N, malformed, redirect URL,
                                    huge BYTES, huge-chunked BYTES, cut, cut-answer, cut-unread
echo PARTNER                        successes answer with what was submitted
release                             answers that stall go on
tasks PARTNER                       the tasks so far
requests [PARTNER STEP]             everything that was received; bodies as base64
forget                              forgets what was received";

/// Where every partner is found, and what it takes for a key.
#[must_use]
pub fn directory(partners: &Partners) -> Vec<Value> {
    let lines = Partner::all().map(|partner| {
        json!({
            "partner": partner.prefix(),
            "host": partner.host(),
            "base_url": partners.base_url(partner),
            "secret": partner.secret(),
            "access_key": (partner == Partner::Kling).then(|| partner.access_key()),
        })
    });
    lines.collect()
}

/// Does what a line says, and answers what there is to answer.
///
/// # Errors
/// With one sentence, if the line is not understood.
pub fn command(partners: &Partners, line: &str) -> Result<Value, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["plan", partner, outcome, looks @ ..] => {
            let looks = match looks {
                [] => Some(1),
                ["held"] => None,
                [looks] => Some(number(looks)?),
                _ => return Err(format!("too much: {line}")),
            };
            let plan = Plan {
                outcome: outcome_of(outcome)?,
                looks,
            };
            partners.plan(partner_of(partner)?, plan);
        }
        ["end", partner, task, outcome] => {
            let partner = partner_of(partner)?;
            if !partners.tasks(partner).iter().any(|known| known == task) {
                return Err(format!("no task is named {task}"));
            }
            partners.end(partner, task, outcome_of(outcome)?);
        }
        ["fault", partner, step, kind @ ..] => {
            partners.fault(partner_of(partner)?, step_of(step)?, fault_of(kind)?);
        }
        ["echo", partner] => partners.echo(partner_of(partner)?),
        ["release"] => partners.release(),
        ["forget"] => partners.forget(),
        ["tasks", partner] => return Ok(json!(partners.tasks(partner_of(partner)?))),
        ["requests"] => return Ok(partners.requests().iter().map(shown).collect()),
        ["requests", partner, step] => {
            let requests = partners.requests_of(partner_of(partner)?, step_of(step)?);
            return Ok(requests.iter().map(shown).collect());
        }
        _ => return Err(HELP.to_owned()),
    }
    Ok(json!("done"))
}

fn partner_of(word: &str) -> Result<Partner, String> {
    Partner::by_prefix(word).ok_or_else(|| format!("no partner is named {word}"))
}

fn outcome_of(word: &str) -> Result<Outcome, String> {
    Ok(match word {
        "succeed" => Outcome::Succeed,
        "fail" => Outcome::Fail,
        "moderate" => Outcome::Moderate,
        "refuse-policy" => Outcome::RefusePolicy,
        "refuse-input" => Outcome::RefuseInput,
        "refuse-funds" => Outcome::RefuseFunds,
        _ => return Err(format!("no outcome is named {word}")),
    })
}

fn step_of(word: &str) -> Result<Step, String> {
    Ok(match word {
        "submit" => Step::Submit,
        "poll" => Step::Poll,
        "result" => Step::Result,
        "cancel" => Step::Cancel,
        _ => return Err(format!("no step is named {word}")),
    })
}

fn fault_of(words: &[&str]) -> Result<Fault, String> {
    Ok(match words {
        ["stall"] => Fault::Stall,
        ["status", status] => Fault::Status(number(status)?),
        ["malformed"] => Fault::Malformed,
        ["redirect", to] => Fault::Redirect((*to).to_owned()),
        ["huge", bytes] => Fault::Huge(number(bytes)?),
        ["huge-chunked", bytes] => Fault::HugeChunked(number(bytes)?),
        ["cut"] => Fault::CutAfterRequest,
        ["cut-answer"] => Fault::CutMidAnswer,
        ["cut-unread"] => Fault::CutUnread,
        _ => return Err(format!("no fault is {}", words.join(" "))),
    })
}

fn number<T: std::str::FromStr>(word: &str) -> Result<T, String> {
    word.parse()
        .map_err(|_| format!("{word} is no number here"))
}

fn shown(request: &Recorded) -> Value {
    json!({
        "partner": request.partner.map(Partner::prefix),
        "step": format!("{:?}", request.step).to_lowercase(),
        "method": request.method,
        "target": request.target,
        "headers": request.headers,
        "body": BASE64_STANDARD.encode(&request.body),
        "raw": BASE64_STANDARD.encode(&request.raw),
    })
}
