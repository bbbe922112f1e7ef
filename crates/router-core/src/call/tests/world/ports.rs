//! The ports of a world: each call of one may be the last thing that a router does.

use super::*;

#[async_trait]
impl Provider for Partner {
    async fn submit(&self, submission: Submission) -> Result<Submitted, Failure> {
        step(&self.state).await;
        let (partner, _) = PARTNERS[self.place];
        let number = {
            let mut state = locked(&self.state);
            let deed = state.deeds[self.place].pop_front();
            let deed = deed.unwrap_or(Deed::Answers);
            state.sent.push(Sent {
                generation: submission.generation,
                partner,
                body: serde_json::from_slice(&submission.body).expect("JSON"),
                told: None,
                looks: 0,
                deed,
            });
            state.sent.len() - 1
        };
        // It is sent, whether the router hears of what comes of it or not.
        step(&self.state).await;
        let mut state = locked(&self.state);
        let sent = &mut state.sent[number];
        if let Deed::Fails(_) = sent.deed {
            submission.contact.answered(503);
        }
        match sent.deed.clone() {
            Deed::Answers => {
                sent.told = Some(Ok(()));
                Ok(Submitted::Done(self.done(number)))
            }
            Deed::Fails(failure) => {
                sent.told = Some(Err(failure.clone()));
                Err(failure)
            }
            Deed::Accepts(..) => Ok(Submitted::Accepted {
                handle: Handle(number.to_string().into()),
                task_id: Some(format!("task-{number}")),
                poll_after: Duration::from_secs(1),
            }),
        }
    }

    async fn collect(&self, handle: &Handle, _: &Contact) -> Result<Collected, Failure> {
        step(&self.state).await;
        let number = std::str::from_utf8(&handle.0).expect("a handle of ours");
        let number: usize = number.parse().expect("a handle of ours");
        let mut state = locked(&self.state);
        let sent = &mut state.sent[number];
        if sent.partner != PARTNERS[self.place].0 {
            state.wrong_handles += 1;
            return Err(unknown());
        }
        sent.looks += 1;
        let Deed::Accepts(looks, end) = sent.deed.clone() else {
            panic!("it was accepted");
        };
        if sent.looks <= looks {
            return Ok(Collected::Pending {
                poll_after: Duration::from_secs(1),
            });
        }
        sent.told = Some((*end).clone());
        (*end).map(|()| Collected::Done(self.done(number)))
    }

    async fn cancel(&self, _: &Handle) {}

    fn refuses(&self, body: &[u8]) -> Vec<Violation> {
        let text = std::str::from_utf8(body).expect("text");
        // Only the second one has words that it cannot send.
        let refused = (self.place == 1 && text.contains("taboo")).then(|| Violation {
            location: vec![ViolationStep::Field("text".to_owned())],
            message: "it cannot be sent".to_owned(),
            kind: "value_error",
            context: None,
        });
        refused.into_iter().collect()
    }

    fn price(&self, _: &Value) -> Price {
        let (_, cents) = PARTNERS[self.place];
        Price::Exact { cents }
    }
}

impl Partner {
    fn done(&self, number: usize) -> Done {
        let (name, _) = PARTNERS[self.place];
        let member = match self.place {
            0 => "picture",
            _ => "image",
        };
        Done {
            answer: Answer {
                content_type: "application/json".to_owned(),
                body: json!({member: format!("{name}-{number}")})
                    .to_string()
                    .into(),
            },
            charge: Charge::AsHeld,
            task_id: None,
        }
    }
}

impl Translation for Renaming {
    fn body(&self, body: &Value) -> Translated {
        let unsaid = |field: &str, why: &str| Unsaid {
            location: vec![ViolationStep::Field(field.to_owned())],
            why: why.to_owned(),
        };
        let has = |field: &str| body.get(field).is_some_and(|value| !value.is_null());
        Translated {
            body: match body.get("prompt") {
                Some(prompt) => json!({"text": prompt}),
                None => json!({}),
            },
            dropped: ["seed", "style"]
                .into_iter()
                .filter(|field| has(field))
                .map(|field| unsaid(field, "has no such field"))
                .collect(),
            refused: ["picture"]
                .into_iter()
                .filter(|field| has(field))
                .map(|field| unsaid(field, "makes pictures of words alone"))
                .collect(),
        }
    }

    fn answer(&self, answer: Answer) -> Answer {
        let said: Value = serde_json::from_slice(&answer.body).expect("JSON");
        Answer {
            body: json!({"picture": said["image"]}).to_string().into(),
            ..answer
        }
    }
}

#[async_trait]
impl SequentialCalls for Mortal {
    async fn dispatch(
        &self,
        generation: Generation,
        key: Option<KeyDigest>,
        lease: Lease,
    ) -> Result<Dispatched, CallsError> {
        step(&self.0.state).await;
        let dispatched = self.0.calls.dispatch(generation, key, lease).await;
        step(&self.0.state).await;
        dispatched
    }
}

#[async_trait]
impl Calls for Mortal {
    async fn claim(&self, claim: KeyClaim, now: Timestamp) -> Result<Claimed, CallsError> {
        step(&self.0.state).await;
        let claimed = self.0.calls.claim(claim, now).await;
        step(&self.0.state).await;
        claimed
    }

    async fn accepted(
        &self,
        of: (GenerationId, OwnerId),
        handle: &Handle,
        poll_after: Duration,
        task_id: Option<&str>,
        now: Timestamp,
    ) -> Result<(), CallsError> {
        step(&self.0.state).await;
        let calls = &self.0.calls;
        let accepted = calls.accepted(of, handle, poll_after, task_id, now).await;
        step(&self.0.state).await;
        accepted
    }

    async fn serve(
        &self,
        of: (GenerationId, OwnerId),
        serving: &Serving,
    ) -> Result<Settled, CallsError> {
        step(&self.0.state).await;
        if locked(&self.0.state).is_stolen {
            let lease = Lease {
                owner: OwnerId(Uuid::from_u128(999)),
                lasts: RouterConfig::LEASE,
            };
            let later = self.0.now() + SignedDuration::from_hours(1);
            let taken = self.0.calls.take_over(lease, 10, later).await?;
            assert_eq!(taken.len(), 1);
        }
        let served = self.0.calls.serve(of, serving).await;
        step(&self.0.state).await;
        served
    }

    async fn serving(&self, generation: GenerationId) -> Result<Option<Serving>, CallsError> {
        self.0.calls.serving(generation).await
    }

    async fn settle(
        &self,
        of: (GenerationId, OwnerId),
        account: &AccountId,
        ending: Ending,
        task_id: Option<&str>,
        now: Timestamp,
    ) -> Result<Settled, CallsError> {
        step(&self.0.state).await;
        let calls = &self.0.calls;
        let settled = calls.settle(of, account, ending, task_id, now).await;
        step(&self.0.state).await;
        settled
    }

    fn record(&self, call: CallRecord) {
        // What drops with a dead router writes nothing.
        if !self.0.state().is_dead {
            self.0.calls.record(call);
        }
    }

    async fn renew(
        &self,
        generations: &[GenerationId],
        lease: Lease,
        now: Timestamp,
    ) -> Result<Vec<GenerationId>, CallsError> {
        self.0.calls.renew(generations, lease, now).await
    }

    async fn take_over(
        &self,
        lease: Lease,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<Unfinished>, CallsError> {
        step(&self.0.state).await;
        let taken = self.0.calls.take_over(lease, limit, now).await;
        step(&self.0.state).await;
        taken
    }
}

#[async_trait]
impl Timer for Clock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    async fn sleep(&self, duration: Duration) {
        let until = self.0.state().now + duration;
        std::future::poll_fn(|_| {
            let mut state = self.0.state();
            if state.now >= until {
                return Poll::Ready(());
            }
            state.sleepers.insert(until);
            Poll::Pending
        })
        .await;
    }
}

impl BlockingPool for AtOnce {
    fn run(&self, work: Box<dyn FnOnce() + Send>) {
        work();
    }
}
