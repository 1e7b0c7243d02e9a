//! `mcplan run`: where it listens, and who is let in.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use mcplan_compiler::plan::{Http, Plan};
use tokio::net::TcpListener;

use super::report::CouldNot;
use crate::runtime::secrets;
use crate::serve::http::Access;

/// The address that agents reach it at; `None` when it is to speak on stdin and stdout alone.
pub(super) fn address(argument: Option<&str>, stdio: bool, plan: &Plan) -> Result<Option<String>, CouldNot> {
    match (argument, &plan.serve.http) {
        (Some(argument), _) => Ok(Some(argument.to_owned())),
        (None, _) if stdio => Ok(None),
        (None, Some(http)) => Ok(Some(http.listen.clone())),
        (None, None) => Err(CouldNot::new(
            "nobody could reach it: run with --stdio, or with --listen 127.0.0.1:8765, or write `serve: {http: {listen: …}}`",
        )),
    }
}

/// Opens the listener.
pub(super) async fn open(address: &str, plan: &Plan, directory: &Path) -> Result<(TcpListener, Access), CouldNot> {
    let local = address.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let parsed: SocketAddr = local.as_deref().unwrap_or(address).parse().map_err(|_| {
        CouldNot::new(format!(
            "`{address}` is no address to listen on; write an address and a port, as in 127.0.0.1:8765"
        ))
    })?;
    let access = access(plan.serve.http.as_ref(), &parsed, directory)?;
    if !access.is_loopback && access.tokens.is_empty() {
        return Err(CouldNot::new(format!(
            "`{address}` can be reached from other machines, and no token protects it: set `serve.http.tokens`, or listen on 127.0.0.1"
        )));
    }
    let listener = TcpListener::bind(parsed).await;
    let listener = listener.map_err(|error| {
        CouldNot::new(format!(
            "{address} can't be listened on: {error}; name another port with --listen, or end what listens there"
        ))
    })?;
    Ok((listener, access))
}

fn access(http: Option<&Http>, address: &SocketAddr, directory: &Path) -> Result<Access, CouldNot> {
    let is_loopback = Access::loopback(address);
    let Some(http) = http else {
        return Ok(Access {
            tokens: BTreeMap::new(),
            admin: None,
            origins: Vec::new(),
            hosts: Vec::new(),
            is_loopback,
        });
    };
    let environment =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let environment = environment.collect();
    let sources = secrets::Sources { environment: &environment, directory };
    let opened = |field: String, token| {
        secrets::open_token(token, sources)
            .map_err(|why| CouldNot::new(format!("the listener stays closed: `{field}` {why}")))
    };
    let tokens = http
        .tokens
        .iter()
        .map(|(agent, token)| Ok((agent.clone(), opened(format!("serve.http.tokens.{agent}"), token)?)));
    let admin = http.admin_token.as_ref().map(|token| opened("serve.http.admin_token".to_owned(), token));
    Ok(Access {
        tokens: tokens.collect::<Result<_, CouldNot>>()?,
        admin: admin.transpose()?,
        origins: http.allowed_origins.clone(),
        hosts: http.allowed_hosts.clone(),
        is_loopback,
    })
}
