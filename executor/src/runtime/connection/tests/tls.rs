//! Servers whose certificates only `mcp.ca_bundle` makes trusted.

use std::net::SocketAddr;
use std::path::Path;

use super::http::{Remote, TOOLS};
use super::*;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::server::TlsStream;

/// A listener that speaks TLS; a client that doesn't is dropped.
struct Safe {
    tcp: TcpListener,
    tls: TlsAcceptor,
}

impl Safe {
    async fn one(&self) -> Option<(TlsStream<TcpStream>, SocketAddr)> {
        let (stream, from) = self.tcp.accept().await.unwrap();
        Some((self.tls.accept(stream).await.ok()?, from))
    }
}

impl axum::serve::Listener for Safe {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        loop {
            if let Some(accepted) = self.one().await {
                return accepted;
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

/// A listener with a certificate of its own, and that certificate.
async fn listen() -> (Safe, String, String) {
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = tcp.local_addr().unwrap().to_string();
    (Safe { tcp, tls: TlsAcceptor::from(Arc::new(config)) }, host, made.cert.pem())
}

async fn dial(transport: &str, url: &str, context: &Context, terms: &Terms) -> Outcome {
    let launch = json!({"transport": transport, "url": url, "headers": {}});
    let (events, _received) = mpsc::channel(64);
    connect(&server(launch, json!({"timeout_seconds": 10.0})), context, terms, events).await
}

fn bundle(directory: &Path, text: &str) -> (Context, Terms) {
    std::fs::write(directory.join("ca.pem"), text).unwrap();
    (Context::new(BTreeMap::new(), directory), Terms { ca_bundle: Some("ca.pem".to_owned()), era: None })
}

#[tokio::test]
async fn a_certificate_of_ones_own_is_trusted_through_the_bundle_only() {
    let (listener, host, pem) = listen().await;
    let (_remote, server) = Remote::over(listener, TOOLS);
    let url = format!("https://{host}/mcp");
    let directory = tempfile::tempdir().unwrap();
    let (context, terms) = bundle(directory.path(), &format!("# ours\n{pem}"));
    let error = dial("streamable_http", &url, &context, &Terms::default()).await.unwrap_err().to_string();
    assert!(error.contains("UnknownIssuer") && error.contains("goes into `mcp.ca_bundle`"), "{error}");
    let (connection, observed) = dial("streamable_http", &url, &context, &terms).await.unwrap();
    assert_eq!(observed.tools.len(), 3);
    connection.close(Instant::now() + Duration::from_secs(5)).await;

    // Another certificate in the file counts from the next connection on.
    let (_, _, other) = listen().await;
    bundle(directory.path(), &other);
    let error = dial("streamable_http", &url, &context, &terms).await.unwrap_err().to_string();
    assert!(error.contains("mcp.ca_bundle"), "{error}");
    bundle(directory.path(), &format!("{other}{pem}"));
    assert!(dial("streamable_http", &url, &context, &terms).await.is_ok());

    let error = dial("streamable_http", &format!("http://{host}/mcp"), &context, &terms).await.unwrap_err().to_string();
    assert!(error.contains("its `url` starts with `https://`"), "{error}");
    server.abort();
}

#[tokio::test]
async fn every_remote_transport_trusts_the_same() {
    use futures::SinkExt as _;
    use tokio_tungstenite::tungstenite::Message;
    let directory = tempfile::tempdir().unwrap();
    for (transport, scheme) in [("sse", "https"), ("websocket", "wss")] {
        let (listener, host, pem) = listen().await;
        let (context, mut terms) = bundle(directory.path(), &pem);
        terms.era = Some(Era::Session);
        let url = format!("{scheme}://{host}/mcp");
        let serve = async {
            let (mut stream, _) = listener.one().await.unwrap();
            if transport == "websocket" {
                let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
                socket.send(Message::Close(None)).await.unwrap();
            } else {
                stream.write_all(b"HTTP/1.1 418 Teapot\r\ncontent-length: 0\r\n\r\n").await.unwrap();
                stream.flush().await.unwrap();
            }
        };
        let (outcome, ()) = tokio::join!(dial(transport, &url, &context, &terms), serve);
        let error = outcome.unwrap_err().to_string();
        // Both were understood, so TLS was there.
        assert!(error.contains("HTTP 418") || error.contains("closed the"), "{error}");
    }
}

#[tokio::test]
async fn a_bundle_that_cannot_be_used_is_told_with_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let damaged = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (text, expected) in [
        ("", "there is no certificate in it"),
        ("hello", "there is no certificate in it"),
        ("-----BEGIN CERTIFICATE-----\n???\n-----END CERTIFICATE-----\n", "it is no PEM file"),
        (damaged, "(ca.pem) can't be used: "),
    ] {
        let (context, terms) = bundle(directory.path(), text);
        let error = dial("streamable_http", "https://127.0.0.1:1/", &context, &terms).await.unwrap_err();
        let said = error.to_string();
        assert!(said.starts_with("the certificates of `mcp.ca_bundle` (ca.pem) can't be used: "), "{said}");
        assert!(said.contains(expected), "{said}");
        assert!(!error.is_worth_retrying());
    }
    let context = Context::new(BTreeMap::new(), directory.path());
    for (path, expected) in [("missing.pem", "No such file"), (".", "no regular file")] {
        let terms = Terms { ca_bundle: Some(path.to_owned()), era: None };
        let error = dial("sse", "https://127.0.0.1:1/", &context, &terms).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
