//! From what is written to what is run. Pure. The one place of the defaults, each with its
//! reason here or at its constant in [`crate::limits`].

use super::check::{address, base_url, both, millis, whole, whole_seconds};
use super::edge::{edge, principal_locks_max, rates};
use super::problems::Problems;
use super::raw::{Raw, RawHome, RawLog, RawShutdown};
use super::security::{admin_tls, auth, names_certificates, peer_tls, tls};
use super::{Auth, Config, Home, Log, LogFormat};
use crate::http::Bounds;
use crate::lifecycle::StopPlan;
use crate::limits;
use crate::time::Millis;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use tracing_subscriber::EnvFilter;

/// Nobody else reaches a default installation, whose clients need not prove who they are.
const LISTEN: SocketAddr = loopback(8080);
const ADMIN_LISTEN: SocketAddr = loopback(9090);
const PEER_LISTEN: SocketAddr = loopback(7070);
/// Where the gateway is started, so that trying it out leaves nothing elsewhere.
const STATE_DIR: &str = "./state";
const HOME_EXAMPLE: &str = "http://etcd-1:2379 or https://etcd-1:2379";
/// Starts, stops, and what needs an operator; nothing that happens per request.
const LOG_FILTER: &str = "info";

const fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

/// What `raw` means; complete only if no problem was added.
pub(super) fn validate(raw: Raw, problems: &mut Problems) -> Config {
    let listen = address("listen", raw.listen.as_deref(), LISTEN, problems);
    let admin_listen = raw.admin_listen.as_deref();
    let admin_listen = address("admin_listen", admin_listen, ADMIN_LISTEN, problems);
    let peer_listen = raw.peer_listen.as_deref();
    let peer_listen = address("peer_listen", peer_listen, PEER_LISTEN, problems);
    check_listeners([listen, admin_listen, peer_listen], problems);
    let all_loopback = [listen, admin_listen, peer_listen]
        .iter()
        .all(|listener| listener.ip().is_loopback());
    if !all_loopback && raw.peer.secret_file.is_none() {
        let text = "is needed unless all three listeners are on loopback";
        problems.add("peer.secret_file", text);
    }
    let auth = auth(raw.auth, listen, problems);
    let tls = tls(raw.tls, auth.as_ref(), problems);
    let peer_tls = peer_tls(&raw.peer, problems);
    let edge = edge(&raw.limits, &raw.http, problems);
    let [principal_rates, address_rates] = rates(&raw.limits, problems);
    let group_ttl = group_ttl(raw.etcd.group_ttl_ms, edge.bounds, problems);
    let session = limits::SESSION_TTL_MIN..=limits::SESSION_TTL_MAX;
    Config {
        listen,
        admin_listen,
        peer_listen,
        peer_url: peer_url(
            raw.peer_url.as_deref(),
            [listen, peer_listen],
            names_certificates(&raw.peer),
            problems,
        ),
        state_dir: raw.state_dir.unwrap_or_else(|| PathBuf::from(STATE_DIR)),
        worker_threads: worker_threads(raw.worker_threads, problems),
        home: home(raw.home, problems),
        tls,
        admin_tls: admin_tls(raw.admin_tls, problems),
        peer_tls,
        auth: auth.unwrap_or(Auth::None { insecure: false }),
        peer_secret_file: raw.peer.secret_file,
        edge,
        principal_locks_max: principal_locks_max(&raw.limits, problems),
        principal_rates,
        address_rates,
        session_ttl: whole_seconds(
            "etcd.session_ttl_ms",
            raw.etcd.session_ttl_ms,
            limits::SESSION_TTL,
            session,
            problems,
        ),
        group_ttl,
        stop: stop(&raw.shutdown, problems),
        log: log(raw.log, problems),
    }
}

fn check_listeners(listeners: [SocketAddr; 3], problems: &mut Problems) {
    let [listen, admin_listen, peer_listen] = listeners;
    let named = [("admin_listen", admin_listen), ("peer_listen", peer_listen)];
    for (place, listener) in named {
        let twice = listener.port() != 0 && listener == listen;
        if twice || (place == "peer_listen" && listener.port() != 0 && listener == admin_listen) {
            problems.add(place, format!("{listener} has another listener already"));
        }
    }
}

/// By default where it listens; that says nothing to others when it listens everywhere.
fn peer_url(
    given: Option<&str>,
    [public, listen]: [SocketAddr; 2],
    is_tls: bool,
    problems: &mut Problems,
) -> Option<String> {
    let scheme = if is_tls { "https" } else { "http" };
    match given {
        Some(given) => {
            let example = format!("{scheme}://gateway-1:7070");
            let url = base_url("peer_url", given, &example, problems)?;
            if is_tls != url.starts_with("https:") {
                problems.add("peer_url", scheme_text(is_tls));
            }
            Some(url)
        }
        None if listen.port() == 0 => None,
        None if listen.ip().is_unspecified() => {
            let text = "is needed when peer_listen is no particular address of this machine";
            problems.add("peer_url", text);
            None
        }
        None if listen.ip().is_loopback() && !public.ip().is_loopback() => {
            let text = "is needed: peer_listen is on loopback, where gateways on other machines \
                        do not reach this one";
            problems.add("peer_url", text);
            None
        }
        None => Some(format!("{scheme}://{listen}")),
    }
}

/// Why the scheme does not fit.
fn scheme_text(is_tls: bool) -> &'static str {
    if is_tls {
        "must begin with https://, such as https://gateway-1:7070: `[peer]` has certificates, so \
         gateways speak TLS with each other"
    } else {
        "must begin with http://, such as http://gateway-1:7070, unless `[peer]` has certificates \
         (cert, key and cacert), with which gateways speak TLS with each other"
    }
}

/// By default one per processor: the work never waits for a disk.
fn worker_threads(given: Option<u64>, problems: &mut Problems) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let allowed = 1..=limits::WORKER_THREADS_MAX;
    whole("worker_threads", given, processors, allowed, problems)
}

fn home(raw: RawHome, problems: &mut Problems) -> Home {
    if raw.endpoints.is_empty() {
        let text = "is needed: the URLs of the etcd cluster that holds the shard map";
        problems.add("home.endpoints", text);
    }
    let endpoints: Vec<String> = raw
        .endpoints
        .iter()
        .filter_map(|given| base_url("home.endpoints", given, HOME_EXAMPLE, problems))
        .collect();
    let tls = endpoints
        .iter()
        .filter(|url| url.starts_with("https:"))
        .count();
    if tls > 0 && tls < endpoints.len() {
        problems.add("home.endpoints", "must be all http or all https");
    }
    let identity = both(("home.cert", "home.key"), (raw.cert, raw.key), problems);
    if tls == 0 && !endpoints.is_empty() {
        for (place, given) in [
            ("home.cacert", raw.cacert.is_some()),
            ("home.cert", identity.is_some()),
        ] {
            if given {
                problems.add(place, "is of no use: home.endpoints are http, not https");
            }
        }
    }
    Home {
        endpoints,
        cacert: raw.cacert,
        identity,
        user: both(
            ("home.user", "home.password_file"),
            (raw.user, raw.password_file),
            problems,
        ),
    }
}

fn group_ttl(given: Option<u64>, bounds: Bounds, problems: &mut Problems) -> Millis {
    let place = "etcd.group_ttl_ms";
    let allowed = limits::SESSION_TTL_MAX..=limits::CONFIGURED_MAX;
    let ttl = whole_seconds(place, given, limits::GROUP_TTL, allowed, problems);
    // A new lease must be able to outlast a promise of the longest TTL with time to prove it.
    let least = bounds.ttl_max + Millis::from_ms(bounds.ttl_max.as_ms().div_ceil(2));
    if ttl < least {
        let text = format!(
            "must be at least 1.5 × limits.ttl_ms_max ({})",
            least.as_ms()
        );
        problems.add(place, text);
    }
    ttl
}

fn stop(raw: &RawShutdown, problems: &mut Problems) -> StopPlan {
    let mut phase = |place, given, default| {
        let allowed = Millis::ZERO..=limits::CONFIGURED_MAX;
        millis(place, given, default, allowed, problems)
    };
    let hand_over = raw.hand_over_ms;
    StopPlan {
        drain: phase("shutdown.drain_ms", raw.drain_ms, limits::DRAIN_TIME),
        hand_over: phase("shutdown.hand_over_ms", hand_over, limits::HAND_OVER_TIME),
        finish: phase("shutdown.finish_ms", raw.finish_ms, limits::FINISH_TIME),
    }
}

/// By default as its reader wants it: text on a terminal, JSON for whatever collects it.
fn log(raw: RawLog, problems: &mut Problems) -> Log {
    let format = match raw.format.as_deref() {
        None | Some("auto") => LogFormat::Auto,
        Some("text") => LogFormat::Text,
        Some("json") => LogFormat::Json,
        Some(_) => {
            problems.add("log.format", "allowed are \"auto\", \"text\" and \"json\"");
            LogFormat::Auto
        }
    };
    let filter = raw.filter.unwrap_or_else(|| LOG_FILTER.to_owned());
    if let Err(error) = EnvFilter::try_new(&filter) {
        problems.add("log.filter", error.to_string());
    }
    Log { format, filter }
}
