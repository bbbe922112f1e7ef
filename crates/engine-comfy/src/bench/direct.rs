//! A client that speaks to a worker itself and keeps nothing: what a job costs at least, however it gets to the worker.

use futures_util::{SinkExt, StreamExt};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::protocol::Message;
use uuid::Uuid;

use crate::client::{SubmitAnswer, WorkerClient, WorkerError};
use crate::frames::{Said, read_text};
use crate::history::{Ending, files};
use crate::worker::{FEATURES, Socket, open_socket};

/// Why a worker did not run a prompt.
#[derive(Debug, thiserror::Error)]
pub enum DirectError {
    /// The address is none of a worker.
    #[error("{0}")]
    Address(String),
    /// A request failed.
    #[error("the worker did not do what it was asked to: {0}")]
    Request(String),
    /// The prompt did not end well.
    #[error("the prompt did not succeed: {0}")]
    Prompt(&'static str),
}

impl From<WorkerError> for DirectError {
    fn from(error: WorkerError) -> Self {
        Self::Request(error.to_string())
    }
}

/// The client, with its socket open.
pub struct Direct {
    client: WorkerClient,
    client_id: String,
    socket: Socket,
}

impl Direct {
    /// Opens a socket to the worker at `url`. Needs a tokio runtime.
    ///
    /// # Errors
    /// When there is no such worker.
    pub async fn open(url: &str) -> Result<Self, DirectError> {
        let url = url.parse();
        let url = url.map_err(|error| DirectError::Address(format!("{error}")))?;
        let client = WorkerClient::new(url, http::HeaderMap::new(), None);
        let client = client.map_err(|error| DirectError::Address(error.to_string()))?;
        let client_id = Uuid::new_v4().simple().to_string();
        let mut socket = open_socket(&client, &client_id).await?;
        let said = socket.send(Message::text(FEATURES)).await;
        said.map_err(|error| DirectError::Request(error.to_string()))?;
        Ok(Self {
            client,
            client_id,
            socket,
        })
    }

    /// Submits a graph, hears the socket until it is over, reads its history and every file that it made.
    ///
    /// # Errors
    /// When the worker does not run it to success.
    pub async fn run(&mut self, graph: &Value) -> Result<(), DirectError> {
        let body = json!({"prompt": graph, "client_id": self.client_id});
        let SubmitAnswer::Accepted(_, prompt) = self.client.submit(&body).await? else {
            return Err(DirectError::Prompt("the worker refused it"));
        };
        loop {
            let Some(Ok(message)) = self.socket.next().await else {
                return Err(DirectError::Prompt("the socket ended"));
            };
            let Message::Text(text) = message else {
                continue;
            };
            let heard = read_text(&text).filter(|heard| heard.said == Said::Ended);
            if heard.is_some_and(|heard| heard.prompt.as_deref() == Some(&prompt)) {
                break;
            }
        }
        let entry = self.client.history(&prompt).await?;
        let entry = entry.ok_or(DirectError::Prompt("the history does not have it"))?;
        if entry.ending != Ending::Succeeded {
            return Err(DirectError::Prompt("a node failed"));
        }
        for file in entry.outputs.iter().flat_map(|(_, _, ui)| files(ui)) {
            let answer = self.client.view(&file).await?;
            let bytes = answer.into_body().collect().await;
            bytes.map_err(|error| DirectError::Request(error.to_string()))?;
        }
        Ok(())
    }
}
