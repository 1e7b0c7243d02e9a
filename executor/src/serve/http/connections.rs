//! Connections of clients: so many at a time, and none that holds its place without asking for anything.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::serve::Listener;
use futures::future::{Either, select};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::problem::Problem;

/// Most connections at the same time, where the process may have files enough.
const CONNECTIONS_MAX: usize = 2048;
/// How long a connection may take for the head of a request, from its beginning or from the answer before. Longer than
/// what proxies keep an idle connection for (60 s), so that none sends a request into one that is being closed.
const HEAD_MAX: Duration = Duration::from_secs(75);
/// Largest head of a request; beyond it, or with more headers than hyper takes (100), a request is answered with 431.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Most connections that are being told that there is no place; beyond them they are closed without a word.
const REFUSED_MAX: usize = 64;
/// How long one that was told may take to hear it.
const REFUSED_FOR: Duration = Duration::from_secs(1);

/// Most connections for a process that may have so many files open: servers, files and the socket need some too.
pub(super) fn most() -> usize {
    #[cfg(unix)]
    if let Ok((soft, _)) = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE) {
        return usize::try_from(soft / 2).map_or(CONNECTIONS_MAX, |half| half.clamp(1, CONNECTIONS_MAX));
    }
    CONNECTIONS_MAX
}

/// Serves each connection until `stop`; then none is taken any more, and requests in flight are still answered. One that
/// comes when there are `most` is told so at once, so that whoever balances load sends it elsewhere.
pub(super) async fn serve<L: Listener>(mut listener: L, router: axum::Router, most: usize, stop: CancellationToken) {
    let (places, refusals) = (Arc::new(Semaphore::new(most)), Arc::new(Semaphore::new(REFUSED_MAX)));
    let open = TaskTracker::new();
    // Whether it was told that there is no place, since there was one last.
    let mut told = false;
    loop {
        let stream = tokio::select! {
            (stream, _) = listener.accept() => stream,
            () = stop.cancelled() => break,
        };
        if let Ok(place) = places.clone().try_acquire_owned() {
            told = false;
            let (router, stop) = (router.clone(), stop.clone());
            open.spawn(async move {
                connection(stream, router, stop).await;
                drop(place);
            });
            continue;
        }
        if !std::mem::replace(&mut told, true) {
            tracing::warn!("{most} HTTP connections are open, which is the most; more are answered with 503");
        }
        if let Ok(place) = refusals.clone().try_acquire_owned() {
            tokio::spawn(async move {
                let _slow = tokio::time::timeout(REFUSED_FOR, refuse(stream, most)).await;
                drop(place);
            });
        }
    }
    drop(listener);
    open.close();
    open.wait().await;
}

/// One connection, to its end.
async fn connection<S>(stream: S, router: axum::Router, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_MAX).max_header_size(HEAD_BYTES_MAX);
    let served = std::pin::pin!(http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)));
    // A client that went away, was too slow or doesn't speak HTTP is no fault of ours, and has been told where it can be.
    match select(served, std::pin::pin!(stop.cancelled())).await {
        Either::Left(_ended) => {}
        Either::Right(((), mut served)) => {
            served.as_mut().graceful_shutdown();
            let _ended = served.await;
        }
    }
}

/// Says that there is no place, and reads what was asked: an answer is lost when its connection is closed on words unread.
async fn refuse<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, most: usize) -> std::io::Result<()> {
    let problem = Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        format!("{most} connections are open, which is the most; try again when some of them have ended"),
    );
    stream.write_all(problem.written().as_bytes()).await?;
    stream.shutdown().await?;
    let mut unread = [0; 1024];
    while stream.read(&mut unread).await? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use axum::routing::{get, post};
    use tokio::io::DuplexStream;
    use tokio::sync::mpsc;
    use tokio::time::Instant;

    use super::*;

    /// Connections in memory, so that a clock that stands still doesn't run past what the kernel has in hand.
    struct Memory(mpsc::Receiver<DuplexStream>);

    impl Listener for Memory {
        type Io = DuplexStream;
        type Addr = ();

        async fn accept(&mut self) -> (DuplexStream, ()) {
            match self.0.recv().await {
                Some(stream) => (stream, ()),
                None => std::future::pending().await,
            }
        }

        fn local_addr(&self) -> std::io::Result<()> {
            Ok(())
        }
    }

    struct Served {
        connect: mpsc::Sender<DuplexStream>,
        stop: CancellationToken,
        task: tokio::task::JoinHandle<()>,
    }

    fn served(most: usize) -> Served {
        let slow = || async {
            tokio::time::sleep(HEAD_MAX * 2).await;
            "slow"
        };
        let echo = |body: String| async move { body };
        let router = axum::Router::new().route("/", get(|| async { "ok" }).post(echo)).route("/slow", post(slow));
        let (connect, connections) = mpsc::channel(1);
        let stop = CancellationToken::new();
        Served { connect, stop: stop.clone(), task: tokio::spawn(serve(Memory(connections), router, most, stop)) }
    }

    impl Served {
        async fn open(&self) -> DuplexStream {
            let (ours, theirs) = tokio::io::duplex(1 << 20);
            self.connect.send(theirs).await.unwrap();
            ours
        }

        /// What is said on a connection until it is closed.
        async fn all(&self, asked: &str) -> String {
            let mut stream = self.open().await;
            stream.write_all(asked.as_bytes()).await.unwrap();
            rest(stream).await
        }
    }

    async fn rest(mut stream: DuplexStream) -> String {
        let mut said = Vec::new();
        stream.read_to_end(&mut said).await.unwrap();
        String::from_utf8(said).unwrap()
    }

    /// The next answer, whose body is known.
    async fn answer(stream: &mut DuplexStream, body: &str) {
        let mut said = String::new();
        while !said.ends_with(&format!("\r\n\r\n{body}")) {
            said.push(stream.read_u8().await.unwrap() as char);
        }
    }

    const GET: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    const LAST: &str = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

    #[tokio::test(start_paused = true)]
    async fn a_head_that_does_not_come_whole_is_waited_for_so_long() {
        let served = served(8);
        for half in ["", "GET / HTTP/1.1\r\nhost: x\r\nx-slow"] {
            let began = Instant::now();
            assert_eq!(served.all(half).await, "", "{half:?}");
            assert_eq!(began.elapsed(), HEAD_MAX, "{half:?}");
        }
        // Byte by byte it is no more.
        let (mut stream, began) = (served.open().await, Instant::now());
        stream.write_all(b"GET / HTTP/1.1\r\nx-slow: ").await.unwrap();
        while stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert!(began.elapsed() <= HEAD_MAX + Duration::from_secs(1), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_idles_is_closed_and_one_that_works_is_not() {
        let served = served(8);
        let mut stream = served.open().await;
        for _ in 0..3 {
            stream.write_all(GET.as_bytes()).await.unwrap();
            answer(&mut stream, "ok").await;
            tokio::time::sleep(HEAD_MAX - Duration::from_secs(1)).await;
        }
        // An answer may take its time, and so may a body.
        stream.write_all(b"POST /slow HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        answer(&mut stream, "slow").await;
        stream.write_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nh").await.unwrap();
        tokio::time::sleep(HEAD_MAX * 2).await;
        stream.write_all(b"i").await.unwrap();
        answer(&mut stream, "hi").await;
        let began = Instant::now();
        assert_eq!(rest(stream).await, "");
        assert_eq!(began.elapsed(), HEAD_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn one_too_many_is_told_and_a_place_is_free_again() {
        let served = served(2);
        let (mut first, _second) = (served.open().await, served.open().await);
        first.write_all(GET.as_bytes()).await.unwrap();
        answer(&mut first, "ok").await;
        let refused = served.all(LAST).await;
        assert!(refused.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{refused}");
        assert!(refused.contains("retry-after: 1\r\n") && refused.contains("2 connections are open"), "{refused}");
        drop(first);
        tokio::task::yield_now().await;
        while !served.all(LAST).await.starts_with("HTTP/1.1 200 OK\r\n") {
            tokio::task::yield_now().await;
        }
    }

    /// Those who are refused hold no place for long either, though they neither read nor go away.
    #[tokio::test(start_paused = true)]
    async fn whoever_is_refused_is_let_go() {
        let served = served(0);
        let mut held = Vec::new();
        for _ in 0..REFUSED_MAX {
            held.push(served.open().await);
        }
        assert_eq!(served.all("").await, "", "closed without a word");
        tokio::time::sleep(REFUSED_FOR * 2).await;
        assert!(served.all(LAST).await.starts_with("HTTP/1.1 503 "));
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_has_a_size_and_so_many_headers() {
        let served = served(8);
        let many: String = (0..101).map(|at| format!("x-{at}: y\r\n")).collect();
        let long = format!("x-long: {}\r\n", "y".repeat(HEAD_BYTES_MAX));
        for headers in [&many, &long] {
            let said = served.all(&format!("GET / HTTP/1.1\r\n{headers}\r\n")).await;
            assert!(said.starts_with("HTTP/1.1 431 "), "{said}");
        }
        let fits = &long[..HEAD_BYTES_MAX / 2];
        let said = served.all(&format!("GET / HTTP/1.1\r\nconnection: close\r\n{fits}\r\n\r\n")).await;
        assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_waits_for_requests_and_for_no_idle_connection() {
        let served = served(8);
        let (mut idle, mut busy, silent) = (served.open().await, served.open().await, served.open().await);
        idle.write_all(GET.as_bytes()).await.unwrap();
        answer(&mut idle, "ok").await;
        busy.write_all(b"POST /slow HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let began = Instant::now();
        served.stop.cancel();
        assert_eq!((rest(idle).await, rest(silent).await), (String::new(), String::new()));
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert!(rest(busy).await.ends_with("\r\n\r\nslow"));
        served.task.await.unwrap();
        assert_eq!(began.elapsed(), HEAD_MAX * 2 - Duration::from_secs(1));
    }
}
