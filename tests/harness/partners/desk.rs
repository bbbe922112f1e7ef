//! The tasks of one partner.

use std::collections::{BTreeMap, VecDeque};

/// How a task, or a synchronous call, comes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With a result.
    Succeed,
    /// With a failure of the partner's own.
    Fail,
    /// With a refusal on grounds of policy, found after the submission was taken.
    Moderate,
    /// Refused at submission, on grounds of policy.
    RefusePolicy,
    /// Refused at submission: the content is not what the model takes.
    RefuseInput,
    /// Refused at submission: the account at the partner has nothing left.
    RefuseFunds,
}

/// What becomes of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How it comes out.
    pub outcome: Outcome,
    /// How many looks find it still running; `None` is until [`super::Partners::end`].
    pub looks: Option<u32>,
}

/// A task as one look at it finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// Not begun.
    Queued,
    Running,
    Succeeded,
    Failed,
    Moderated,
    Cancelled,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Desk {
    pub(super) plans: VecDeque<Plan>,
    pub(super) content: Option<(String, Vec<u8>)>,
    pub(super) echoes: bool,
    tasks: BTreeMap<u64, Task>,
}

#[derive(Clone, Debug)]
struct Task {
    id: String,
    plan: Plan,
    looked: u32,
    cancelled: bool,
    submission: Vec<u8>,
}

impl Default for Plan {
    /// Succeeds, and is running at the first look.
    fn default() -> Self {
        Self::of(Outcome::Succeed)
    }
}

impl Plan {
    /// Comes out so, and is running at the first look.
    #[must_use]
    pub fn of(outcome: Outcome) -> Self {
        Self {
            outcome,
            looks: Some(1),
        }
    }

    /// Runs until the test ends it.
    #[must_use]
    pub fn held() -> Self {
        Self {
            outcome: Outcome::Succeed,
            looks: None,
        }
    }
}

impl Desk {
    /// The plan of the next submission. One that is refused makes no task.
    pub(super) fn next_plan(&mut self) -> Plan {
        self.plans.pop_front().unwrap_or_default()
    }

    /// Takes a task on and names it.
    pub(super) fn take(&mut self, plan: Plan, submission: &[u8]) -> String {
        let number = self.tasks.len() as u64 + 1;
        let id = format!("task-{number}");
        let task = Task {
            id: id.clone(),
            plan,
            looked: 0,
            cancelled: false,
            submission: submission.to_vec(),
        };
        self.tasks.insert(number, task);
        id
    }

    /// Forgets every task.
    pub(super) fn forget(&mut self) {
        self.tasks.clear();
    }

    /// Looks at a task; `None` when there is none of this name.
    pub(super) fn look(&mut self, id: &str) -> Option<View> {
        let task = self.task(id)?;
        let looked = task.looked;
        task.looked += 1;
        if task.cancelled {
            return Some(View::Cancelled);
        }
        if task.plan.looks.is_none_or(|looks| looked < looks) {
            return Some(if looked == 0 {
                View::Queued
            } else {
                View::Running
            });
        }
        Some(match task.plan.outcome {
            Outcome::Succeed => View::Succeeded,
            Outcome::Moderate | Outcome::RefusePolicy => View::Moderated,
            Outcome::Fail | Outcome::RefuseInput | Outcome::RefuseFunds => View::Failed,
        })
    }

    /// Cancels a task; false when there is none of this name.
    pub(super) fn cancel(&mut self, id: &str) -> bool {
        match self.task(id) {
            Some(task) => {
                task.cancelled = true;
                true
            }
            None => false,
        }
    }

    pub(super) fn end(&mut self, id: &str, outcome: Outcome) {
        let task = self.task(id).expect("the task was submitted");
        task.plan = Plan {
            outcome,
            looks: Some(0),
        };
    }

    pub(super) fn ids(&self) -> Vec<String> {
        self.tasks.values().map(|task| task.id.clone()).collect()
    }

    /// What a success answers: the content that a test chose, the submission, or `usual`.
    pub(super) fn success(
        &self,
        id: &str,
        media_type: &str,
        usual: impl Into<Vec<u8>>,
    ) -> (String, Vec<u8>) {
        let task = self.tasks.values().find(|task| task.id == id);
        match (&self.content, task) {
            (Some(content), _) => content.clone(),
            (None, Some(task)) if self.echoes => (media_type.to_owned(), task.submission.clone()),
            (None, _) => (media_type.to_owned(), usual.into()),
        }
    }

    fn task(&mut self, id: &str) -> Option<&mut Task> {
        self.tasks.values_mut().find(|task| task.id == id)
    }
}
