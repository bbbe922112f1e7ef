//! What the failures of the database and of files mean for calls.

use router_core::CallsError;

use crate::database::DatabaseError;

pub(crate) fn unavailable(error: DatabaseError) -> CallsError {
    match error {
        DatabaseError::Busy => CallsError::Busy,
        error @ DatabaseError::Full(_) => CallsError::Full(Box::new(error)),
        error @ (DatabaseError::Poisoned(_)
        | DatabaseError::Abandoned
        | DatabaseError::Failed(_)) => CallsError::Unavailable(Box::new(error)),
    }
}

pub(super) fn failed(error: std::io::Error) -> CallsError {
    if error.kind() == std::io::ErrorKind::StorageFull {
        CallsError::Full(Box::new(error))
    } else {
        CallsError::Unavailable(Box::new(error))
    }
}
