//! `token issue`: a JSON Web Token for a workspace, signed with the secret that the servers verify with.
//!
//! Signed by the command itself: the secret comes from its own configuration, and no server has to be asked to use it.

use accounts::{AccountId, Scopes};
use admin_http::wire::Request;
use clap::{Arg, ArgMatches, Command};
use identity::{IssueError, JwtConfig};
use jiff::{SignedDuration, Timestamp};
use secrecy::ExposeSecret;

use super::client::Client;
use super::commands::scopes;
use super::flags::{flag, group, seconds};
use crate::config::{Access, Settings};
use crate::program::{self, Failure};

/// The subcommand `token`.
pub(super) fn command() -> Command {
    let workspace = Arg::new("workspace")
        .long("workspace")
        .value_name("ACCOUNT")
        .required(true)
        .help("The id of the account, which the router calls a workspace");
    let lifetime = flag("ttl", "TIME", "How long the token is valid").default_value("1h");
    let issue = Command::new("issue")
        .about("Makes a JSON Web Token signed with `jwt_secret` and prints it")
        .arg(workspace)
        .arg(lifetime.value_parser(seconds))
        .arg(flag("scopes", "SCOPES", "").help(format!(
            "The scopes, separated by commas, of: {}; by default all but admin",
            Scopes::all()
        )));
    group("token", "Makes JSON Web Tokens").subcommand(issue)
}

/// What tokens are signed as.
pub(super) fn signing(settings: &mut Settings) -> Result<JwtConfig, Failure> {
    let access = Access::read(settings)?;
    access.jwt.ok_or_else(|| Failure {
        exit_code: 2,
        message: "no JSON Web Tokens are taken here; set `jwt_secret` (EASEL_JWT_SECRET), the same as the server's"
            .to_owned(),
    })
}

/// Prints a token alone on standard output. An account that is not there gets none: it would count nowhere.
pub(super) async fn issue(
    client: &mut Client<'_>,
    arguments: &ArgMatches,
    config: &JwtConfig,
) -> Result<(), Failure> {
    let id = arguments.get_one::<String>("workspace").cloned();
    let id = id.expect("the command requires it");
    let lifetime = arguments.get_one::<u32>("ttl").copied();
    let lifetime = SignedDuration::from_secs(lifetime.expect("it has a default").into());
    let scopes = scopes(arguments)?;
    client.ask(Request::Account { id: id.clone() }).await??;
    let account: AccountId = id.parse().expect("the account is there");
    let token = identity::issue(config, &account, scopes, Timestamp::now(), lifetime);
    let token = token.map_err(|error| match &error {
        IssueError::NoSecret => Failure::usage(&error),
        IssueError::Signing(_) => Failure::fault(&error),
    })?;
    program::print(&format!("{}\n", token.expose_secret()));
    Ok(())
}
