//! A program on a pseudo-terminal: what it writes is what a user would see, and what a test types is what a user would type.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// The longest wait for a text.
const PATIENCE: Duration = Duration::from_secs(60);

/// The other side of a program's terminal.
#[derive(Debug)]
pub struct Terminal {
    child: Child,
    reader: tokio::fs::File,
    writer: tokio::fs::File,
    /// Everything that was shown so far.
    pub shown: String,
}

impl Terminal {
    /// Starts a program whose three streams are a terminal of 24 rows and 100 columns.
    ///
    /// # Errors
    /// If there is no pseudo-terminal, or the program does not start.
    pub fn start(mut command: Command) -> io::Result<Self> {
        // Held by this process alone: a terminal is closed once nobody has its other side.
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let size = Winsize {
            ws_row: 24,
            ws_col: 100,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&master, size)?;
        let name = ptsname(&master, Vec::new())?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave: OwnedFd = rustix::fs::open(&name, flags, Mode::empty())?;
        let child = command
            .stdin(Stdio::from(slave.try_clone()?))
            .stdout(Stdio::from(slave.try_clone()?))
            .stderr(Stdio::from(slave))
            .kill_on_drop(true)
            .spawn()?;
        // The command holds copies of the streams, which would keep the terminal open after the program ended.
        drop(command);
        let master = File::from(master);
        Ok(Self {
            child,
            reader: tokio::fs::File::from_std(master.try_clone()?),
            writer: tokio::fs::File::from_std(master),
            shown: String::new(),
        })
    }

    /// The process id.
    ///
    /// # Panics
    /// If the program was waited for.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id().expect("the program was not waited for")
    }

    /// Waits until a text was shown.
    ///
    /// # Panics
    /// If it does not come.
    pub async fn wait_for(&mut self, text: &str) {
        loop {
            if self.shown.contains(text) {
                return;
            }
            let more = timeout(PATIENCE, self.read()).await;
            let more = more.unwrap_or_else(|_| panic!("no {text:?} in {:?}", self.shown));
            assert!(more, "no {text:?} in {:?}", self.shown);
        }
    }

    /// Types a text.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub async fn write(&mut self, text: &str) -> io::Result<()> {
        self.writer.write_all(text.as_bytes()).await?;
        self.writer.flush().await
    }

    /// Reads to the end of the program.
    ///
    /// # Errors
    /// If the program cannot be waited for.
    ///
    /// # Panics
    /// If it does not end.
    pub async fn end(&mut self) -> io::Result<ExitStatus> {
        while timeout(PATIENCE, self.read())
            .await
            .unwrap_or_else(|_| panic!("no end of {:?}", self.shown))
        {}
        self.child.wait().await
    }

    /// Closes the terminal, tells the program so as the system tells the first program of a terminal (`SIGHUP`), and waits until
    /// it has ended.
    ///
    /// # Errors
    /// If the program cannot be waited for.
    ///
    /// # Panics
    /// If the program does not take the signal, or does not end.
    pub async fn close(self) -> io::Result<ExitStatus> {
        let id = self.pid().to_string();
        let Self {
            mut child,
            reader,
            writer,
            ..
        } = self;
        drop((reader, writer));
        let told = Command::new("kill").args(["-s", "HUP", &id]).status();
        assert!(told.await?.success(), "the program takes signals");
        let ended = timeout(PATIENCE, child.wait()).await;
        ended.expect("the program ends when its terminal closes")
    }

    /// Reads what is there; whether there was something.
    async fn read(&mut self) -> bool {
        let mut buffer = vec![0; 64 * 1024];
        // A terminal whose program has ended answers with an error.
        let read = self.reader.read(&mut buffer).await.unwrap_or(0);
        self.shown
            .push_str(&String::from_utf8_lossy(&buffer[..read]));
        read > 0
    }
}
