//! From what is written to what is run. Pure. The one place of the defaults, each with its
//! reason here or at its constant in [`crate::limits`].

use super::check::{address, base_url, both, millis, whole, whole_seconds};
use super::problems::Problems;
use super::raw::{
    Raw, RawAdminTls, RawAuth, RawHome, RawHttp, RawLimits, RawLog, RawPeer, RawShutdown, RawTls,
};
use super::{Auth, Config, Home, Log, LogFormat};
use crate::auth::AuthMode;
use crate::http::{Bounds, ConnectionsMax, EdgeSettings, Timeouts};
use crate::lifecycle::StopPlan;
use crate::limits;
use crate::time::Millis;
use crate::tls::{ClientFiles, ServerFiles};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use tracing_subscriber::EnvFilter;

/// Nobody else reaches a default installation, whose clients need not prove who they are.
const LISTEN: SocketAddr = loopback(8080);
const ADMIN_LISTEN: SocketAddr = loopback(9090);
const PEER_LISTEN: SocketAddr = loopback(7070);
/// Where the gateway is started, so that trying it out leaves nothing elsewhere.
const STATE_DIR: &str = "./state";
/// Starts, stops, and what needs an operator; nothing that happens per request.
const LOG_FILTER: &str = "info";

const AT_LEAST_1_MS: Millis = Millis::from_ms(1);

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
    let peer_tls = peer_tls(&raw.peer, problems);
    let edge = edge(&raw.limits, &raw.http, problems);
    let group_ttl = group_ttl(raw.etcd.group_ttl_ms, edge.bounds, problems);
    let session = limits::SESSION_TTL_MIN..=limits::SESSION_TTL_MAX;
    Config {
        listen,
        admin_listen,
        peer_listen,
        peer_url: peer_url(
            raw.peer_url.as_deref(),
            [listen, peer_listen],
            peer_tls.is_some(),
            problems,
        ),
        state_dir: raw.state_dir.unwrap_or_else(|| PathBuf::from(STATE_DIR)),
        worker_threads: worker_threads(raw.worker_threads, problems),
        home: home(raw.home, problems),
        tls: tls(raw.tls, &auth, problems),
        admin_tls: admin_tls(raw.admin_tls, problems),
        peer_tls,
        auth,
        peer_secret_file: raw.peer.secret_file,
        edge,
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
        Some(given) => base_url("peer_url", given, &[scheme], problems),
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
        .filter_map(|given| base_url("home.endpoints", given, &["http", "https"], problems))
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

/// Clients are asked for certificates where those count.
fn tls(raw: RawTls, auth: &Auth, problems: &mut Problems) -> Option<ServerFiles> {
    let (wanted, needed) = match auth {
        Auth::None { .. } => (false, false),
        Auth::Known { mode, .. } => mode.client_certificates(),
    };
    let own = both(("tls.cert", "tls.key"), (raw.cert, raw.key), problems);
    if wanted && raw.client_ca.is_none() {
        let text = "is needed: the authorities of the clients' certificates, for this auth.mode";
        problems.add("tls.client_ca", text);
    }
    if raw.client_ca.is_some() && !wanted {
        let text = "is of use only with auth.mode = \"mtls\" or \"tokens_or_mtls\"";
        problems.add("tls.client_ca", text);
    }
    if own.is_none() && (wanted || raw.client_ca.is_some()) {
        problems.add(
            "tls.cert",
            "is needed, with tls.key: certificates are shown over TLS",
        );
    }
    let (cert, key) = own?;
    Some(ServerFiles {
        cert,
        key,
        client_ca: raw.client_ca,
        client_cert_needed: needed,
    })
}

fn admin_tls(raw: RawAdminTls, problems: &mut Problems) -> Option<ServerFiles> {
    let places = ("admin_tls.cert", "admin_tls.key");
    let (cert, key) = both(places, (raw.cert, raw.key), problems)?;
    Some(ServerFiles {
        cert,
        key,
        client_ca: None,
        client_cert_needed: false,
    })
}

/// Each gateway shows its certificate where it listens and where it dials, and checks those of the
/// others.
fn peer_tls(raw: &RawPeer, problems: &mut Problems) -> Option<(ServerFiles, ClientFiles)> {
    let own = (raw.cert.clone(), raw.key.clone());
    let own = both(("peer.cert", "peer.key"), own, problems);
    let places = ("peer.cert", "peer.cacert");
    let ((cert, key), cacert) = both(places, (own, raw.cacert.clone()), problems)?;
    let server = ServerFiles {
        cert: cert.clone(),
        key: key.clone(),
        client_ca: Some(cacert.clone()),
        client_cert_needed: true,
    };
    Some((server, ClientFiles { cacert, cert, key }))
}

/// There is no default: that nobody proves who they are must be said.
fn auth(raw: RawAuth, listen: SocketAddr, problems: &mut Problems) -> Auth {
    let insecure = raw.insecure.unwrap_or(false);
    let mode = raw.mode.as_deref();
    if let Some(mode) = mode.and_then(AuthMode::of) {
        if insecure {
            problems.add("auth.insecure", "is of use only with auth.mode = \"none\"");
        }
        if let Some(principals) = raw.principals_file {
            return Auth::Known { mode, principals };
        }
        let text = "is needed: the file with the principals; `gateway token --help` shows one";
        problems.add("auth.principals_file", text);
        return Auth::None { insecure };
    }
    if raw.principals_file.is_some() {
        let text = "is of no use with this auth.mode";
        problems.add("auth.principals_file", text);
    }
    match mode {
        Some("none") if insecure || listen.ip().is_loopback() => {}
        Some("none") => problems.add(
            "auth.mode",
            "\"none\" is allowed only with `listen` on loopback, or with auth.insecure = true",
        ),
        Some(_) => problems.add(
            "auth.mode",
            "allowed are \"none\", \"tokens\", \"mtls\" and \"tokens_or_mtls\"",
        ),
        None => problems.add(
            "auth.mode",
            "is needed: \"tokens\"; or \"none\", which lets everybody who reaches `listen` do \
             everything",
        ),
    }
    Auth::None { insecure }
}

fn edge(limits: &RawLimits, http: &RawHttp, problems: &mut Problems) -> EdgeSettings {
    let bounds = bounds(limits, problems);
    let mut timeout = |place, given, default| {
        let allowed = AT_LEAST_1_MS..=limits::CONFIGURED_MAX;
        millis(place, given, default, allowed, problems)
    };
    let defaults = Timeouts::default();
    let (header, body) = (http.header_timeout_ms, http.body_timeout_ms);
    let (idle, write) = (http.idle_timeout_ms, http.write_timeout_ms);
    let timeouts = Timeouts {
        header: timeout("http.header_timeout_ms", header, defaults.header),
        body: timeout("http.body_timeout_ms", body, defaults.body),
        idle: timeout("http.idle_timeout_ms", idle, defaults.idle),
        write: timeout("http.write_timeout_ms", write, defaults.write),
    };
    // A connection must not count as idle while its request is being answered.
    let longest = timeouts.body + bounds.wait_max + limits::ANSWER_MAX;
    if timeouts.idle <= longest || timeouts.idle <= timeouts.header {
        let text = format!(
            "must be longer than http.header_timeout_ms, and than http.body_timeout_ms + \
             limits.wait_ms_max + {} = {}",
            limits::ANSWER_MAX.as_ms(),
            longest.as_ms()
        );
        problems.add("http.idle_timeout_ms", text);
    }
    EdgeSettings {
        bounds,
        timeouts,
        connections_max: ConnectionsMax(whole(
            "limits.connections_max",
            limits.connections_max,
            limits::CONNECTIONS_MAX,
            1..=limits::CONNECTIONS_CONFIGURED_MAX,
            problems,
        )),
    }
}

fn bounds(raw: &RawLimits, problems: &mut Problems) -> Bounds {
    let defaults = Bounds::default();
    let ttls = limits::TTL_MIN..=limits::CONFIGURED_MAX;
    let (least, most) = (raw.ttl_ms_min, raw.ttl_ms_max);
    let bounds = Bounds {
        ttl_min: millis(
            "limits.ttl_ms_min",
            least,
            defaults.ttl_min,
            ttls.clone(),
            problems,
        ),
        ttl_max: millis("limits.ttl_ms_max", most, defaults.ttl_max, ttls, problems),
        wait_max: millis(
            "limits.wait_ms_max",
            raw.wait_ms_max,
            defaults.wait_max,
            Millis::ZERO..=limits::CONFIGURED_MAX,
            problems,
        ),
    };
    if bounds.ttl_max < bounds.ttl_min {
        let least = bounds.ttl_min.as_ms();
        let text = format!("must be at least limits.ttl_ms_min ({least})");
        problems.add("limits.ttl_ms_max", text);
    }
    bounds
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
