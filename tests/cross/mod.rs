//! Two accounts, every route of every family, random calls: nobody reads or changes what is another's, and what is another's
//! cannot be told from what never was.

mod calls;
mod routes;
mod stock;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::Duration;

use it::http::Headers;
use it::{Answer, Connection, Message, Random, Request, Server, Socket};

use calls::{Call, Maker, Owner};
use routes::{Route, routes};
use stock::{Credential, JWT_SECRET, Stock};

/// How many calls are made; the whole campaign is 100,000.
fn wanted() -> usize {
    let wanted = std::env::var("EASEL_CALLS").ok();
    wanted.and_then(|text| text.parse().ok()).unwrap_or(3_000)
}

/// Where the walk begins.
const SEED: u64 = 20_261_122;

/// Where signed links live.
const SIGNED: &str = "/signed/";

/// Far longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a lane saw.
#[derive(Debug, Default)]
struct Seen {
    calls: usize,
    routes: BTreeSet<String>,
    credentials: BTreeMap<&'static str, usize>,
    statuses: BTreeMap<u16, usize>,
    /// Calls for another's things that were compared with calls for nobody's.
    twins: usize,
    /// Those of them that were answered 404.
    absent: usize,
    /// Routes on which an account found something of its own.
    found: BTreeSet<String>,
    /// Another's names that the account has told the server itself: a setting of the same name is its own.
    told: BTreeSet<String>,
}

#[tokio::test]
async fn two_accounts_never_meet_whatever_they_ask() {
    let data = tempfile::tempdir().unwrap();
    let flags = [
        "--require-credentials",
        JWT_SECRET,
        "--queue-per-account",
        "100000",
        "--queue-total",
        "100000",
    ];
    let server = Server::start_with(data.path(), flags).await.unwrap();
    let one = Stock::make(data.path(), &server, "acme", "acmesownword").await;
    let two = Stock::make(data.path(), &server, "other", "otherssecretword").await;
    let routes = routes();
    assert!(routes.len() > 75, "{}", routes.len());
    let each = wanted() / 2;
    // Each account is a lane of its own: what it did before is then the same for both calls of a pair.
    let (first, second) = tokio::join!(
        walk(&server, &routes, &one, &two, each, SEED),
        walk(&server, &routes, &two, &one, each, SEED + 1),
    );
    one.is_whole(&server).await;
    two.is_whole(&server).await;

    for seen in [&first, &second] {
        let _ = writeln!(
            std::io::stderr(),
            "{} calls of {} routes from seed {SEED}; {} pairs, {} of them absent; {:?}; {:?}",
            seen.calls,
            seen.routes.len(),
            seen.twins,
            seen.absent,
            seen.statuses,
            seen.credentials
        );
        let missed: Vec<_> = routes
            .iter()
            .map(Route::name)
            .filter(|name| !seen.routes.contains(name))
            .collect();
        assert!(missed.is_empty(), "never called: {missed:?}");
        assert!(
            seen.twins > each / 10 && seen.absent > each / 50,
            "{seen:?}"
        );
        assert_eq!(seen.credentials.len(), 8, "{seen:?}");
        assert!(seen.found.len() > 40, "{:?}", seen.found);
    }
}

/// Calls random routes as one account and as nobody.
async fn walk(
    server: &Server,
    routes: &[Route],
    own: &Stock,
    other: &Stock,
    calls: usize,
    seed: u64,
) -> Seen {
    let mut random = Random::of(seed);
    let mut seen = Seen::default();
    let (own_secrets, others_secrets) = (own.secrets(), other.secrets());
    while seen.calls < calls {
        // Every route in turn, so that none is left out.
        let route = &routes[(seen.calls + random.index(2)) % routes.len()];
        let credential = credential(&mut random, own, route);
        let (kind, credential) = credential;
        let is_own = own.credentials.iter().any(|one| one.kind == kind);
        let owner = match random.index(8) {
            0..3 => Owner::Own,
            3..7 => Owner::Other,
            _ => Owner::Garbage,
        };
        let ask = Ask {
            server,
            route,
            credential: credential.as_ref(),
            is_own,
            // Nobody in particular may read nothing of anybody.
            secrets: match is_own {
                true => vec![&others_secrets],
                false => vec![&others_secrets, &own_secrets],
            },
        };
        // Both calls of a pair are made from the same numbers.
        let numbers = Random::of(random.next());
        let made = |owner| {
            let maker = Maker::new(numbers.clone(), own, other, owner);
            maker.call(route, ask.credential)
        };
        let call = made(owner);
        let answer = ask.send(&call, &mut seen).await;
        *seen.credentials.entry(kind).or_default() += 1;
        seen.routes.insert(route.name());
        if is_own && owner == Owner::Own && answer.status < 400 {
            seen.found.insert(route.name());
        }
        if owner == Owner::Other && ask.is_comparable(&call) {
            let twin = made(Owner::Nobody);
            let nobodys = ask.send(&twin, &mut seen).await;
            seen.twins += 1;
            seen.absent += usize::from(answer.status == 404);
            let (theirs, nobodys) = (told(&answer, &call, &twin), told(&nobodys, &twin, &twin));
            assert_eq!(
                theirs, nobodys,
                "{kind} {} {}: {}",
                route.method, call.target, twin.target
            );
        }
    }
    seen
}

/// One call's circumstances.
struct Ask<'a> {
    server: &'a Server,
    route: &'a Route,
    credential: Option<&'a Credential>,
    /// Whether the account asks, and not nobody in particular.
    is_own: bool,
    /// What must not be in the answer.
    secrets: Vec<&'a Vec<String>>,
}

impl Ask<'_> {
    /// Whether an answer depends on what the call names and on nothing that goes on meanwhile.
    fn is_comparable(&self, call: &Call) -> bool {
        // Attempts to sign in are counted by the minute, and sockets while they close.
        let counted = ["/api/session", "/api/ws"];
        !call.named.is_empty() && !counted.contains(&self.route.path.as_str())
    }

    async fn send(&self, call: &Call, seen: &mut Seen) -> Answer {
        seen.calls += 1;
        let answer = tokio::time::timeout(PATIENCE, async {
            match self.route.path.as_str() {
                "/api/ws" => self.listen(call).await,
                "/api/v2/events" if self.route.method == "GET" => self.follow(call).await,
                _ => self.server.send(&call.request).await,
            }
        });
        let place = || format!("{} {}", self.route.method, call.target);
        let answer = answer
            .await
            .unwrap_or_else(|_| panic!("{}: no answer", place()));
        let answer = answer.unwrap_or_else(|error| panic!("{}: {error}", place()));
        *seen.statuses.entry(answer.status).or_default() += 1;
        assert!(
            answer.status < 500,
            "{}: {} {}",
            place(),
            answer.status,
            answer.text()
        );
        // What a call names itself may be told back to it.
        let mut text = answer.text();
        for (name, value) in answer.headers.iter() {
            text.push_str(&format!("\n{name}: {value}"));
        }
        // The holder of a link may follow it, so what it leads to is part of the answer.
        if let Some(link) = link(&answer) {
            let file = self.server.send(&Request::get(link)).await.unwrap();
            assert_eq!(file.status, 200, "{}: {link}", place());
            text.push_str(&file.text());
        }
        seen.told.extend(call.named.iter().cloned());
        let known = seen.told.iter().filter(|_| self.is_own);
        for name in longest_first(call.named.iter().chain(known)) {
            text = text.replace(name, "");
        }
        for secret in self.secrets.iter().copied().flatten() {
            assert!(
                !text.contains(secret.as_str()),
                "{}: {secret} in {text}",
                place()
            );
        }
        answer
    }

    /// Opens the stream of an account and hears its first word, which is the answer then: the stream has no end.
    async fn follow(&self, call: &Call) -> std::io::Result<Answer> {
        let address = self.server.address;
        let mut connection = Connection::open(address).await?;
        connection.write(&call.request.bytes(address)).await?;
        let (status, headers) = connection.head().await?;
        if status != 200 {
            return self.server.send(&call.request).await;
        }
        let body = connection.chunk().await?.unwrap_or_default();
        Ok(Answer {
            status,
            headers,
            body,
        })
    }

    /// Opens a socket and hears its first word, which is the answer then.
    async fn listen(&self, call: &Call) -> std::io::Result<Answer> {
        let (status, body) = match Socket::open(self.server.address, call.request.clone()).await {
            Ok(mut socket) => match socket.next().await? {
                Message::Json(message) => (101, message.to_string()),
                other @ (Message::Binary(_) | Message::Closed(_)) => panic!("{other:?}"),
            },
            Err(error) => (error.to_string().parse().expect("a status"), String::new()),
        };
        Ok(Answer {
            status,
            headers: Headers::default(),
            body: body.into_bytes(),
        })
    }
}

/// Who asks: one of the account's credentials, or nothing that counts.
fn credential(
    random: &mut Random,
    own: &Stock,
    route: &Route,
) -> (&'static str, Option<Credential>) {
    // A cookie that signs out is none any more.
    let known: Vec<&Credential> = own
        .credentials
        .iter()
        .filter(|one| one.kind != "cookie" || !route.is("DELETE", "/api/session"))
        .collect();
    match random.index(10) {
        0 => ("nothing", None),
        1 => {
            let mut forged = (*random.pick(&known).unwrap()).clone();
            let text = &mut forged.header.1;
            let last = text.pop().unwrap();
            text.push(if last == 'a' { 'b' } else { 'a' });
            ("forged", Some(forged))
        }
        2 => {
            let empty = Credential {
                kind: "empty",
                header: ("Authorization", "Bearer ".to_owned()),
            };
            ("empty", Some(empty))
        }
        _ => {
            let one = (*random.pick(&known).unwrap()).clone();
            (one.kind, Some(one))
        }
    }
}

/// Where an answer leads: the path of a signed link.
fn link(answer: &Answer) -> Option<&str> {
    let location = answer.header("location")?;
    let path = location.find(SIGNED)?;
    Some(&location[path..])
}

/// Status, headers and body, with the names of the first call replaced by those of the second, without what differs from
/// request to request: ids and hashes that were made for it, and times.
fn told(answer: &Answer, call: &Call, twin: &Call) -> (u16, Vec<String>, String) {
    let varies = ["date", "x-service-request-id", "x-comfy-request-id"];
    let mut pairs: Vec<(&String, &String)> = call.named.iter().zip(&twin.named).collect();
    pairs.sort_by_key(|(theirs, _)| std::cmp::Reverse(theirs.len()));
    let renamed = |text: &str| {
        let mut text = text.to_owned();
        for (theirs, nobodys) in &pairs {
            text = text.replace(theirs.as_str(), nobodys.as_str());
        }
        text
    };
    let headers = answer.headers.iter();
    let headers = headers.filter(|(name, _)| !varies.contains(name));
    if answer.status == 404 {
        // To the byte.
        let headers = headers.map(|(name, value)| format!("{name}: {value}"));
        return (404, headers.collect(), answer.text());
    }
    if answer.status < 300 {
        // A list of one's own may have grown meanwhile.
        return (answer.status, Vec::new(), String::new());
    }
    // A link to a file of the caller's own is as good under either name; `send` has looked behind both.
    let token = link(answer).and_then(|link| link.split('/').nth(2));
    let headers = headers.map(|(name, value)| {
        let value = token.map_or_else(|| value.to_owned(), |token| value.replace(token, "<token>"));
        format!("{name}: {}", renamed(&value))
    });
    (
        answer.status,
        headers.collect(),
        without_ids(&renamed(&answer.text())),
    )
}

/// Ids and hashes that were made anew are all the same.
fn without_ids(text: &str) -> String {
    let mut words = String::new();
    for word in text.split_inclusive(|letter: char| !letter.is_ascii_hexdigit() && letter != '-') {
        let (name, end) = word.split_at(
            word.trim_end_matches(|letter: char| !letter.is_ascii_hexdigit())
                .len(),
        );
        words.push_str(if [36, 64].contains(&name.len()) {
            "<id>"
        } else {
            name
        });
        words.push_str(end);
    }
    words
}

/// Names that say something, longer ones before those that are part of them.
fn longest_first<'a>(names: impl Iterator<Item = &'a String>) -> Vec<&'a String> {
    let mut names: Vec<&String> = names.filter(|name| name.len() >= 8).collect();
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    names
}
