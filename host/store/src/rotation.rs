//! Rotation of the service key (KEY-005): every sealed column gets another wrapping of its data key; no content is sealed anew.
//!
//! [`SOURCES`] names every sealed column of the schema (a test compares it with the migrations). A unit moves one page; where
//! it stops nothing is lost, because the ring opens both keys until all of it is moved.

use std::convert::Infallible;

use domain::{
    Digest,
    blob::{BlobOwner, BlobRef, BlobScope},
    preparation::Preparation,
    vault::AuthView,
};
use seal::{Binding, Purpose, SealError};
use sqlx::{Row, any::AnyRow};

use crate::{
    convert::{count_column, id_column, json_column},
    error::{StoreError, UnitError},
    read::Reader,
    tx::Tx,
    unit::Unit,
    vaults::Bound,
};

/// Rows of one unit.
const PAGE: i64 = 100;

/// Where a page begins: the key of the last row before it.
type Position = [String; 3];

/// One sealed column. `select` gives its rows after `$1`, `$2`, `$3` in the order of their keys `k1`, `k2`, `k3`, at most `$4`,
/// with the `sealed` value and the members of its owner; `update` writes `$4` where the row still holds `$5`.
struct Source {
    /// `table.column`.
    name: &'static str,
    select: &'static str,
    update: &'static str,
    purpose: Purpose,
    owner: fn(&AnyRow) -> Result<Vec<String>, StoreError>,
}

macro_rules! source {
    // Rows with one key.
    ($table:literal, $column:literal, $from:literal, $key:literal, $own:literal, $members:literal, $purpose:ident, $owner:expr) => {
        Source {
            name: concat!($table, ".", $column),
            select: concat!(
                "SELECT ",
                $own,
                ".",
                $key,
                " AS k1, '' AS k2, '' AS k3, ",
                $own,
                ".",
                $column,
                " AS sealed, ",
                $members,
                " FROM ",
                $from,
                " WHERE ",
                $own,
                ".",
                $column,
                " IS NOT NULL AND ",
                $own,
                ".",
                $key,
                " > $1 AND $2 = '' AND $3 = '' ORDER BY ",
                $own,
                ".",
                $key,
                " LIMIT $4"
            ),
            update: concat!(
                "UPDATE ",
                $table,
                " SET ",
                $column,
                " = $4 WHERE ",
                $key,
                " = $1 AND $2 = '' AND $3 = '' AND ",
                $column,
                " = $5"
            ),
            purpose: Purpose::$purpose,
            owner: $owner,
        }
    };
}

/// Owner members `o1` and `o2`.
fn two(row: &AnyRow) -> Result<Vec<String>, StoreError> {
    Ok(vec![row.try_get("o1")?, row.try_get("o2")?])
}

/// The key itself.
fn own_key(row: &AnyRow) -> Result<Vec<String>, StoreError> {
    Ok(vec![row.try_get("k1")?])
}

fn credential(row: &AnyRow) -> Result<Vec<String>, StoreError> {
    let auth: AuthView = json_column(row, "credentials", "auth")?;
    let bound = Bound::new(
        id_column(row, "credentials", "o1")?,
        id_column(row, "credentials", "o2")?,
        id_column(row, "credentials", "k1")?,
        &auth,
    );
    Ok(bound.owner().map(str::to_owned).to_vec())
}

/// The installation's own key comes first: from then on a Core with the former key alone does not start.
const SOURCES: &[Source] = &[
    Source {
        name: "installation.fingerprint_key",
        select: "SELECT '1' AS k1, '' AS k2, '' AS k3, fingerprint_key AS sealed FROM installation \
                 WHERE '1' > $1 AND $2 = '' AND $3 = '' LIMIT $4",
        update: "UPDATE installation SET fingerprint_key = $4 WHERE $1 = '1' AND $2 = '' AND $3 = '' AND fingerprint_key = $5",
        purpose: Purpose::Installation,
        owner: |_| Ok(vec!["fingerprint-key".to_owned()]),
    },
    source!(
        "model_defaults",
        "sealed_key",
        "model_defaults d",
        "harness",
        "d",
        "d.harness AS o1",
        DeploymentDefault,
        own_key
    ),
    source!(
        "agents",
        "sealed_provider",
        "agents a",
        "id",
        "a",
        "a.project_id AS o1, a.id AS o2",
        AgentProvider,
        two
    ),
    source!(
        "configurations",
        "sealed_provider",
        "configurations c JOIN sessions s ON s.id = c.session_id",
        "id",
        "c",
        "s.project_id AS o1, s.id AS o2",
        SessionProvider,
        two
    ),
    source!(
        "configurations",
        "sealed_environment",
        "configurations c JOIN sessions s ON s.id = c.session_id",
        "id",
        "c",
        "s.project_id AS o1, s.id AS o2",
        EnvironmentSetup,
        two
    ),
    source!(
        "templates",
        "sealed_variables",
        "templates t",
        "id",
        "t",
        "t.project_id AS o1, t.id AS o2",
        EnvironmentVariables,
        two
    ),
    source!(
        "templates",
        "sealed_setup",
        "templates t",
        "id",
        "t",
        "t.project_id AS o1, t.id AS o2",
        EnvironmentSetup,
        two
    ),
    source!(
        "credentials",
        "sealed",
        "credentials c JOIN vaults v ON v.id = c.vault_id",
        "id",
        "c",
        "v.project_id AS o1, v.id AS o2, c.auth",
        VaultCredential,
        credential
    ),
    Source {
        name: "provider_state.sealed",
        select: "SELECT provider AS k1, scope AS k2, key AS k3, sealed FROM provider_state \
                 WHERE (provider, scope, key) > ($1, $2, $3) ORDER BY provider, scope, key LIMIT $4",
        update: "UPDATE provider_state SET sealed = $4 WHERE provider = $1 AND scope = $2 AND key = $3 AND sealed = $5",
        purpose: Purpose::ProviderState,
        owner: |row| {
            Ok(vec![
                row.try_get("k1")?,
                row.try_get("k2")?,
                row.try_get("k3")?,
            ])
        },
    },
];

/// How far a rotation of the rows is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Progress {
    source: usize,
    after: Position,
    /// Values that got the current key.
    pub moved: u64,
    /// Columns with values that no key of the ring opens, and how many.
    pub unreadable: Vec<(&'static str, u64)>,
}

impl Progress {
    /// Whether every row was looked at.
    pub fn is_complete(&self) -> bool {
        self.source >= SOURCES.len()
    }
}

/// Moves the next page of sealed values to the current key.
#[derive(Debug, Clone)]
pub struct RewrapPage {
    /// Where the page before it ended.
    pub from: Progress,
}

impl Unit for RewrapPage {
    const NAME: &'static str = "RewrapPage";
    const LEASED: bool = false;
    type Answer = Progress;
    type Refusal = Infallible;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Progress, UnitError<Infallible>> {
        let mut progress = self.from.clone();
        let Some(source) = SOURCES.get(progress.source) else {
            return Ok(progress);
        };
        let [k1, k2, k3] = progress.after.clone();
        let rows = sqlx::query(source.select)
            .bind(k1)
            .bind(k2)
            .bind(k3)
            .bind(PAGE)
            .fetch_all(&mut *tx.conn)
            .await?;
        let mut unreadable = 0;
        for row in &rows {
            progress.after = position(row)?;
            match rewrap(tx, source, row).await {
                Ok(moved) => progress.moved += u64::from(moved),
                Err(StoreError::Seal(SealError::NoRandomness)) => {
                    return Err(StoreError::Seal(SealError::NoRandomness).into());
                }
                Err(StoreError::Seal(error)) => {
                    tracing::error!(column = source.name, key = ?progress.after, %error, "a sealed value cannot be opened");
                    unreadable += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
        if unreadable > 0 {
            match progress
                .unreadable
                .iter_mut()
                .find(|known| known.0 == source.name)
            {
                Some(known) => known.1 += unreadable,
                None => progress.unreadable.push((source.name, unreadable)),
            }
        }
        if i64::try_from(rows.len()).unwrap_or(PAGE) < PAGE {
            progress.source += 1;
            progress.after = Position::default();
        }
        Ok(progress)
    }
}

fn position(row: &AnyRow) -> Result<Position, StoreError> {
    Ok([row.try_get("k1")?, row.try_get("k2")?, row.try_get("k3")?])
}

/// Whether the value was moved. One that changed since it was read is sealed anew already.
async fn rewrap(tx: &mut Tx<'_>, source: &Source, row: &AnyRow) -> Result<bool, StoreError> {
    let sealed: Vec<u8> = row.try_get("sealed")?;
    if !tx.keys.is_former(&sealed)? {
        return Ok(false);
    }
    let owner = (source.owner)(row)?;
    let owner: Vec<&str> = owner.iter().map(String::as_str).collect();
    let binding = Binding::new(source.purpose, &owner);
    let moved = tx.keys.rewrap(&binding, &sealed)?;
    let [k1, k2, k3] = position(row)?;
    let done = sqlx::query(source.update)
        .bind(k1)
        .bind(k2)
        .bind(k3)
        .bind(moved)
        .bind(sealed)
        .execute(&mut *tx.conn)
        .await?;
    Ok(done.rows_affected() == 1)
}

/// Which blobs rows name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlobRows {
    /// Artifacts; deleted ones too, whose bytes may be stored again.
    Artifacts,
    /// Uploaded Files.
    Files,
    /// Versions of Skills.
    SkillVersions,
    /// Contents that came inside a Template.
    Templates,
    /// Every reference there is, by its name alone: what the others must have covered.
    References,
}

impl BlobRows {
    /// Those whose owners are known.
    pub const OWNED: [Self; 4] = [
        Self::Artifacts,
        Self::Files,
        Self::SkillVersions,
        Self::Templates,
    ];

    fn select(self) -> &'static str {
        match self {
            Self::Artifacts => {
                "SELECT digest AS id, digest FROM artifacts WHERE digest > $1 \
                 GROUP BY digest ORDER BY digest LIMIT $2"
            }
            Self::Files => {
                "SELECT id, project_id, digest, size FROM files WHERE id > $1 ORDER BY id LIMIT $2"
            }
            Self::SkillVersions => {
                "SELECT v.id, v.skill_id, s.project_id, v.digest, v.size FROM skill_versions v \
                 JOIN skills s ON s.id = v.skill_id WHERE v.id > $1 ORDER BY v.id LIMIT $2"
            }
            Self::Templates => "SELECT id, body FROM templates WHERE id > $1 ORDER BY id LIMIT $2",
            Self::References => {
                "SELECT blob AS id, blob AS digest FROM blob_references WHERE blob > $1 \
                 GROUP BY blob ORDER BY blob LIMIT $2"
            }
        }
    }

    fn blobs(self, row: &AnyRow) -> Result<Vec<Named>, StoreError> {
        let stored = |owner| -> Result<BlobRef, StoreError> {
            let scope = BlobScope {
                project: id_column(row, "blobs", "project_id")?,
                owner,
            };
            let digest = id_column(row, "blobs", "digest")?;
            Ok(scope.stored(digest, count_column(row, "blobs", "size")?))
        };
        Ok(match self {
            Self::Artifacts | Self::References => {
                vec![Named::Shared(id_column(row, "blobs", "digest")?)]
            }
            Self::Files => {
                let id = id_column(row, "files", "id")?;
                vec![Named::By(stored(BlobOwner::File { id })?)]
            }
            Self::SkillVersions => {
                let version = id_column(row, "skill_versions", "id")?;
                let skill = id_column(row, "skill_versions", "skill_id")?;
                vec![Named::By(stored(BlobOwner::SkillVersion {
                    skill,
                    version,
                })?)]
            }
            Self::Templates => {
                let preparation: Preparation = json_column(row, "templates", "body")?;
                preparation.inline().copied().map(Named::By).collect()
            }
        })
    }
}

/// A blob that a row names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// By its content.
    Shared(Digest),
    /// By its content and its owner.
    By(BlobRef),
}

impl Reader<'_> {
    /// The next page of blobs that rows of one kind name, with where to go on; none at the end.
    ///
    /// # Errors
    /// What the database says.
    pub async fn named_blobs(
        &self,
        rows: BlobRows,
        after: &str,
    ) -> Result<(Vec<Named>, Option<String>), StoreError> {
        let mut conn = self.connection().await?;
        let found = sqlx::query(rows.select())
            .bind(after.to_owned())
            .bind(PAGE)
            .fetch_all(&mut conn)
            .await?;
        let mut blobs = Vec::new();
        for row in &found {
            blobs.extend(rows.blobs(row)?);
        }
        let last = found.last().map(|row| row.try_get("id")).transpose()?;
        Ok((blobs, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A sealed column that a rotation forgets cannot be opened any more when the former key is gone.
    #[test]
    fn every_sealed_column_of_the_schema_has_a_source() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations/postgres");
        let mut columns = Vec::new();
        let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().flatten().collect();
        files.sort_by_key(std::fs::DirEntry::path);
        for file in files {
            let text = std::fs::read_to_string(file.path()).unwrap();
            let mut table = String::new();
            for line in text.lines().map(str::trim) {
                if let Some(rest) = line.strip_prefix("CREATE TABLE ") {
                    table = rest.trim_end_matches(" (").to_owned();
                }
                if let Some(rest) = line.strip_prefix("ALTER TABLE ") {
                    table = rest.split(' ').next().unwrap().to_owned();
                }
                let line = line.split(" ADD COLUMN ").last().unwrap();
                if line.contains("BYTEA") && !line.starts_with("--") {
                    let column = line.split(' ').next().unwrap();
                    columns.push(format!("{table}.{column}"));
                }
            }
        }
        let mut sources: Vec<_> = SOURCES
            .iter()
            .map(|source| source.name.to_owned())
            .collect();
        columns.sort();
        sources.sort();
        assert_eq!(columns, sources);
    }
}
