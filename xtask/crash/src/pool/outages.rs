//! How soon a dead worker gets no more jobs, and how soon it gets some again.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::Outcome;
use super::judge::Facts;
use super::rig::{self, Process, Program};

/// A dead worker is out by then, and back by then.
const OUT: Duration = Duration::from_secs(2);
const BACK: Duration = Duration::from_secs(5);

pub(super) async fn run(
    program: &Path,
    workers: &Path,
    folder: &Path,
    count: u64,
) -> io::Result<Outcome> {
    let mut processes = Vec::new();
    for _ in 0..2 {
        processes.push(Process::start(workers, folder)?);
    }
    let urls: Vec<String> = processes.iter().map(Process::url).collect();
    let program = Program::start(program, folder, &urls).await?;
    let client = program.client();
    let (mut out, mut back) = ([Duration::ZERO; 2], [Duration::ZERO; 2]);
    let mut jobs = Vec::new();
    for round in 0..count {
        // In turn: killed, and stopped, which still takes connections.
        let way = usize::from(round % 2 == 1);
        let victim = &mut processes[0];
        let url = victim.url();
        match way {
            0 => victim.kill().await?,
            _ => victim.signal("STOP").await?,
        }
        out[way] = out[way].max(client.until_state(&url, false).await?);
        // The other one does the work meanwhile.
        let name = format!("meanwhile-{round}");
        let mut job = client.submit(&name, &rig::waits(&name, 2)).await?;
        client.follow(&mut job).await?;
        jobs.push(job);
        match way {
            0 => victim.start_again()?,
            _ => victim.signal("CONT").await?,
        }
        back[way] = back[way].max(client.until_state(&url, true).await?);
    }
    rig::look_at_all(&client, &mut jobs).await?;
    let facts = Facts {
        runs: super::kills::runs(&processes)?,
        jobs,
        successes_stay: true,
        ..Facts::default()
    };
    let mut outcome = Outcome::of(&facts);
    outcome.figure("rounds", count);
    for (way, name) in ["killed", "stopped"].into_iter().enumerate() {
        let millis = |time: Duration| time.as_millis() as u64;
        outcome.figure(&format!("{name}: out after at most, ms"), millis(out[way]));
        outcome.figure(
            &format!("{name}: back after at most, ms"),
            millis(back[way]),
        );
        if out[way] > OUT {
            outcome.fail(format!(
                "a worker that was {name} was out after {:?}",
                out[way]
            ));
        }
        if back[way] > BACK {
            outcome.fail(format!(
                "a worker that was {name} was back after {:?}",
                back[way]
            ));
        }
    }
    Ok(outcome)
}
