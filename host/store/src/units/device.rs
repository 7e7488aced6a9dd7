//! The device of the installation's shared Runtime (architecture 10): made once, its credential the same for ever.

use std::convert::Infallible;

use domain::{DeviceId, Digest, binding::Device};

use crate::{devices, error::UnitError, tx::Tx, unit::Unit};

/// Makes the shared device if there is none.
#[derive(Debug, Clone, Copy)]
pub struct PutSharedDevice {
    /// The device.
    pub device: DeviceId,
    /// Digest of its credential.
    pub credential: Digest,
}

impl Unit for PutSharedDevice {
    const NAME: &'static str = "PutSharedDevice";
    const LEASED: bool = true;
    type Answer = ();
    type Refusal = Infallible;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), UnitError<Infallible>> {
        if devices::get(tx.conn, self.device).await?.is_none() {
            let device = Device {
                id: self.device,
                environment_id: None,
                credential: self.credential,
                revoked_at: None,
            };
            devices::put(tx.conn, &device).await?;
        }
        Ok(())
    }
}
