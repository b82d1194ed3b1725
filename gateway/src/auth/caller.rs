//! From the credentials of a request to who asks. Pure, but for what it remembers.

use super::budget::{Buckets, Budgets, Exhausted, Share};
use super::rights::{Right, Rights};
use super::roll::{Entry, Roll};
use super::waits::{NoPlace, WaitPlace};
use crate::names::Principal;
use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use std::net::IpAddr;
use std::sync::Arc;

/// Which credentials count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthMode {
    /// `Authorization: Bearer ...`.
    Tokens,
    /// The certificate that the client showed.
    Certificates,
    /// A token, or without one the certificate.
    TokensOrCertificates,
}

/// Whom this gateway knows.
#[derive(Debug)]
pub struct Auth {
    /// `None`: nobody needs to prove who they are.
    mode: Option<AuthMode>,
    roll: ArcSwapOption<Roll>,
    budgets: Budgets,
}

/// The names in a certificate that was verified.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Certificate {
    /// Its subject alternative names, each in the form in which the roll has it.
    pub names: Vec<String>,
}

/// The credentials of one connection's requests.
#[derive(Debug)]
pub struct Caller {
    auth: Arc<Auth>,
    certificate: Option<Certificate>,
    address: Option<Arc<Buckets>>,
    /// The last answer, for as long as the roll and the header stay the same.
    known: Mutex<Option<Known>>,
}

#[derive(Debug)]
struct Known {
    roll: Arc<Roll>,
    authorization: Option<Box<[u8]>>,
    identity: Arc<Identity>,
}

/// A principal and what it may do.
#[derive(Debug)]
struct Identity {
    principal: Principal,
    rights: Arc<Rights>,
    buckets: Arc<Buckets>,
}

/// Who asks.
#[derive(Debug, Clone)]
pub struct Who {
    /// `None`: somebody; everybody may do everything.
    identity: Option<Arc<Identity>>,
    address: Option<Arc<Buckets>>,
}

/// The credentials are none, or wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stranger {
    /// What to do.
    pub detail: &'static str,
    /// The value of `WWW-Authenticate`.
    pub challenge: &'static str,
}

impl Auth {
    /// Nobody needs to prove who they are.
    pub fn open(budgets: Budgets) -> Arc<Self> {
        Arc::new(Self {
            mode: None,
            roll: ArcSwapOption::empty(),
            budgets,
        })
    }

    /// Those on the roll may in.
    pub fn new(mode: AuthMode, roll: Roll, budgets: Budgets) -> Arc<Self> {
        Arc::new(Self {
            mode: Some(mode),
            roll: ArcSwapOption::from_pointee(roll),
            budgets,
        })
    }

    /// Another roll counts from now on, for every connection.
    pub fn replace(&self, roll: Roll) {
        self.budgets.keep(|name| roll.has(name));
        self.roll.store(Some(Arc::new(roll)));
    }
}

impl Caller {
    /// The caller at the other end of a connection from this address.
    pub fn new(auth: Arc<Auth>, address: IpAddr, certificate: Option<Certificate>) -> Self {
        Self {
            address: auth.budgets.of_address(address),
            auth,
            certificate,
            known: Mutex::new(None),
        }
    }

    /// Who sends a request with this `Authorization` header.
    ///
    /// # Errors
    /// When that shows nobody who is on the roll.
    pub fn identify(&self, authorization: Option<&[u8]>) -> Result<Who, Stranger> {
        let Some(mode) = self.auth.mode else {
            return Ok(self.who(None));
        };
        let roll = self.auth.roll.load();
        let Some(roll) = &*roll else {
            return Err(mode.stranger(NOBODY));
        };
        let mut known = self.known.lock();
        if let Some(known) = &*known
            && Arc::ptr_eq(&known.roll, roll)
            && known.authorization.as_deref() == authorization
        {
            return Ok(self.who(Some(Arc::clone(&known.identity))));
        }
        let entry = self.look_up(mode, roll, authorization)?;
        let identity = Arc::new(Identity {
            principal: entry.principal.unshared(),
            rights: Arc::clone(&entry.rights),
            buckets: self.auth.budgets.of_principal(&entry.principal),
        });
        *known = Some(Known {
            roll: Arc::clone(roll),
            authorization: authorization.map(Box::from),
            identity: Arc::clone(&identity),
        });
        Ok(self.who(Some(identity)))
    }

    fn who(&self, identity: Option<Arc<Identity>>) -> Who {
        Who {
            identity,
            address: self.address.clone(),
        }
    }

    fn look_up<'a>(
        &self,
        mode: AuthMode,
        roll: &'a Roll,
        authorization: Option<&[u8]>,
    ) -> Result<&'a Arc<Entry>, Stranger> {
        if let Some(header) = authorization.filter(|_| mode != AuthMode::Certificates) {
            let token = bearer(header).ok_or(mode.stranger(NO_BEARER))?;
            return roll.by_token(token).ok_or(UNKNOWN_TOKEN);
        }
        let counts = |_: &&Certificate| mode != AuthMode::Tokens;
        let Some(certificate) = self.certificate.as_ref().filter(counts) else {
            return Err(mode.stranger(NOBODY));
        };
        let found = certificate.names.iter().find_map(|name| roll.by_san(name));
        found.ok_or(mode.stranger(UNKNOWN_CERTIFICATE))
    }
}

const NOBODY: &str = "credentials are needed";
const NO_BEARER: &str = "the authorization header must be one, of the form `Bearer <token>`";
const UNKNOWN_CERTIFICATE: &str = "no name in the client's certificate is that of a principal";
const UNKNOWN_TOKEN: Stranger = Stranger {
    detail: "the token is unknown; it may have been replaced",
    challenge: "Bearer realm=\"holdfast\", error=\"invalid_token\"",
};

impl AuthMode {
    /// What the configuration calls so.
    pub fn of(name: &str) -> Option<Self> {
        let known = [Self::Tokens, Self::Certificates, Self::TokensOrCertificates];
        known.into_iter().find(|mode| mode.as_str() == name)
    }

    /// Whether clients may show certificates, and whether they must.
    pub fn client_certificates(self) -> (bool, bool) {
        match self {
            Self::Tokens => (false, false),
            Self::TokensOrCertificates => (true, false),
            Self::Certificates => (true, true),
        }
    }

    /// As the configuration calls it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Certificates => "mtls",
            Self::TokensOrCertificates => "tokens_or_mtls",
        }
    }

    fn stranger(self, what: &'static str) -> Stranger {
        let (needs, challenge) = match self {
            Self::Tokens => (
                "send `authorization: Bearer <token>`",
                "Bearer realm=\"holdfast\"",
            ),
            Self::Certificates => (
                "connect over TLS with a client certificate",
                "Certificate realm=\"holdfast\"",
            ),
            Self::TokensOrCertificates => (
                "send `authorization: Bearer <token>`, or connect with a client certificate",
                "Bearer realm=\"holdfast\"",
            ),
        };
        let detail = if what == NOBODY { needs } else { what };
        Stranger { detail, challenge }
    }
}

/// The token in an `Authorization` header.
fn bearer(header: &[u8]) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let (scheme, token) = header.split_at_checked(SCHEME.len())?;
    let good = scheme.eq_ignore_ascii_case(SCHEME) && !token.is_empty();
    good.then(|| token.trim_ascii())
}

impl Who {
    /// The principal, for the records of what it does.
    pub fn principal(&self) -> Option<Principal> {
        let identity = self.identity.as_ref();
        identity.map(|identity| identity.principal.clone())
    }

    /// As it is called in logs.
    pub fn as_str(&self) -> &str {
        let identity = self.identity.as_ref();
        identity.map_or("", |identity| identity.principal.as_str())
    }

    /// Whether it has this right on this name.
    pub fn may(&self, right: Right, name: &str) -> bool {
        let identity = self.identity.as_ref();
        identity.is_none_or(|identity| identity.rights.may(right, name))
    }

    /// Takes one of the principal's places in line.
    ///
    /// # Errors
    /// When it has no more.
    pub fn wait(&self) -> Result<WaitPlace, NoPlace> {
        let identity = self.identity.as_ref();
        identity.map_or(Ok(WaitPlace::FREE), |identity| identity.buckets.wait())
    }

    /// Takes one out of the budgets of the principal and of its address.
    ///
    /// # Errors
    /// When either is used up.
    pub fn spend(&self, share: Share) -> Result<(), Exhausted> {
        if let Some(identity) = &self.identity {
            identity.buckets.spend(share)?;
        }
        self.address
            .as_ref()
            .map_or(Ok(()), |address| address.spend(share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{BearerToken, Rates, RollEntry, RollFile};

    const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn no_budgets() -> Budgets {
        Budgets::new(Rates::default(), Rates::default())
    }

    fn token(bits: u8) -> BearerToken {
        BearerToken::from_random([bits; 32])
    }

    fn header(bits: u8) -> Vec<u8> {
        format!("Bearer {}", token(bits).reveal()).into_bytes()
    }

    /// A roll with one principal per token, called by its bits.
    fn roll(tokens: &[u8]) -> Roll {
        let entry = |bits: &u8| RollEntry {
            name: bits.to_string(),
            token_sha256: vec![token(*bits).hash().to_hex()],
            san: vec![format!("dns:host-{bits}")],
            ..RollEntry::default()
        };
        let file = RollFile {
            principal: tokens.iter().map(entry).collect(),
        };
        Roll::parse(&toml::to_string(&file).unwrap()).unwrap()
    }

    fn caller(mode: AuthMode, names: &[&str]) -> Caller {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let certificate = (!names.is_empty()).then_some(Certificate { names });
        let auth = Auth::new(mode, roll(&[1, 2]), no_budgets());
        Caller::new(auth, ADDRESS, certificate)
    }

    fn name(caller: &Caller, authorization: Option<&[u8]>) -> Result<String, &'static str> {
        let who = caller.identify(authorization);
        who.map(|who| who.as_str().to_owned())
            .map_err(|stranger| stranger.detail)
    }

    #[test]
    fn a_token_tells_who_asks_each_time_anew() {
        let caller = caller(AuthMode::Tokens, &["dns:host-2"]);
        for _ in 0..2 {
            assert_eq!(name(&caller, Some(&header(1))).as_deref(), Ok("1"));
            assert_eq!(name(&caller, Some(&header(1))).as_deref(), Ok("1"));
            assert_eq!(name(&caller, Some(&header(2))).as_deref(), Ok("2"));
            assert_eq!(name(&caller, Some(&header(3))), Err(UNKNOWN_TOKEN.detail));
            assert!(name(&caller, None).is_err());
        }
        for bad in ["", "Bearer", "Bearer ", "Basic YTpi", "hft_x"] {
            assert!(name(&caller, Some(bad.as_bytes())).is_err(), "{bad}");
        }
        let spaced = [b"bEARER  ", &header(1)[7..]].concat();
        assert_eq!(name(&caller, Some(&spaced)).as_deref(), Ok("1"));
    }

    #[test]
    fn a_token_that_leaves_the_roll_is_unknown_on_connections_that_used_it() {
        let caller = caller(AuthMode::Tokens, &[]);
        assert!(name(&caller, Some(&header(1))).is_ok());
        caller.auth.replace(roll(&[2]));
        assert_eq!(name(&caller, Some(&header(1))), Err(UNKNOWN_TOKEN.detail));
        assert!(name(&caller, Some(&header(2))).is_ok());
    }

    #[test]
    fn a_certificate_counts_where_it_may_and_a_token_goes_before_it() {
        for (mode, authorization, names, expected) in [
            (
                AuthMode::Certificates,
                None,
                &["dns:host-9", "dns:host-1"][..],
                Ok("1"),
            ),
            (AuthMode::Certificates, Some(2), &["dns:host-1"], Ok("1")),
            (AuthMode::Certificates, Some(2), &[], Err(())),
            (AuthMode::Certificates, None, &["dns:host-9"], Err(())),
            (
                AuthMode::TokensOrCertificates,
                None,
                &["dns:host-1"],
                Ok("1"),
            ),
            (
                AuthMode::TokensOrCertificates,
                Some(2),
                &["dns:host-1"],
                Ok("2"),
            ),
            (
                AuthMode::TokensOrCertificates,
                Some(9),
                &["dns:host-1"],
                Err(()),
            ),
            (AuthMode::TokensOrCertificates, None, &[], Err(())),
        ] {
            let caller = caller(mode, names);
            let header = authorization.map(header);
            let who = name(&caller, header.as_deref()).map_err(|_| ());
            assert_eq!(who.as_deref(), expected.as_ref().copied().map_err(|()| &()));
        }
    }

    #[test]
    fn without_authentication_everybody_may_do_everything() {
        let caller = Caller::new(Auth::open(no_budgets()), ADDRESS, None);
        let who = caller.identify(Some(b"whatever")).unwrap();
        assert!(who.may(Right::Admin, "n") && who.principal().is_none());
    }
}
