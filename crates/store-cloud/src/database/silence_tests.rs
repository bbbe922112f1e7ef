//! What becomes of statements when a server says nothing: not that it is gone, and not that it is there.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::watch;
use tokio::time::{pause, resume, timeout};

use super::*;
use crate::batch::Batches;
use crate::statements::query;
use crate::testing::PostgresServer;

/// Far longer than it takes.
const SECONDS: Duration = Duration::from_secs(60);

/// A way to a server that takes every connection, and passes nothing on any more once it is told so.
struct Relay {
    port: u16,
    silent: watch::Sender<bool>,
}

impl Relay {
    async fn to(server: PathBuf) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        let (silent, told) = watch::channel(false);
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let (server, mut told) = (server.clone(), told.clone());
                tokio::spawn(async move {
                    let passing = async {
                        let mut server = UnixStream::connect(server).await?;
                        copy_bidirectional(&mut client, &mut server).await
                    };
                    let silenced = async { drop(told.wait_for(|silent| *silent).await) };
                    tokio::select! {
                        biased;
                        () = silenced => std::future::pending().await,
                        _ = passing => {}
                    }
                });
            }
        });
        Self { port, silent }
    }

    /// The address of a database behind this way first, and behind the socket of its server second.
    fn before(&self, url: &str) -> String {
        let url = url.replacen("host=", "host=127.0.0.1,", 1);
        let url = url.replacen("port=", &format!("port={},", self.port), 1);
        format!("{url} target_session_attrs=read-write connect_timeout=1")
    }
}

/// A pool of two behind a way that is the only one, and one of its connections.
async fn behind_one_way(server: &PostgresServer) -> (Relay, Database, deadpool_postgres::Object) {
    let relay = Relay::to(server.socket()).await;
    let options = DatabaseOptions {
        connections: 2,
        ..DatabaseOptions::default()
    };
    let url = server.url("rows");
    let folder = url.split(' ').find(|part| part.starts_with("host="));
    let url = url.replacen(folder.expect("a host"), "host=127.0.0.1", 1);
    let port = url.split(' ').find(|part| part.starts_with("port="));
    let url = url.replacen(port.expect("a port"), &format!("port={}", relay.port), 1);
    let opened = Database::open(&format!("{url} connect_timeout=1"), options).await;
    let database = opened.expect("it answers");
    let held = database.connection().await.expect("it answers");
    (relay, database, held)
}

async fn number(database: &Database) -> Result<i32, DatabaseError> {
    let connection = database.connection().await?;
    let rows = query(&connection, "SELECT 1", &[]).await?;
    Ok(rows[0].try_get(0)?)
}

#[tokio::test]
async fn a_host_that_takes_connections_and_says_nothing_is_passed_over() {
    if !crate::testing::has_postgres() {
        return;
    }
    let server = PostgresServer::start(&["fsync=off"]);
    server.create_database("rows", "template1").await;
    let relay = Relay::to(server.socket()).await;
    relay.silent.send_replace(true);
    let address = relay.before(&server.url("rows"));
    let opened = Database::open(&address, DatabaseOptions::default());
    let opened = timeout(SECONDS, opened)
        .await
        .expect("it waits with a bound");
    let database = opened.expect("the second host answers");
    assert_eq!(number(&database).await.expect("it answers"), 1);
    let listening = timeout(SECONDS, database.listener()).await;
    let listening = listening.expect("it waits with a bound");
    assert!(listening.is_ok());
}

#[tokio::test]
async fn a_batch_on_a_connection_that_hangs_fails_and_the_next_one_finds_the_other_host() {
    if !crate::testing::has_postgres() {
        return;
    }
    let server = PostgresServer::start(&["fsync=off"]);
    server.create_database("rows", "template1").await;
    let relay = Relay::to(server.socket()).await;
    let address = relay.before(&server.url("rows"));
    let opened = Database::open(&address, DatabaseOptions::default()).await;
    let database = opened.expect("it answers");
    let store = database.clone();
    let batches = Batches::in_turn(&database.turnstile().apart(), 8, move |items: Vec<i32>| {
        let store = store.clone();
        async move {
            let one = number(&store).await?;
            Ok(items.into_iter().map(|item| item + one).collect())
        }
        .boxed()
    });
    assert_eq!(batches.write(1).await.expect("it answers"), 2);
    // A statement outside of batches, which nobody watches.
    let held = database.connection().await.expect("it answers");
    relay.silent.send_replace(true);
    // All wait for the server: the time goes on to the end of their patience.
    pause();
    let alone = async { query(&held, "SELECT 1", &[]).await };
    let (failed, alone) = tokio::join!(batches.write(1), alone);
    resume();
    let failed = failed.expect_err("it hears nothing");
    assert!(failed.is_absence(), "{failed:?}");
    let alone = alone.expect_err("its connection ended, too");
    assert!(alone.is_absence(), "{alone:?}");
    drop(held);
    let next = timeout(SECONDS, batches.write(2)).await;
    let next = next.expect("it waits with a bound");
    assert_eq!(next.expect("the second host answers"), 3);
}

/// Reads that nobody watches have all connections when the server falls silent, so that no batch and no look gets one.
#[tokio::test]
async fn a_pool_whose_every_connection_hangs_is_made_anew() {
    if !crate::testing::has_postgres() {
        return;
    }
    let server = PostgresServer::start(&["fsync=off"]);
    server.create_database("rows", "template1").await;
    let relay = Relay::to(server.socket()).await;
    let options = DatabaseOptions {
        connections: 2,
        ..DatabaseOptions::default()
    };
    let opened = Database::open(&relay.before(&server.url("rows")), options).await;
    let database = opened.expect("it answers");
    let held = [database.connection().await, database.connection().await];
    let held = held.map(|held| held.expect("it answers"));
    drop(database.connection_by_index().await.expect("it answers"));
    relay.silent.send_replace(true);
    pause();
    let hanging = held.each_ref().map(|held| query(held, "SELECT 1", &[]));
    // As the tail of changes does, again and again. That steps get connections says nothing of the others.
    let asking = async {
        loop {
            drop(database.connection_by_index().await);
            drop(database.connection().await);
        }
    };
    let hung = tokio::select! {
        hung = timeout(SECONDS, join_all(hanging)) => hung.expect("they are ended"),
        () = asking => unreachable!("it asks for ever"),
    };
    resume();
    for hung in hung {
        let error = hung.expect_err("its connection ended");
        assert!(error.is_absence(), "{error:?}");
    }
    drop(held);
    assert_eq!(number(&database).await.expect("the second host answers"), 1);
}

/// One connection hangs, and those that are to be made beside it hang before the server greets them.
#[tokio::test]
async fn a_pool_whose_new_connections_hang_is_made_anew() {
    if !crate::testing::has_postgres() {
        return;
    }
    let server = PostgresServer::start(&["fsync=off"]);
    server.create_database("rows", "template1").await;
    let (relay, database, held) = behind_one_way(&server).await;
    // The other connection is gone, so the next request waits for a new one.
    database.pool.pool.retain(|_, _| false);
    relay.silent.send_replace(true);
    pause();
    let hanging = query(&held, "SELECT 1", &[]);
    let (mut created, mut asked) = (0, 0);
    let asking = async {
        loop {
            asked += 1;
            let given = database.connection().await;
            if let Err(DatabaseError::NoConnection(PoolError::Timeout(TimeoutType::Create))) = given
            {
                created += 1;
            }
        }
    };
    let hung = tokio::select! {
        hung = timeout(SECONDS, hanging) => hung.expect("it is ended"),
        () = asking => unreachable!("it asks for ever"),
    };
    resume();
    assert!(hung.expect_err("its connection ended").is_absence());
    assert!(created > 0, "{asked} asked");
    drop(held);
    relay.silent.send_replace(false);
    assert_eq!(number(&database).await.expect("it answers again"), 1);
}
