//! The same again, when the database did not answer: a server that restarts, or a connection that is cut, decides no Turn.
//!
//! Only what may be asked twice comes here: reads, and units that a repeat finds done (`seq` of a Run, state of a message, of a
//! call, of a Turn). A claim never does: its answer is a right, and an unknown answer is none (ENV-217).

use std::time::Duration;

use store::unit::Unit;
use store::{StoreError, WriteError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Shared;

/// How long and how often the database is asked.
struct Patience {
    whole: Duration,
    /// First and longest wait between two attempts.
    pause: (Duration, Duration),
}

/// Less than the lease lives without the database (SC-12.4).
const PATIENCE: Patience = Patience {
    whole: Duration::from_secs(15),
    pause: (Duration::from_millis(50), Duration::from_secs(1)),
};

/// Commits a unit whose repeat is inert.
///
/// # Errors
/// What the last attempt said, once the patience is at an end or the answer is final.
pub(super) async fn write<U: Unit + Clone>(
    shared: &Shared,
    unit: U,
) -> Result<U::Answer, WriteError<U::Refusal>> {
    repeat(&shared.stop, &PATIENCE, || shared.store.write(unit.clone())).await
}

/// Reads what the next step cannot do without.
///
/// # Errors
/// As [`write`].
pub(super) async fn read<T, F: Future<Output = Result<T, StoreError>>>(
    shared: &Shared,
    attempt: impl FnMut() -> F,
) -> Result<T, StoreError> {
    repeat(&shared.stop, &PATIENCE, attempt).await
}

/// Whether a database that says this may say something else in a moment.
pub(super) fn passes(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Database(_)
            | StoreError::CommitUnknown(_)
            | StoreError::Busy
            | StoreError::Timeout
    )
}

/// An answer that may be a failure of the store.
trait Answered {
    fn failure(&self) -> Option<&StoreError>;
}

impl Answered for StoreError {
    fn failure(&self) -> Option<&StoreError> {
        Some(self)
    }
}

impl<R> Answered for WriteError<R> {
    fn failure(&self) -> Option<&StoreError> {
        match self {
            Self::Store(error) => Some(error),
            Self::Refused(_) => None,
        }
    }
}

async fn repeat<T, E: Answered, F: Future<Output = Result<T, E>>>(
    stop: &CancellationToken,
    patience: &Patience,
    mut attempt: impl FnMut() -> F,
) -> Result<T, E> {
    let until = Instant::now() + patience.whole;
    let mut pause = patience.pause.0;
    loop {
        let failed = match attempt().await {
            Ok(answer) => return Ok(answer),
            Err(failed) => failed,
        };
        match failed.failure() {
            Some(error) if passes(error) && Instant::now() + pause < until => {
                tracing::warn!(%error, "the database did not answer; it is asked again");
            }
            _ => return Err(failed),
        }
        tokio::select! {
            () = stop.cancelled() => return Err(failed),
            () = tokio::time::sleep(pause) => {}
        }
        pause = (pause * 2).min(patience.pause.1);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    type Written = Result<u32, WriteError<&'static str>>;

    /// Asks until the answer is final; how often that was.
    async fn asked(stop: &CancellationToken, answer: impl Fn(u32) -> Written) -> (u32, Written) {
        let count = Cell::new(0);
        let patience = Patience {
            whole: Duration::from_millis(200),
            pause: (Duration::from_millis(1), Duration::from_millis(2)),
        };
        let answer = repeat(stop, &patience, || {
            count.set(count.get() + 1);
            std::future::ready(answer(count.get()))
        })
        .await;
        (count.get(), answer)
    }

    #[tokio::test]
    async fn what_passes_is_asked_again_until_there_is_an_answer() {
        let stop = CancellationToken::new();
        for error in [StoreError::Busy, StoreError::Timeout] {
            let (count, answer) = asked(&stop, |count| match count {
                3 => Ok(3),
                _ => Err(WriteError::Store(error.clone())),
            })
            .await;
            assert!(matches!(answer, Ok(3)), "{error:?}");
            assert_eq!(count, 3, "{error:?}");
        }
    }

    #[tokio::test]
    async fn what_is_final_is_asked_once() {
        let stop = CancellationToken::new();
        for error in [
            StoreError::LeaseLost,
            StoreError::Closed,
            StoreError::Impossible("a bug".into()),
            StoreError::Corrupt {
                table: "turns",
                column: "body",
            },
        ] {
            let (count, answer) = asked(&stop, |_| Err(WriteError::Store(error.clone()))).await;
            assert!(matches!(answer, Err(WriteError::Store(_))), "{error:?}");
            assert_eq!(count, 1, "{error:?}");
        }
        let (count, answer) = asked(&stop, |_| Err(WriteError::Refused("no"))).await;
        assert!(matches!(answer, Err(WriteError::Refused("no"))));
        assert_eq!(count, 1);
    }

    #[tokio::test]
    async fn patience_ends_before_the_lease_and_with_the_ownership() {
        let never = |_| Err(WriteError::Store(StoreError::Busy));
        let (count, answer) = asked(&CancellationToken::new(), never).await;
        assert!(matches!(answer, Err(WriteError::Store(StoreError::Busy))));
        assert!(count > 1);
        assert!(PATIENCE.whole + domain::time::LEASE_MARGIN < domain::time::LEASE_TTL);
        let stopped = CancellationToken::new();
        stopped.cancel();
        assert_eq!(asked(&stopped, never).await.0, 1);
    }
}
