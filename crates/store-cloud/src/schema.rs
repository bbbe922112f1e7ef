//! The schema of the database: every aggregate, whichever families this build serves.
//!
//! A build without a family has its tables all the same, so that each program opens what another one left.

use crate::migrations::Schema;

/// The files of each aggregate, in the order of their numbers, which start at 1.
pub(crate) const SCHEMA: Schema = &[
    (
        "store",
        &[
            include_str!("../migrations/store/0001.sql"),
            include_str!("../migrations/store/0002.sql"),
        ],
    ),
    (
        "accounts",
        &[
            include_str!("../migrations/accounts/0001.sql"),
            include_str!("../migrations/accounts/0002.sql"),
            include_str!("../migrations/accounts/0003.sql"),
        ],
    ),
    ("assets", &[include_str!("../migrations/assets/0001.sql")]),
    (
        "blobs",
        &[
            include_str!("../migrations/blobs/0001.sql"),
            include_str!("../migrations/blobs/0002.sql"),
        ],
    ),
    (
        "jobs",
        &[
            include_str!("../migrations/jobs/0001.sql"),
            include_str!("../migrations/jobs/0002.sql"),
            include_str!("../migrations/jobs/0003.sql"),
            include_str!("../migrations/jobs/0004.sql"),
            include_str!("../migrations/jobs/0005.sql"),
        ],
    ),
    (
        "deployments",
        &[include_str!("../migrations/deployments/0001.sql")],
    ),
    (
        "calls",
        &[
            include_str!("../migrations/calls/0001.sql"),
            include_str!("../migrations/calls/0002.sql"),
            include_str!("../migrations/calls/0003.sql"),
            include_str!("../migrations/calls/0004.sql"),
            include_str!("../migrations/calls/0005.sql"),
            include_str!("../migrations/calls/0006.sql"),
        ],
    ),
    (
        "published",
        &[include_str!("../migrations/published/0001.sql")],
    ),
    (
        "user_files",
        &[include_str!("../migrations/user_files/0001.sql")],
    ),
    (
        "webhooks",
        &[include_str!("../migrations/webhooks/0001.sql")],
    ),
];
