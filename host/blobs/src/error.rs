//! What can go wrong with a blob.

use domain::Digest;

/// A failed blob operation.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// The blob folder is unusable.
    #[error("the blob folder {path} cannot be used")]
    Folder {
        /// The folder.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// More bytes came than the caller allowed; nothing was stored.
    #[error("the content is longer than {limit} bytes")]
    TooLong {
        /// The caller's limit in bytes.
        limit: u64,
    },
    /// There is no such blob.
    #[error("no blob {0}")]
    Missing(Digest),
    /// The bytes could not be sealed or opened.
    #[error("a blob cannot be sealed or opened")]
    Seal(#[from] seal::SealError),
    /// The disk or the object store failed.
    #[error("the blob storage failed")]
    Store(#[from] object_store::Error),
}
