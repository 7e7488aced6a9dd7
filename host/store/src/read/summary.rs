//! What a Project holds, in numbers (OPS-070, OPS-071).

use std::collections::BTreeMap;

use domain::{AgentId, KeyId, ProjectId, Timestamp, summary::Summary};
use sqlx::Row;

use super::{
    Reader,
    sessions::{read_state, state_columns},
};
use crate::{
    convert::{count_column, parse_id},
    error::StoreError,
};

/// Sessions of one statement.
const PAGE: i64 = 500;

/// How the Sessions of a Project are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grouping {
    /// All together.
    Project,
    /// By their Agent, inline ones included.
    Agent,
    /// By the key that created them.
    Key,
}

/// Which group a row of a summary is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// Grouped by Agent: which.
    pub agent: Option<AgentId>,
    /// Grouped by key: which; none if the record of the creation is gone.
    pub key: Option<KeyId>,
}

/// Resources of a Project besides Sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the kinds of resources")]
pub struct Assets {
    pub agents: u64,
    pub environment_templates: u64,
    pub files: u64,
    pub skills: u64,
    pub vaults: u64,
}

impl Reader<'_> {
    /// The Sessions of a Project, made in `[from, until)`, in groups, all of one state of the database. Without Sessions
    /// there is one empty group, but for Agents none.
    ///
    /// # Errors
    /// What the database says.
    pub async fn summary(
        &self,
        project: ProjectId,
        grouping: Grouping,
        from: Timestamp,
        until: Timestamp,
    ) -> Result<Vec<(Group, Summary)>, StoreError> {
        const SQL: &str = concat!(
            "SELECT s.created_at, s.id, (SELECT w.key_id FROM write_operations w WHERE w.resource_type = 'session' \
             AND w.resource_id = s.id AND w.action = 'create' AND w.project_id = s.project_id LIMIT 1) AS key_id, ",
            state_columns!(),
            " FROM sessions s WHERE s.project_id = $1 AND s.deleted_at IS NULL AND s.created_at < $4 \
             AND (s.created_at, s.id) > ($2, $3) ORDER BY s.created_at, s.id LIMIT $5"
        );
        let mut groups: BTreeMap<Group, Summary> = BTreeMap::new();
        let none = Group {
            agent: None,
            key: None,
        };
        // Before the first of that moment: every id is greater than no text.
        let (mut at, mut id) = (from.millis(), String::new());
        let mut snapshot = self.snapshot().await?;
        loop {
            let rows = sqlx::query(SQL)
                .bind(project.to_string())
                .bind(at)
                .bind(id.clone())
                .bind(until.millis())
                .bind(PAGE)
                .fetch_all(&mut *snapshot)
                .await?;
            for row in &rows {
                (at, id) = (row.try_get("created_at")?, row.try_get("id")?);
                let state = read_state(row)?;
                let group = match grouping {
                    Grouping::Project => none,
                    Grouping::Agent => Group {
                        agent: Some(state.session.agent_id),
                        ..none
                    },
                    Grouping::Key => {
                        let key: Option<String> = row.try_get("key_id")?;
                        let key = key.map(|key| parse_id(&key, "write_operations", "key_id"));
                        Group {
                            key: key.transpose()?,
                            ..none
                        }
                    }
                };
                groups.entry(group).or_default().add(&state);
            }
            if i64::try_from(rows.len()).unwrap_or(PAGE) < PAGE {
                break;
            }
        }
        snapshot.end().await?;
        if groups.is_empty() && grouping != Grouping::Agent {
            groups.insert(none, Summary::default());
        }
        Ok(groups.into_iter().collect())
    }

    /// How many resources a Project has.
    ///
    /// # Errors
    /// What the database says.
    pub async fn assets(&self, project: ProjectId) -> Result<Assets, StoreError> {
        let mut conn = self.connection().await?;
        let row = sqlx::query(
            "SELECT (SELECT COUNT(*) FROM agents WHERE project_id = $1 AND deleted_at IS NULL) AS agents, \
             (SELECT COUNT(*) FROM templates WHERE project_id = $1) AS templates, \
             (SELECT COUNT(*) FROM files WHERE project_id = $1) AS files, \
             (SELECT COUNT(*) FROM skills WHERE project_id = $1) AS skills, \
             (SELECT COUNT(*) FROM vaults WHERE project_id = $1) AS vaults",
        )
        .bind(project.to_string())
        .fetch_one(&mut conn)
        .await?;
        let count = |name| count_column(&row, "projects", name);
        Ok(Assets {
            agents: count("agents")?,
            environment_templates: count("templates")?,
            files: count("files")?,
            skills: count("skills")?,
            vaults: count("vaults")?,
        })
    }
}
