use super::*;
use std::collections::BTreeSet;

const SMALLEST: &str = r#"
listen = "127.0.0.1:8080"
admin_listen = "127.0.0.1:9090"
peer_listen = "127.0.0.1:7070"
peer_url = "http://127.0.0.1:7070"
state_dir = "./state"

[home]
endpoints = ["http://127.0.0.1:2379"]

[auth]
mode = "none"
"#;

fn read(text: &str, env: &[(&str, &str)]) -> Result<Config, Problems> {
    let env = env
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Config::read(text, env)
}

/// The smallest form with `more` after it is refused at `place`, for a reason with `text` in it.
fn check_refused(more: &str, place: &str, text: &str) {
    let problems = read(&format!("{SMALLEST}{more}"), &[]).unwrap_err();
    let found = problems
        .list()
        .iter()
        .any(|problem| problem.place == place && problem.text.contains(text));
    assert!(found, "{more:?}: {problems}");
}

fn key_paths(table: &toml::Table, prefix: &str) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for (name, value) in table {
        match value {
            toml::Value::Table(inner) => {
                paths.extend(key_paths(inner, &format!("{prefix}{name}.")));
            }
            _ => {
                paths.insert(format!("{prefix}{name}"));
            }
        }
    }
    paths
}

#[test]
fn the_smallest_form_is_complete_and_printed_in_full_it_means_the_same() {
    let config = read(SMALLEST, &[]).unwrap();
    assert_eq!(config.session_ttl, Millis::from_secs(9));
    assert_eq!(config.group_ttl, Millis::from_secs(1800));
    assert_eq!(read(&config.to_toml(), &[]).unwrap(), config);
}

#[test]
fn every_key_is_printed_and_every_printed_key_is_known() {
    let full = format!(
        "{}\n[peer]\nsecret_file = \"s\"\n",
        SMALLEST.replace(
            "endpoints = [\"http://127.0.0.1:2379\"]",
            "endpoints = [\"https://h:1\"]\ncacert = \"c\"\ncert = \"c\"\nkey = \"k\"\n\
             user = \"u\"\npassword_file = \"p\"",
        )
    );
    let known_callers = "mode = \"mtls\"\nprincipals_file = \"p\"";
    let identity = "cert = \"c\"\nkey = \"k\"\n";
    let secured = full
        .replace("mode = \"none\"", known_callers)
        .replace("http://127.0.0.1:7070", "https://127.0.0.1:7070")
        + &format!("cacert = \"c\"\n{identity}[admin_tls]\n{identity}")
        + &format!("[tls]\nclient_ca = \"c\"\n{identity}");
    let printed: BTreeSet<String> = [&full, &secured]
        .into_iter()
        .flat_map(|text| {
            let printed = read(text, &[]).unwrap().to_toml();
            key_paths(&printed.parse().unwrap(), "")
        })
        .collect();
    let known: BTreeSet<String> = KEYS.iter().map(|key| key.path.to_owned()).collect();
    assert_eq!(printed, known);
}

#[test]
fn the_quota_of_locks_has_a_default_and_zero_is_none() {
    let locks_max = |limits: &str| {
        let config = read(&format!("{SMALLEST}[limits]\n{limits}"), &[]).unwrap();
        assert_eq!(read(&config.to_toml(), &[]).unwrap(), config);
        config.principal_locks_max.map(NonZeroU32::get)
    };
    assert_eq!(locks_max(""), Some(1_000_000));
    assert_eq!(locks_max("principal_locks_max = 7"), Some(7));
    assert_eq!(locks_max("principal_locks_max = 0"), None);
    let too_many = "[limits]\nprincipal_locks_max = 100000001\n";
    check_refused(too_many, "limits.principal_locks_max", "0 to 100000000");
}

#[test]
fn every_key_can_be_given_as_a_variable_and_the_variable_wins() {
    let config = read(
        SMALLEST,
        &[
            ("PATH", "/bin"),
            ("HOLDFAST_LISTEN", "127.0.0.1:1"),
            ("HOLDFAST_HOME_ENDPOINTS", "http://a:1, http://b:2"),
            ("HOLDFAST_LIMITS_TTL_MS_MAX", "900000"),
            ("HOLDFAST_AUTH_INSECURE", "true"),
        ],
    )
    .unwrap();
    assert_eq!(config.listen.port(), 1);
    assert_eq!(config.home.endpoints, ["http://a:1", "http://b:2"]);
    assert_eq!(config.edge.bounds.ttl_max, Millis::from_secs(900));
    assert_eq!(config.auth, Auth::None { insecure: true });
}

#[test]
fn the_environment_alone_is_enough_and_shard_maps_home_is_taken_when_nothing_else_is_said() {
    let env = [
        ("HOLDFAST_AUTH_MODE", "none"),
        ("HOLDFAST_HOME", "http://h:1"),
    ];
    assert_eq!(read("", &env).unwrap().home.endpoints, ["http://h:1"]);
    let config = read(SMALLEST, &env).unwrap();
    assert_eq!(config.home.endpoints, ["http://127.0.0.1:2379"]);
}

#[test]
fn all_problems_are_told_at_once() {
    let text = r#"
        listn = "127.0.0.1:8080"
        admin_listen = 9090
        worker_threads = 0
        [home]
        endpoints = ["ftp://h"]
        cert = "c"
        [auth]
        mode = "password"
        [limits]
        ttl_ms = 5
        ttl_ms_min = 10
    "#;
    let env = [
        ("HOLDFAST_LISTENER", "x"),
        ("HOLDFAST_WORKER_THREADS", "-1"),
    ];
    let problems = read(text, &env).unwrap_err();
    let places: BTreeSet<&str> = problems
        .list()
        .iter()
        .map(|problem| problem.place.as_str())
        .collect();
    let expected = [
        "listn",
        "admin_listen",
        "worker_threads",
        "home.endpoints",
        "home.key",
        "auth.mode",
        "limits.ttl_ms",
        "limits.ttl_ms_min",
        "HOLDFAST_LISTENER",
        "HOLDFAST_WORKER_THREADS",
    ];
    assert_eq!(places, BTreeSet::from(expected));
    let text = problems.to_string();
    assert!(
        text.contains("listn: unknown key; did you mean `listen`?"),
        "{text}"
    );
    assert!(text.contains("did you mean HOLDFAST_LISTEN?"), "{text}");
}

#[test]
fn a_file_that_is_not_toml_is_refused_with_the_place() {
    let problems = read("listen = ", &[]).unwrap_err();
    assert!(problems.to_string().contains("line 1"), "{problems}");
}

#[test]
fn relations_between_keys_are_checked() {
    for (more, place, text) in [
        (
            "[limits]\nttl_ms_max = 1500000",
            "etcd.group_ttl_ms",
            "2250000",
        ),
        (
            "[limits]\nttl_ms_min = 5000\nttl_ms_max = 4000",
            "limits.ttl_ms_max",
            "5000",
        ),
        (
            "[limits]\nwait_ms_max = 80000",
            "http.idle_timeout_ms",
            "95000",
        ),
        (
            "[http]\nidle_timeout_ms = 40000",
            "http.idle_timeout_ms",
            "45000",
        ),
        (
            "[http]\nheader_timeout_ms = 90000",
            "http.idle_timeout_ms",
            "longer",
        ),
        (
            "[etcd]\nsession_ttl_ms = 2000",
            "etcd.session_ttl_ms",
            "3000",
        ),
        (
            "[etcd]\nsession_ttl_ms = 9500",
            "etcd.session_ttl_ms",
            "multiple",
        ),
        (
            "[etcd]\ngroup_ttl_ms = 899000",
            "etcd.group_ttl_ms",
            "900000",
        ),
        ("[log]\nformat = \"xml\"", "log.format", "json"),
        ("[log]\nfilter = \"a=b=c\"", "log.filter", ""),
    ] {
        check_refused(more, place, text);
    }
}

#[test]
fn whoever_is_reached_by_others_must_say_so() {
    let open = SMALLEST.replace("127.0.0.1:8080", "0.0.0.0:8080");
    let places = |text: &str| -> Vec<String> {
        match read(text, &[]) {
            Ok(_) => Vec::new(),
            Err(problems) => problems.list().iter().map(|p| p.place.clone()).collect(),
        }
    };
    assert_eq!(places(&open), ["peer.secret_file", "auth.mode"]);
    let insecure = format!("{open}insecure = true\n");
    assert_eq!(places(&insecure), ["peer.secret_file"]);
    assert_eq!(
        places(&format!("{insecure}[peer]\nsecret_file = \"s\"\n")),
        [""; 0]
    );
    let everywhere = SMALLEST
        .replace("peer_listen = \"127.0.0.1", "peer_listen = \"0.0.0.0")
        .replace("peer_url = \"http://127.0.0.1:7070\"\n", "");
    assert_eq!(places(&everywhere), ["peer.secret_file", "peer_url"]);
    let same = SMALLEST.replace("127.0.0.1:9090", "127.0.0.1:8080");
    assert_eq!(places(&same), ["admin_listen"]);
}

#[test]
fn a_file_that_is_named_must_be_there() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("gateway.toml");
    let missing = dir.path().join("missing");
    let peer = format!("{SMALLEST}[peer]\nsecret_file = {:?}\n", missing);
    std::fs::write(&file, peer).unwrap();
    let problems = Config::load(Some(&file), std::iter::empty()).unwrap_err();
    assert_eq!(problems.list()[0].place, "peer.secret_file");
    std::fs::write(&missing, "a secret that nobody guesses").unwrap();
    Config::load(Some(&file), std::iter::empty()).unwrap();
    let problems = Config::load(Some(&dir.path().join("no.toml")), std::iter::empty());
    assert!(problems.unwrap_err().to_string().contains("no.toml"));
}

/// The smallest form over TLS to home, with `more` after it, whose files are in a folder where
/// `ca`, `cert` and `key` are good, `short` has too few bytes for any secret, and `bytes` is no text.
fn check_files(replaced: &str, by: &str, more: &str) -> Vec<(String, String)> {
    let folder = tempfile::tempdir().unwrap();
    let own = rcgen::generate_simple_self_signed(["h".to_owned()]).unwrap();
    let write = |name: &str, content: &[u8]| {
        std::fs::write(folder.path().join(name), content).unwrap();
    };
    for name in ["ca", "cert"] {
        write(name, own.cert.pem().as_bytes());
    }
    write("key", own.signing_key.serialize_pem().as_bytes());
    write("short", b"abc");
    write("empty", b"");
    write("long", b"0123456789abcdef\n");
    write("bytes", &[0xff; 20]);
    let home = "endpoints = [\"https://h:1\"]\ncacert = \"@ca\"\ncert = \"@cert\"\nkey = \"@key\"\n\
                user = \"u\"\npassword_file = \"@short\"";
    let text = SMALLEST
        .replace("endpoints = [\"http://127.0.0.1:2379\"]", home)
        .replace("./state", "@state");
    assert!(text.contains(replaced), "{replaced}");
    let text = format!("{}{more}", text.replace(replaced, by));
    let text = text.replace('@', &format!("{}/", folder.path().display()));
    let file = folder.path().join("gateway.toml");
    std::fs::write(&file, text).unwrap();
    let loaded = Config::load(Some(&file), std::iter::empty());
    assert!(!folder.path().join("state").exists());
    let problems = loaded.err().unwrap_or_default();
    let told = problems.list().iter();
    told.map(|problem| (problem.place.clone(), problem.text.clone()))
        .collect()
}

#[test]
fn what_a_start_would_refuse_in_a_file_is_found_before() {
    let secret = |name: &str| format!("[peer]\nsecret_file = \"@{name}\"\n");
    assert_eq!(check_files("@ca", "@ca", &secret("long")), []);
    let more = [
        ("short", "peer.secret_file", "has 3 bytes"),
        ("empty", "peer.secret_file", "has 0 bytes"),
        // A folder, which can be opened.
        ("", "peer.secret_file", "directory"),
    ];
    let more = more.map(|(name, place, text)| ("@ca", "@ca", secret(name), place, text));
    let home = [
        ("@ca", "@short", "home", "CA"),
        ("@ca", "@nowhere", "home.cacert", "nowhere"),
        ("@cert", "@short", "home", "https://h:1"),
        ("@key", "@short", "home", "https://h:1"),
        (
            "password_file = \"@short",
            "password_file = \"@bytes",
            "home",
            "UTF-8",
        ),
        ("@state", "@short", "state_dir", "not a directory"),
    ];
    let home = home.map(|(from, to, place, text)| (from, to, String::new(), place, text));
    for (from, to, more, place, text) in more.into_iter().chain(home) {
        let told = check_files(from, to, &more);
        let [(told_place, told_text)] = &told[..] else {
            panic!("{from} {to} {more}: {told:?}");
        };
        assert_eq!(told_place, place, "{told_text}");
        assert!(told_text.contains(text), "{text}: {told_text}");
    }
}

#[test]
fn the_scheme_of_peer_url_has_to_fit_the_certificates_of_peer() {
    let https = SMALLEST.replace("http://127.0.0.1:7070", "https://127.0.0.1:7070");
    let certificates = "[peer]\ncert = \"c\"\nkey = \"k\"\ncacert = \"ca\"\n";
    let without_ca = certificates.replace("cacert = \"ca\"\n", "");
    let nonsense = SMALLEST.replace("http://127.0.0.1:7070", "gateway-1");
    for (text, expected) in [
        (
            format!("{SMALLEST}{certificates}"),
            "peer_url: must begin with https://",
        ),
        (
            https.clone(),
            "peer_url: must begin with http://, such as http://gateway-1:7070",
        ),
        // What is wrong is in `[peer]` only.
        (format!("{https}{without_ca}"), "peer.cacert: is needed"),
        (
            nonsense,
            "peer_url: is no URL of a server such as http://gateway-1:7070",
        ),
    ] {
        let told = read(&text, &[]).unwrap_err();
        assert_eq!(told.list().len(), 1, "{told}");
        assert!(told.to_string().starts_with(expected), "{told}");
    }
}

#[test]
fn a_mistake_in_auth_is_not_told_as_one_in_tls_too() {
    let tls = "[tls]\ncert = \"c\"\nkey = \"k\"\nclient_ca = \"ca\"\n";
    for (auth, place) in [
        ("mode = \"mtls\"", "auth.principals_file"),
        ("mode = \"mtsl\"\nprincipals_file = \"p\"", "auth.mode"),
        ("principals_file = \"p\"", "auth.mode"),
    ] {
        let text = SMALLEST.replace("mode = \"none\"", auth);
        let told = read(&format!("{text}{tls}"), &[]).unwrap_err();
        let places: Vec<&str> = told.list().iter().map(|told| told.place.as_str()).collect();
        assert_eq!(places, [place], "{told}");
    }
}

#[test]
fn authentication_is_open_to_others_than_this_machine() {
    let secret = "[peer]\nsecret_file = \"s\"\n";
    let open = SMALLEST.replace("127.0.0.1:8080", "0.0.0.0:8080").replace(
        "mode = \"none\"",
        "mode = \"tokens\"\nprincipals_file = \"p.toml\"",
    );
    let config = read(&format!("{open}{secret}"), &[]).unwrap();
    let expected = Auth::Known {
        mode: AuthMode::Tokens,
        principals: "p.toml".into(),
    };
    assert_eq!(config.auth, expected);
    assert_eq!(read(&config.to_toml(), &[]).unwrap(), config);
    for (from, to, place) in [
        ("principals_file = \"p.toml\"", "", "auth.principals_file"),
        (
            "principals_file",
            "insecure = true\nprincipals_file",
            "auth.insecure",
        ),
        ("\"tokens\"", "\"none\"", "auth.principals_file"),
    ] {
        let problems = read(&format!("{}{secret}", open.replace(from, to)), &[]).unwrap_err();
        assert_eq!(problems.list()[0].place, place, "{to}");
    }
}

#[test]
fn tls_is_for_every_listener_and_certificates_show_who_asks() {
    let text = SMALLEST
        .replace(
            "mode = \"none\"",
            "mode = \"mtls\"\nprincipals_file = \"p.toml\"",
        )
        .replace("http://127.0.0.1:7070", "https://127.0.0.1:7070");
    let tls = "[tls]\ncert = \"c\"\nkey = \"k\"\nclient_ca = \"ca\"\n";
    let others = "[admin_tls]\ncert = \"c\"\nkey = \"k\"\n\
                  [peer]\ncert = \"c\"\nkey = \"k\"\ncacert = \"ca\"\n";
    let whole = format!("{text}{tls}{others}");
    let config = read(&whole, &[]).unwrap();
    assert!(config.tls.as_ref().unwrap().client_cert_needed);
    assert!(config.admin_tls.is_some() && config.peer_tls.is_some());
    assert_eq!(read(&config.to_toml(), &[]).unwrap(), config);
    let either = whole.replace("\"mtls\"", "\"tokens_or_mtls\"");
    assert!(!read(&either, &[]).unwrap().tls.unwrap().client_cert_needed);
    for (from, to, place) in [
        ("client_ca = \"ca\"\n", "", "tls.client_ca"),
        (tls, "", "tls.client_ca"),
        ("\"mtls\"", "\"tokens\"", "tls.client_ca"),
        ("https://127", "http://127", "peer_url"),
        ("\ncacert = \"ca\"", "", "peer.cacert"),
    ] {
        let problems = read(&whole.replace(from, to), &[]).unwrap_err();
        assert_eq!(problems.list()[0].place, place, "{from}");
    }
}
