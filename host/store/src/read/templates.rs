//! Environment Templates.

use domain::{ProjectId, TemplateId, preparation::Confidential, template::Template};

use super::{
    Reader,
    list::{List, ListError, Page, list_sql, page},
};
use crate::{error::StoreError, templates};

impl Reader<'_> {
    /// A Template of a Project, without its confidential part.
    ///
    /// # Errors
    /// What the database says.
    pub async fn template(
        &self,
        project: ProjectId,
        id: TemplateId,
    ) -> Result<Option<Template>, StoreError> {
        let mut conn = self.connection().await?;
        templates::get(&mut conn, project, id).await
    }

    /// A Template with its confidential part, for the Session that is made of it (ENV-444).
    ///
    /// # Errors
    /// What the database says, or that it does not open.
    pub async fn template_opened(
        &self,
        project: ProjectId,
        id: TemplateId,
    ) -> Result<Option<(Template, Confidential)>, StoreError> {
        let mut conn = self.connection().await?;
        templates::opened(&mut conn, &self.store.inner.settings.keys, project, id).await
    }

    /// The Templates of a Project by creation (ENV-439).
    ///
    /// # Errors
    /// [`ListError::UnknownCursor`], or what the database says.
    pub async fn templates(
        &self,
        project: ProjectId,
        list: &List,
    ) -> Result<Page<Template>, ListError> {
        let sql = list_sql!(
            "id, name, body, created_at, updated_at",
            "templates WHERE project_id = $1",
            "created_at",
            "id"
        );
        let mut conn = self.connection().await.map_err(ListError::Store)?;
        let project = project.to_string();
        page(&mut conn, &sql, &project, None, list, templates::read).await
    }
}
