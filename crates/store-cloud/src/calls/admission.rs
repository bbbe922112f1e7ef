//! Admissions of calls: holds on credits, permits and rows of generations in one transaction.
//!
//! It locks the credits of accounts, then their quotas, then the holds and permits of the calls, then their keys.

use std::sync::Arc;

use accounts::Reservation;
use async_trait::async_trait;
use futures_util::future::{try_join3, try_join4};
use router_core::{
    Admission, Admissions, CallAdmission, CallEnd, CallsError, RouterError, Settled,
};

use super::running::{self, Dispatch};
use super::settling::Settling;
use super::{PgCalls, unavailable};
use crate::accounts::holds::{self, HoldBatch, Reserve};
use crate::quota::permits::{self, Asked, PermitBatch};
use crate::statements::prepare;
use crate::step::{Commits, Step};
use crate::{Database, DatabaseError};

/// A call that is to be admitted with others.
pub(super) struct BatchedAdmission {
    wish: Reserve,
    asked: Asked,
    dispatch: Dispatch,
}

pub(super) type Answer = Result<(), RouterError>;

#[async_trait]
impl Admissions for PgCalls {
    async fn admit(&self, call: CallAdmission<'_>) -> Result<(), RouterError> {
        let CallAdmission {
            payer,
            limits,
            generation,
            key,
            lease,
        } = call;
        let now = generation.dispatched_at;
        let admission = BatchedAdmission {
            wish: Reserve {
                account: payer.account.clone(),
                scopes: payer.scopes.to_vec(),
                cause: generation.id.cause(),
                hold_cents: generation.hold(),
                budgets: limits.budgets,
                lasts: lease.lasts,
                now,
            },
            asked: Asked::of(generation.permit(), limits.clone(), lease, now),
            dispatch: Dispatch {
                generation: generation.clone(),
                key,
                lease,
            },
        };
        let admitted = self.admissions.write(admission).await;
        admitted.map_err(|error| {
            // The task of the batch is gone, perhaps after its commit; any other error is one before anything was changed.
            let may_be_written = matches!(error, DatabaseError::Closing);
            RouterError::Unavailable(match may_be_written {
                true => Box::new(unavailable(error)),
                false => Box::new(error),
            })
        })?
    }

    async fn end(&self, call: CallEnd<'_>) -> Result<Settled, CallsError> {
        let CallEnd {
            permit,
            owner,
            ending,
            task_id,
            now,
        } = call;
        let settling = Settling {
            generation: permit.generation,
            owner,
            account: permit.account.clone(),
            ending,
            task_id: task_id.map(str::to_owned),
            gives_room_back: true,
            now,
        };
        self.ends.write(settling).await.map_err(unavailable)
    }
}

/// Judges calls one after the other and writes down what is admitted. After an error, nothing was written.
pub(super) async fn admit(
    database: &Database,
    all: Vec<BatchedAdmission>,
) -> Result<Vec<Answer>, DatabaseError> {
    let (mut wishes, mut asked, mut dispatches) = (Vec::new(), Vec::new(), Vec::new());
    for one in all {
        wishes.push(one.wish);
        asked.push(one.asked);
        dispatches.push(one.dispatch);
    }
    let step = Step::on(database).await?;
    let [lock, held, hold] = prepare(&*step, [holds::LOCK, holds::HELD, holds::HOLD]).await?;
    let of_permits = [permits::LOCK, permits::LOAD, permits::GIVE];
    let [lock_room, load, give] = prepare(&*step, of_permits).await?;
    let [dispatch] = prepare(&*step, [running::DISPATCH]).await?;
    let mut permits = PermitBatch::of(&asked);
    let mut credits = loop {
        let (_, credits, is_known) = try_join3(
            step.begin(Commits::Durably),
            HoldBatch::look(&step, &lock, &held, &wishes),
            permits.look(&step, &lock_room, &load),
        )
        .await?;
        if is_known {
            break credits;
        }
        step.undo().await?;
        permits.add_accounts(&step).await?;
    };
    let mut answers = Vec::with_capacity(wishes.len());
    let mut admitted = Vec::with_capacity(wishes.len());
    for (place, wish) in wishes.iter().enumerate() {
        let admission = permits.admission(&asked[place]);
        let has_room = admission == Admission::Admitted;
        // Credits are judged first, and held for calls that have room alone.
        let reservation = credits.judge(wish, has_room);
        if has_room && reservation == Reservation::Held {
            permits.give(&asked[place]);
            admitted.push((place, &dispatches[place]));
        }
        let answer = RouterError::of_reservation(reservation);
        answers.push(answer.and_then(|()| admission.into_result(asked[place].hold_cents())));
    }
    let (places, admitted): (Vec<usize>, Vec<&Dispatch>) = admitted.into_iter().unzip();
    if credits.is_durable() {
        credits.write_beside(&step).await?;
    } else if admitted.is_empty() {
        step.undo().await?;
        return Ok(answers);
    }
    running::write_beside(&step, &admitted).await?;
    let written = try_join4(
        credits.write(&step, &hold),
        permits.write(&step, &give),
        running::write(&step, &dispatch, &admitted),
        step.commit(),
    );
    let begun = match written.await {
        Ok((_, _, begun, ())) => running::answers(&step, &admitted, begun).await,
        Err(error) => Err(error),
    };
    match begun {
        Ok(begun) => {
            for (place, dispatched) in places.into_iter().zip(begun) {
                answers[place] = dispatched.into_result();
            }
        }
        // Whether they were written is not known.
        Err(error) => {
            let error = Arc::new(error);
            for place in places {
                let error = unavailable(DatabaseError::Batch(Arc::clone(&error)));
                answers[place] = Err(RouterError::Unavailable(Box::new(error)));
            }
        }
    }
    Ok(answers)
}
