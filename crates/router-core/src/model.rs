//! A model as the catalog holds it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::schema::{SchemaDocument, SchemaError};
use crate::{Alternate, ModelForm, ModelId, Provider, ResultPointers};

/// Whether a call that the model rejects for content-policy reasons is still charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChargesOnPolicyRejection {
    /// It is.
    Yes,
    /// It is not.
    No,
    /// The partner does not say.
    Unknown,
}

/// How accepted work of a model is asked after, as its definition says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Polling {
    /// The polling interval: what a caller is told as `Retry-After`. Single pauses differ from it by jitter and backoff.
    pub interval: Duration,
    /// How long after it was accepted work is given up; `None` leaves that to the router.
    pub give_up_after: Option<Duration>,
}

/// What a model is made of.
#[derive(Clone)]
pub struct ModelDefinition {
    /// Its id.
    pub id: ModelId,
    /// What a policy rejection costs.
    pub charges_on_policy_rejection: ChargesOnPolicyRejection,
    /// The JSON Schema of its body. It may refer to its own `$defs`, `definitions` or `components/schemas` and to nothing
    /// else. `None` leaves the body an open object.
    pub input_schema: Option<Value>,
    /// What people fill in and get.
    pub form: ModelForm,
    /// How accepted work is asked after; `None` of a model that answers at once or says nothing of it.
    pub polling: Option<Polling>,
    /// The other models that can serve its calls, in the order in which they are tried.
    pub alternates: Vec<Alternate>,
    /// What runs it.
    pub provider: Arc<dyn Provider>,
}

/// A model that can be run: its definition with its schema compiled.
pub struct Model {
    id: ModelId,
    charges_on_policy_rejection: ChargesOnPolicyRejection,
    document: SchemaDocument,
    input_schema: Option<Value>,
    form: ModelForm,
    files: ResultPointers,
    polling: Option<Polling>,
    alternates: Vec<Alternate>,
    provider: Arc<dyn Provider>,
}

impl Model {
    /// Compiles a definition.
    ///
    /// # Errors
    /// If the input schema is none, refers to what is not in it, or has a pattern that cannot be matched in linear time.
    pub fn new(definition: ModelDefinition) -> Result<Self, SchemaError> {
        let document = SchemaDocument::new(
            &definition.id,
            definition.input_schema.clone(),
            definition.form.streams,
        )?;
        Ok(Self {
            id: definition.id,
            charges_on_policy_rejection: definition.charges_on_policy_rejection,
            document,
            input_schema: definition.input_schema,
            files: ResultPointers::new(&definition.form.files),
            form: definition.form,
            polling: definition.polling,
            alternates: definition.alternates,
            provider: definition.provider,
        })
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &ModelId {
        &self.id
    }

    /// What a policy rejection costs.
    #[must_use]
    pub fn charges_on_policy_rejection(&self) -> ChargesOnPolicyRejection {
        self.charges_on_policy_rejection
    }

    /// The document that describes its body, and validates it.
    #[must_use]
    pub fn document(&self) -> &SchemaDocument {
        &self.document
    }

    /// The JSON Schema of its body, as it was authored.
    #[must_use]
    pub fn input_schema(&self) -> Option<&Value> {
        self.input_schema.as_ref()
    }

    /// What people fill in and get.
    #[must_use]
    pub fn form(&self) -> &ModelForm {
        &self.form
    }

    /// Where its answers name files.
    #[must_use]
    pub fn files(&self) -> &ResultPointers {
        &self.files
    }

    /// How accepted work is asked after, where its definition says.
    #[must_use]
    pub fn polling(&self) -> Option<Polling> {
        self.polling
    }

    /// The other models that can serve its calls, in the order in which they are tried.
    #[must_use]
    pub fn alternates(&self) -> &[Alternate] {
        &self.alternates
    }

    /// What runs it.
    #[must_use]
    pub fn provider(&self) -> &Arc<dyn Provider> {
        &self.provider
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Model({})", self.id)
    }
}

impl fmt::Debug for ModelDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ModelDefinition({})", self.id)
    }
}
