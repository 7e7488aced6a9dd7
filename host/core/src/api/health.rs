//! Is the process alive? Nothing more (OPS-080, OPS-081).

use serde::Serialize;

use super::call::{Call, Reply};
use super::error::ApiError;

#[derive(Serialize)]
struct Health {
    status: &'static str,
}

/// `GET /healthz`
pub(crate) async fn alive(_: Call) -> Result<Reply, ApiError> {
    Reply::ok(&Health { status: "ok" })
}
