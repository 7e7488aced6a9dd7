//! Credentials at the point of use: opened for one request to a Runtime, and renewed at their issuer at most once for each
//! generation of their secrets (SEL-019, OAU-001 to OAU-007).
//!
//! The exchange itself is between two units. [`BeginRenewal`] commits that it will be made, [`CommitRenewal`] what it gave,
//! [`AbandonRenewal`] that it certainly changed nothing. Whatever else happened between them is unknown and is not tried again.

use std::convert::Infallible;

use domain::{
    CredentialId, ProjectId, Secret, Timestamp, VaultId,
    vault::{AuthSecrets, AuthView, Exchange, Grant, Readiness, Unusable, readiness},
};
use seal::KeyRing;
use sqlx::Row;

use crate::{
    conn::Conn,
    convert::{id_column, json_column, to_json},
    error::{StoreError, UnitError},
    tx::Tx,
    unit::Unit,
    vaults::Bound,
};

/// One server of a Session and the Credential that was frozen for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialUse {
    /// Owner of the Session.
    pub project: ProjectId,
    /// The Session's Vaults.
    pub attached: Vec<VaultId>,
    /// The Credential.
    pub id: CredentialId,
    /// The server.
    pub server_url: String,
}

/// What a Credential takes before its server gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    /// This token.
    Ready(Secret),
    /// An exchange with its issuer.
    Expired,
    /// The end of the exchange that another process makes.
    UnderWay,
}

/// Why a Credential cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UseFault {
    /// Not in an attached Vault of the Project, or for another server: deleted, mostly (DEL-003).
    #[error("the credential is gone")]
    Missing,
    /// Until somebody replaces it.
    #[error(transparent)]
    Unusable(#[from] Unusable),
}

/// A Credential with everything of it.
struct Loaded {
    vault: VaultId,
    auth: AuthView,
    secrets: AuthSecrets,
    generation: i64,
    begun: Option<Timestamp>,
}

impl Loaded {
    fn readiness(&self, now: Timestamp) -> Result<Readiness, UseFault> {
        Ok(readiness(&self.auth, &self.secrets, self.begun, now)?)
    }
}

/// Finds and opens it, or nothing if one of the conditions of SEL-019 fails.
async fn load(
    conn: &mut Conn,
    keys: &KeyRing,
    wanted: &CredentialUse,
) -> Result<Option<Loaded>, StoreError> {
    let row = sqlx::query(
        "SELECT c.vault_id, c.auth, c.sealed, c.generation, c.renewal_begun_at FROM credentials c \
         JOIN vaults v ON v.id = c.vault_id WHERE c.id = $1 AND v.project_id = $2",
    )
    .bind(wanted.id.to_string())
    .bind(wanted.project.to_string())
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let vault = id_column(&row, "credentials", "vault_id")?;
    let auth: AuthView = json_column(&row, "credentials", "auth")?;
    if !wanted.attached.contains(&vault) || auth.server_url() != wanted.server_url {
        return Ok(None);
    }
    let sealed: Vec<u8> = row.try_get("sealed")?;
    let bound = Bound::new(wanted.project, vault, wanted.id, &auth);
    let begun: Option<i64> = row.try_get("renewal_begun_at")?;
    Ok(Some(Loaded {
        vault,
        secrets: bound.open(keys, &sealed)?,
        auth,
        generation: row.try_get("generation")?,
        begun: begun.map(Timestamp::from_millis),
    }))
}

/// Opens a Credential for use.
pub(crate) async fn open(
    conn: &mut Conn,
    keys: &KeyRing,
    wanted: &CredentialUse,
    now: Timestamp,
) -> Result<Result<Opened, UseFault>, StoreError> {
    let Some(found) = load(conn, keys, wanted).await? else {
        return Ok(Err(UseFault::Missing));
    };
    Ok(found.readiness(now).map(|readiness| match readiness {
        Readiness::Ready(token) => Opened::Ready(token),
        Readiness::Expired(_) => Opened::Expired,
        Readiness::UnderWay => Opened::UnderWay,
    }))
}

/// Writes changed secrets: another generation, with no exchange behind it. Reads the clock for `updated_at`.
pub(crate) async fn write(
    tx: &mut Tx<'_>,
    bound: &Bound,
    id: CredentialId,
    auth: &AuthView,
    secrets: &AuthSecrets,
) -> Result<(), StoreError> {
    let now = tx.now().await?;
    let sealed = bound.seal(&tx.keys, secrets)?;
    sqlx::query(
        "UPDATE credentials SET auth = $2, sealed = $3, updated_at = $4, generation = generation + 1, \
         renewal_begun_at = NULL WHERE id = $1",
    )
    .bind(id.to_string())
    .bind(to_json(auth)?)
    .bind(sealed)
    .bind(now.millis())
    .execute(&mut *tx.conn)
    .await?;
    Ok(())
}

/// Takes the row lock, so that a replacement and a deletion come before or after (OAU-006).
async fn lock(tx: &mut Tx<'_>, id: CredentialId) -> Result<(), StoreError> {
    sqlx::query("UPDATE credentials SET updated_at = updated_at WHERE id = $1")
        .bind(id.to_string())
        .execute(&mut *tx.conn)
        .await?;
    tx.forget_clock();
    Ok(())
}

/// Commits that an exchange for an expired Credential will be made now. Whoever gets [`Begun::Exchange`] makes it, once.
#[derive(Debug, Clone)]
pub struct BeginRenewal {
    /// The Credential.
    pub wanted: CredentialUse,
}

/// Answer of [`BeginRenewal`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// This exchange is the caller's to make.
    Exchange(Renewal, Box<Exchange>),
    /// Somebody was faster: this is how the Credential stands now.
    Otherwise(Opened),
}

/// The right to one exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewal {
    wanted: CredentialUse,
    generation: i64,
    begun: Timestamp,
}

impl Unit for BeginRenewal {
    const NAME: &'static str = "BeginRenewal";
    const LEASED: bool = true;
    type Answer = Begun;
    type Refusal = UseFault;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Begun, UnitError<UseFault>> {
        lock(tx, self.wanted.id).await?;
        let now = tx.now().await?;
        let keys = tx.keys.clone();
        let found = load(tx.conn, &keys, &self.wanted).await?;
        let found = found.ok_or(UnitError::Refused(UseFault::Missing))?;
        let exchange = match found.readiness(now).map_err(UnitError::Refused)? {
            Readiness::Expired(exchange) => exchange,
            Readiness::Ready(token) => return Ok(Begun::Otherwise(Opened::Ready(token))),
            Readiness::UnderWay => return Ok(Begun::Otherwise(Opened::UnderWay)),
        };
        sqlx::query("UPDATE credentials SET renewal_begun_at = $2 WHERE id = $1")
            .bind(self.wanted.id.to_string())
            .bind(now.millis())
            .execute(&mut *tx.conn)
            .await?;
        let renewal = Renewal {
            wanted: self.wanted.clone(),
            generation: found.generation,
            begun: now,
        };
        Ok(Begun::Exchange(renewal, exchange))
    }
}

/// Keeps what the issuer gave, before it is used (OAU-005). It needs no lease: the generation fences it, and tokens that an
/// issuer gave must not be lost because this process no longer executes.
#[derive(Debug, Clone)]
pub struct CommitRenewal {
    /// The exchange.
    pub renewal: Renewal,
    /// What it gave.
    pub grant: Grant,
}

impl Unit for CommitRenewal {
    const NAME: &'static str = "CommitRenewal";
    const LEASED: bool = false;
    /// The token to use; none if the Credential was replaced meanwhile, and holds another one (OAU-006).
    type Answer = Option<Secret>;
    type Refusal = UseFault;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Option<Secret>, UnitError<UseFault>> {
        let Renewal {
            wanted,
            generation,
            begun,
        } = &self.renewal;
        lock(tx, wanted.id).await?;
        let keys = tx.keys.clone();
        let found = load(tx.conn, &keys, wanted).await?;
        let mut found = found.ok_or(UnitError::Refused(UseFault::Missing))?;
        if found.generation != *generation || found.begun != Some(*begun) {
            return Ok(None);
        }
        let bound = Bound::new(wanted.project, found.vault, wanted.id, &found.auth);
        let grant = self.grant.clone();
        grant.apply(*begun, &mut found.auth, &mut found.secrets);
        write(tx, &bound, wanted.id, &found.auth, &found.secrets).await?;
        Ok(Some(found.secrets.token))
    }
}

/// Notes that an exchange certainly changed nothing: nothing was sent, or the issuer refused.
#[derive(Debug, Clone)]
pub struct AbandonRenewal {
    /// The exchange.
    pub renewal: Renewal,
}

impl Unit for AbandonRenewal {
    const NAME: &'static str = "AbandonRenewal";
    const LEASED: bool = false;
    type Answer = ();
    type Refusal = Infallible;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), UnitError<Infallible>> {
        sqlx::query(
            "UPDATE credentials SET renewal_begun_at = NULL \
             WHERE id = $1 AND generation = $2 AND renewal_begun_at = $3",
        )
        .bind(self.renewal.wanted.id.to_string())
        .bind(self.renewal.generation)
        .bind(self.renewal.begun.millis())
        .execute(&mut *tx.conn)
        .await?;
        Ok(())
    }
}
