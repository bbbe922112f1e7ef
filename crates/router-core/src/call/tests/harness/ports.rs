//! The provider, the clock and the threads as ports.

use super::*;

#[async_trait]
impl Provider for Puppet {
    async fn submit(&self, submission: Submission) -> Result<Submitted, Failure> {
        self.submits.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        let asked = Asked::Submit(submission, answer);
        self.asked
            .send(asked)
            .await
            .map_err(|_| ())
            .expect("the test listens");
        answered.await.expect("the test answers")
    }

    async fn collect(&self, handle: &Handle, _: &Contact) -> Result<Collected, Failure> {
        let (answer, answered) = oneshot::channel();
        let asked = Asked::Collect(handle.clone(), answer);
        self.asked
            .send(asked)
            .await
            .map_err(|_| ())
            .expect("the test listens");
        answered.await.expect("the test answers")
    }

    async fn cancel(&self, _: &Handle) {
        self.cancels.fetch_add(1, Ordering::Relaxed);
    }

    fn refuses(&self, body: &[u8]) -> Vec<Violation> {
        let text = std::str::from_utf8(body).expect("text");
        let refused = text.contains("unsendable").then(|| Violation {
            location: vec![ViolationStep::Field("prompt".to_owned())],
            message: "it cannot be sent".to_owned(),
            kind: "value_error",
            context: None,
        });
        refused.into_iter().collect()
    }

    fn price(&self, body: &Value) -> Price {
        let cents = body.get("cents").and_then(Value::as_u64);
        cents.map_or(Price::Unknown { hold_cents: 10 }, |cents| Price::Exact {
            cents,
        })
    }

    fn streams(&self, body: &Value) -> bool {
        body.get("stream") == Some(&Value::Bool(true))
    }
}

#[async_trait]
impl Timer for Clock {
    fn now(&self) -> Timestamp {
        start() + jiff::SignedDuration::try_from(self.passed()).expect("in range")
    }

    async fn sleep(&self, duration: Duration) {
        let until = self.passed() + duration;
        self.slept.notify_one();
        loop {
            let moved = self.moved.notified();
            if self.passed() >= until {
                return;
            }
            moved.await;
        }
    }
}

impl BlockingPool for Aside {
    fn run(&self, work: Box<dyn FnOnce() + Send>) {
        self.work.lock().expect("not poisoned").push_back(work);
        self.came.notify_one();
    }
}
