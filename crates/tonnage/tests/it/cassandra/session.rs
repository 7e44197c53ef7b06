//! Sessions of tests with a cluster of Cassandra, and when it is whole.

use std::time::Duration;

use scylla::{
    client::{execution_profile::ExecutionProfile, session::Session, session_builder::SessionBuilder},
    policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy},
    statement::{Consistency, Statement},
};

/// How long these sessions wait for a cluster that is busy.
const PATIENCE: Duration = Duration::from_secs(600);
/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// A session that any of `nodes` may begin.
pub async fn session(nodes: &[&str]) -> Session {
    let profile = ExecutionProfile::builder().request_timeout(Some(PATIENCE));
    let session = SessionBuilder::new()
        .known_nodes(nodes)
        .connection_timeout(PATIENCE)
        .schema_agreement_timeout(PATIENCE)
        .default_execution_profile_handle(profile.build().into_handle())
        .build()
        .await;
    session.expect("the cluster answers")
}

/// Waits until each of so many nodes answers for all of them: of one that has begun, or come back, the others do not know
/// at once. Fails where they do not within ten minutes.
pub async fn until_whole(session: &Session, nodes: usize) {
    let ended = tokio::time::timeout(PATIENCE, every_node_answers(session, nodes)).await;
    ended.expect("every node answers for all of them");
}

async fn every_node_answers(session: &Session, nodes: usize) {
    while session.get_cluster_state().get_nodes_info().len() < nodes {
        tokio::time::sleep(LOOK).await;
        // Of nodes that do not answer yet there is another look.
        let _ = session.refresh_metadata().await;
    }
    for node in session.get_cluster_state().get_nodes_info() {
        // Every node has a replica of this table; the key is one that is not there.
        let mut statement = Statement::new(
            "SELECT status FROM system_distributed.view_build_status \
             WHERE keyspace_name = 'none' AND view_name = 'none'",
        );
        statement.set_consistency(Consistency::All);
        let only = NodeIdentifier::HostId(node.host_id);
        statement.set_load_balancing_policy(Some(SingleTargetLoadBalancingPolicy::new(only, None)));
        while session.query_unpaged(statement.clone(), ()).await.is_err() {
            tokio::time::sleep(LOOK).await;
        }
    }
}
