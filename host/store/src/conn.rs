//! A connection as the rest of the store sees it: one that a silent server cannot keep.
//!
//! A server that is cut off answers nothing, not even an error, and the driver would wait for it for ever. So each statement
//! on a server has a limit of ours, later than the server's own. A connection whose last statement did not come to its end is
//! used by nobody any more: its next answer could be that of the former question.

use std::{fmt, future, time::Duration};

use deadpool::managed::Object;
use futures_util::{
    FutureExt, StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use sqlx::{
    Any, AnyConnection, ConnectOptions, Connection, Either, Execute, Executor, SqlStr,
    any::{AnyConnectOptions, AnyQueryResult, AnyRow, AnyStatement, AnyTypeInfo},
};
use tokio::time::{Instant, timeout, timeout_at};

use crate::{
    dialect::{Dialect, Role},
    error::{StoreError, is_lost},
    pool::Opener,
};

/// A server that says nothing for so long while a connection is made is not there.
const CONNECT: Duration = Duration::from_secs(5);

/// One connection.
pub(crate) struct Conn {
    raw: Raw,
    /// Longest time of a statement; none in a file.
    limit: Option<Duration>,
    state: State,
    /// It is inside a transaction that nobody ended.
    torn: bool,
}

/// What became of the last statement on a server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// It came to its end.
    Ready,
    /// It did not: it is under way, or whoever asked has given up.
    Busy,
    /// The server did not answer, or the connection broke.
    Lost,
}

enum Raw {
    Own(AnyConnection),
    Lent(Object<Opener>),
    Gone,
}

impl fmt::Debug for Conn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conn").finish_non_exhaustive()
    }
}

impl Conn {
    /// Makes a connection that belongs to the caller, ready for its role, with a limit for each statement.
    ///
    /// # Errors
    /// What the driver says; a server that does not answer is an I/O error.
    pub(crate) async fn open(
        options: &AnyConnectOptions,
        dialect: Dialect,
        role: Role,
        limit: Option<Duration>,
    ) -> Result<Self, sqlx::Error> {
        let raw = Raw::Own(connect(options, dialect, role).await?);
        Ok(Self::new(raw, limit))
    }

    /// Borrows a connection of a pool.
    pub(crate) fn lent(object: Object<Opener>, limit: Option<Duration>) -> Self {
        Self::new(Raw::Lent(object), limit)
    }

    fn new(raw: Raw, limit: Option<Duration>) -> Self {
        Self {
            raw,
            limit,
            state: State::Ready,
            torn: false,
        }
    }

    /// The driver's connection, for what has no limit: migrations.
    ///
    /// # Errors
    /// It is closed already.
    pub(crate) fn raw(&mut self) -> Result<&mut AnyConnection, StoreError> {
        self.raw.get().ok_or_else(|| gone().into())
    }

    /// A transaction begins: unless it is [whole](Self::whole) again, nobody gets the connection after this use.
    pub(crate) fn tear(&mut self) {
        self.torn = true;
    }

    /// The transaction is over.
    pub(crate) fn whole(&mut self) {
        self.torn = false;
    }

    /// Says goodbye, where it is the caller's own.
    pub(crate) async fn close(mut self) {
        if let Raw::Own(raw) = std::mem::replace(&mut self.raw, Raw::Gone) {
            let _ = timeout(CONNECT, raw.close()).await;
        }
    }

    /// The driver's connection, unless nobody may use it any more.
    fn parts(&mut self) -> (Option<&mut AnyConnection>, Option<Duration>, &mut State) {
        let raw = match self.state {
            State::Ready => self.raw.get(),
            State::Busy | State::Lost => None,
        };
        (raw, self.limit, &mut self.state)
    }
}

/// Opens a connection and sets what every one of its role sets once.
pub(crate) async fn connect(
    options: &AnyConnectOptions,
    dialect: Dialect,
    role: Role,
) -> Result<AnyConnection, sqlx::Error> {
    let opened = async {
        let mut raw = options.connect().await?;
        for statement in dialect.setup(role) {
            sqlx::query(*statement).execute(&mut raw).await?;
        }
        Ok(raw)
    };
    match dialect {
        Dialect::Sqlite => opened.await,
        Dialect::Postgres => timeout(CONNECT, opened)
            .await
            .unwrap_or_else(|_| Err(silent())),
    }
}

impl Raw {
    fn get(&mut self) -> Option<&mut AnyConnection> {
        match self {
            Self::Own(raw) => Some(raw),
            Self::Lent(object) => Some(&mut object.conn),
            Self::Gone => None,
        }
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        if self.state == State::Ready && !self.torn {
            return;
        }
        // It is closed here and now: a snapshot that lies idle in a pool keeps the log of a file from beginning anew.
        if let Raw::Lent(object) = std::mem::replace(&mut self.raw, Raw::Gone) {
            if self.state == State::Lost {
                object.lost();
            }
            drop(Object::take(object));
        }
    }
}

fn silent() -> sqlx::Error {
    sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())
}

fn gone() -> sqlx::Error {
    sqlx::Error::Io(std::io::ErrorKind::NotConnected.into())
}

/// What an error says of its connection.
fn after(error: &sqlx::Error) -> State {
    if is_lost(error) {
        State::Lost
    } else {
        State::Ready
    }
}

impl<'c> Executor<'c> for &'c mut Conn {
    type Database = Any;

    fn fetch_many<'e, 'q: 'e, E>(
        self,
        query: E,
    ) -> BoxStream<'e, Result<Either<AnyQueryResult, AnyRow>, sqlx::Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Any>,
    {
        let (raw, limit, at) = self.parts();
        let Some(raw) = raw else {
            return stream::once(future::ready(Err(gone()))).boxed();
        };
        let answers = raw.fetch_many(query);
        let Some(limit) = limit else {
            return answers;
        };
        let until = Instant::now() + limit;
        *at = State::Busy;
        stream::unfold(Some((answers, at)), move |open| async move {
            let (mut answers, at) = open?;
            let next = timeout_at(until, answers.next()).await;
            match next.unwrap_or_else(|_| Some(Err(silent()))) {
                Some(Ok(answer)) => Some((Ok(answer), Some((answers, at)))),
                Some(Err(error)) => {
                    *at = after(&error);
                    Some((Err(error), None))
                }
                None => {
                    *at = State::Ready;
                    None
                }
            }
        })
        .boxed()
    }

    fn fetch_optional<'e, 'q: 'e, E>(
        self,
        query: E,
    ) -> BoxFuture<'e, Result<Option<AnyRow>, sqlx::Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Any>,
    {
        let (raw, limit, at) = self.parts();
        let Some(raw) = raw else {
            return future::ready(Err(gone())).boxed();
        };
        let answer = raw.fetch_optional(query);
        within(limit, at, answer)
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [AnyTypeInfo],
    ) -> BoxFuture<'e, Result<AnyStatement, sqlx::Error>>
    where
        'c: 'e,
    {
        let (raw, limit, at) = self.parts();
        let Some(raw) = raw else {
            return future::ready(Err(gone())).boxed();
        };
        let prepared = raw.prepare_with(sql, parameters);
        within(limit, at, prepared)
    }
}

/// One answer within the limit.
fn within<'e, T: Send + 'e>(
    limit: Option<Duration>,
    at: &'e mut State,
    answer: BoxFuture<'e, Result<T, sqlx::Error>>,
) -> BoxFuture<'e, Result<T, sqlx::Error>> {
    let Some(limit) = limit else {
        return answer;
    };
    *at = State::Busy;
    async move {
        let answer = timeout(limit, answer)
            .await
            .unwrap_or_else(|_| Err(silent()));
        *at = answer.as_ref().err().map_or(State::Ready, after);
        answer
    }
    .boxed()
}
