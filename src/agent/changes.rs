//! What is told from time to time, by somebody who may go.

use tokio::sync::watch;

/// Until something else is told; for ever, where nobody can tell it any more.
pub(super) async fn changed<T>(watched: &mut watch::Receiver<T>) {
    if watched.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}
