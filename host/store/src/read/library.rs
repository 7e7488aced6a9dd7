//! Files, Skills and their versions: the reusable contents of a Project.

use domain::{
    FileId, ProjectId, SkillId, SkillVersionId,
    file::File,
    skill::{Skill, SkillVersion},
};

use super::{
    Reader,
    list::{List, ListError, Page, list_sql, page},
};
use crate::{blob_references, convert::id_column, error::StoreError, files, skills};

impl Reader<'_> {
    /// A File of a Project.
    ///
    /// # Errors
    /// What the database says.
    pub async fn file(&self, project: ProjectId, id: FileId) -> Result<Option<File>, StoreError> {
        let mut conn = self.connection().await?;
        files::get(&mut conn, project, id).await
    }

    /// The Files of a Project by upload (SRC-012).
    ///
    /// # Errors
    /// [`ListError::UnknownCursor`], or what the database says.
    pub async fn files(&self, project: ProjectId, list: &List) -> Result<Page<File>, ListError> {
        let sql = list_sql!(
            "id, project_id, filename, digest, size, created_at",
            "files WHERE project_id = $1",
            "created_at",
            "id"
        );
        let mut conn = self.connection().await.map_err(ListError::Store)?;
        let project = project.to_string();
        page(&mut conn, &sql, &project, None, list, files::read).await
    }

    /// A Skill of a Project.
    ///
    /// # Errors
    /// What the database says.
    pub async fn skill(
        &self,
        project: ProjectId,
        id: SkillId,
    ) -> Result<Option<Skill>, StoreError> {
        let mut conn = self.connection().await?;
        skills::get(&mut conn, project, id).await
    }

    /// The Skills of a Project by creation.
    ///
    /// # Errors
    /// [`ListError::UnknownCursor`], or what the database says.
    pub async fn skills(&self, project: ProjectId, list: &List) -> Result<Page<Skill>, ListError> {
        let sql = list_sql!(
            "s.created_at, v.id AS version_id, v.skill_id, v.number, v.name, v.description, v.digest, v.size, \
             v.created_at AS uploaded_at, (SELECT MAX(l.number) FROM skill_versions l WHERE l.skill_id = s.id) AS latest",
            "skills s JOIN skill_versions v ON v.skill_id = s.id AND v.number = s.default_version \
             WHERE s.project_id = $1",
            "s.created_at",
            "s.id"
        );
        let mut conn = self.connection().await.map_err(ListError::Store)?;
        let parent = project.to_string();
        page(&mut conn, &sql, &parent, None, list, |row| {
            skills::read(row, project)
        })
        .await
    }

    /// A version of a Skill of a Project.
    ///
    /// # Errors
    /// What the database says.
    pub async fn skill_version(
        &self,
        project: ProjectId,
        skill: SkillId,
        number: u64,
    ) -> Result<Option<SkillVersion>, StoreError> {
        let mut conn = self.connection().await?;
        skills::version(&mut conn, project, skill, number).await
    }

    /// The versions of a Skill of a Project by number (SKL-007).
    ///
    /// # Errors
    /// [`ListError::UnknownCursor`], or what the database says.
    pub async fn skill_versions(
        &self,
        project: ProjectId,
        skill: SkillId,
        list: &List,
    ) -> Result<Page<SkillVersion>, ListError> {
        let sql = list_sql!(
            "id AS version_id, skill_id, number, name, description, digest, size, created_at AS uploaded_at",
            "skill_versions WHERE skill_id = $1",
            "number",
            "id"
        );
        let mut conn = self.connection().await.map_err(ListError::Store)?;
        let parent = skill.to_string();
        page(&mut conn, &sql, &parent, None, list, |row| {
            skills::read_version(row, project)
        })
        .await
    }

    /// Which Skill of a Project a version belongs to.
    ///
    /// # Errors
    /// What the database says.
    pub async fn skill_of_version(
        &self,
        project: ProjectId,
        version: SkillVersionId,
    ) -> Result<Option<SkillId>, StoreError> {
        let mut conn = self.connection().await?;
        let row = sqlx::query(
            "SELECT v.skill_id FROM skill_versions v JOIN skills s ON s.id = v.skill_id \
             WHERE v.id = $1 AND s.project_id = $2",
        )
        .bind(version.to_string())
        .bind(project.to_string())
        .fetch_optional(&mut conn)
        .await?;
        row.map(|row| id_column(&row, "skill_versions", "skill_id"))
            .transpose()
    }

    /// Whether anything keeps the blob of this name: before it is swept.
    ///
    /// # Errors
    /// What the database says.
    pub async fn blob_is_referenced(&self, name: &str) -> Result<bool, StoreError> {
        let mut conn = self.connection().await?;
        blob_references::is_referenced(&mut conn, name).await
    }
}
