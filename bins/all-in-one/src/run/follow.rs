//! Waits for the job and shows how far it is. Ctrl-C cancels it; a second one does not wait for that.

use std::sync::Arc;
use std::time::Duration;

use accounts::AccountId;
use server_kit::program::Failure;
use server_kit::signals::Signals;
use workflow_core::{Job, JobId};
use workflow_server::Stack;

use super::show::Display;

/// How often the row is looked at besides what is told: what is told is a hint.
const LOOK: Duration = Duration::from_secs(1);

/// The exit code of a program that was interrupted.
const INTERRUPTED: u8 = 130;

/// Follows the job until it is over.
///
/// # Errors
/// If it cannot be looked at, or was interrupted: the job is canceled by then.
pub(super) async fn to_the_end(
    stack: &Stack,
    account: &AccountId,
    id: JobId,
    signals: &mut Signals,
) -> Result<Arc<Job>, Failure> {
    let fault = |error: &workflow_core::JobsError| Failure::fault(error);
    let followed = stack.jobs.follow(account, id, stack.timer.now()).await;
    let (mut view, mut follower) = followed.map_err(|error| fault(&error))?;
    let mut display = Display::new();
    let mut canceling = false;
    while !view.job.status.is_terminal() {
        display.show(&view.progress);
        tokio::select! {
            () = follower.changed() => {
                follower.latest();
            }
            () = stack.timer.sleep(LOOK) => {}
            () = signals.next() => {
                if canceling {
                    return Err(interrupted("stopped without waiting for the job to be canceled"));
                }
                canceling = true;
                display.say("canceling; press Ctrl-C again to stop at once");
                let canceled = stack.jobs.cancel(account, id, stack.timer.now()).await;
                canceled.map_err(|error| fault(&error))?;
            }
        }
        let looked = stack.jobs.get(account, id, stack.timer.now()).await;
        view = looked.map_err(|error| fault(&error))?;
    }
    display.finish(&view.progress);
    if canceling && view.job.status == workflow_core::JobStatus::Canceled {
        return Err(interrupted("the job was canceled; nothing was written"));
    }
    Ok(view.job)
}

fn interrupted(message: &str) -> Failure {
    Failure {
        exit_code: INTERRUPTED,
        message: message.to_owned(),
    }
}
