//! One HTTP exchange after another, with the rules that protect credentials.
//!
//! Promises: an `Authorization` header goes to the registry's own scheme, host and port alone; redirects and upload
//! locations elsewhere go without; nothing leads from HTTPS to HTTP or to a link-local address; at most five
//! redirects; answers that are read into memory have limits.

use std::{cell::RefCell, collections::BTreeMap, fs, io::Read, path::PathBuf, time::Duration};

use serde::Deserialize;
use ureq::{
    Agent, SendBody,
    http::{Request, Response, Uri, header},
    tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem},
};

use crate::{
    auth::{self, Credentials},
    challenge::{self, Challenge},
    error::{RegistryError, Result},
    reference::Reference,
};

/// Largest manifest, index or list; registries refuse larger ones too.
pub(crate) const MAX_DOCUMENT: u64 = 4 << 20;
const MAX_TOKEN: u64 = 1 << 20;
const MAX_WORDS: u64 = 16 << 10;
const MAX_REDIRECTS: usize = 5;

/// How to speak to registries.
#[derive(Clone, Debug)]
pub struct Options {
    /// Speak HTTP without TLS; only to this machine.
    pub plain_http: bool,
    /// Certificates to trust beside the usual ones, as PEM.
    pub tls_ca: Option<PathBuf>,
    /// Instead of those in files.
    pub credentials: Option<Credentials>,
    /// Instead of the files of podman and docker.
    pub auth_file: Option<PathBuf>,
    /// How often a step that failed in passing is tried again.
    pub retries: u32,
    /// Pause before the second try; doubles with each.
    pub pause: Duration,
    /// Upload blobs in pieces of this size; 0: whole, in pieces only where a whole one was refused.
    pub chunk: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            plain_http: false,
            tls_ca: None,
            credentials: None,
            auth_file: None,
            retries: 4,
            pause: Duration::from_millis(500),
            chunk: 0,
        }
    }
}

/// What a request carries.
pub(crate) enum Body<'a> {
    None,
    Bytes(&'a [u8]),
    Stream(&'a mut dyn Read, u64),
}

/// An answer whose body has not been read.
pub(crate) type Answer = Response<ureq::Body>;

/// A connection to one registry.
pub(crate) struct Http {
    agent: Agent,
    pub options: Options,
    /// `https://host:port`
    pub origin: String,
    credentials: Option<Credentials>,
    /// Authorization header by scope.
    tokens: RefCell<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

impl Http {
    pub fn new(reference: &Reference, options: &Options) -> Result<Http> {
        let local = is_local(&reference.registry);
        if options.plain_http && !local {
            return Err(RegistryError::Request(format!(
                "{} is another machine: without TLS anybody between could read the password and exchange the model",
                reference.registry
            )));
        }
        let host = match reference.registry.as_str() {
            "docker.io" => "registry-1.docker.io",
            host => host,
        };
        let origin = format!("{}://{host}", if options.plain_http { "http" } else { "https" });
        let credentials = match &options.credentials {
            Some(given) => Some(given.clone()),
            None => auth::find(options.auth_file.as_ref(), reference)?,
        };
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(Duration::from_secs(30)))
            .timeout_recv_response(Some(Duration::from_secs(300)))
            .user_agent(concat!("oaaxc/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls(options)?);
        // No proxy may stand before this machine's own registry.
        let config = if local { config.proxy(None) } else { config };
        let agent = Agent::new_with_config(config.build());
        Ok(Http { agent, options: options.clone(), origin, credentials, tokens: RefCell::default() })
    }

    /// Sends; asks for a token where the registry wants one, and follows redirects of what only reads.
    pub fn send(&self, method: &str, url: &str, scope: &str, headers: &[(&str, &str)], body: Body<'_>) -> Result<Answer> {
        let (bytes, stream) = match body {
            Body::None => (None, None),
            Body::Bytes(bytes) => (Some(bytes), None),
            Body::Stream(reader, length) => (None, Some((reader, length))),
        };
        if let Some((reader, length)) = stream {
            return self.once(method, url, scope, headers, Body::Stream(reader, length));
        }
        let again = || bytes.map_or(Body::None, Body::Bytes);
        let mut answer = self.once(method, url, scope, headers, again())?;
        if answer.status() == 401 && self.is_home(url) {
            self.authorise(&answer, scope)?;
            answer = self.once(method, url, scope, headers, again())?;
        }
        let mut url = url.to_owned();
        for _ in 0..MAX_REDIRECTS {
            if !matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308) || !matches!(method, "GET" | "HEAD") {
                return Ok(answer);
            }
            url = self.location(&answer, &url)?;
            answer = self.once(method, &url, scope, headers, Body::None)?;
        }
        match answer.status().is_redirection() {
            true => Err(RegistryError::Invalid(format!("more than {MAX_REDIRECTS} redirects"))),
            false => Ok(answer),
        }
    }

    fn once(&self, method: &str, url: &str, scope: &str, headers: &[(&str, &str)], body: Body<'_>) -> Result<Answer> {
        let mut request = Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if self.is_home(url)
            && let Some(token) = self.tokens.borrow().get(scope)
        {
            request = request.header(header::AUTHORIZATION, token);
        }
        let failed = |error: ureq::Error| RegistryError::Transport(format!("{method} {url}: {error}"));
        let odd = |error: ureq::http::Error| RegistryError::Invalid(format!("{method} {url}: {error}"));
        match body {
            Body::None if matches!(method, "GET" | "HEAD" | "DELETE") => self.agent.run(request.body(()).map_err(odd)?),
            Body::None => self.agent.run(request.header(header::CONTENT_LENGTH, 0).body(&[][..]).map_err(odd)?),
            Body::Bytes(bytes) => self.agent.run(request.body(bytes).map_err(odd)?),
            Body::Stream(reader, length) => {
                let request = request.header(header::CONTENT_LENGTH, length);
                self.agent.run(request.body(SendBody::from_reader(reader)).map_err(odd)?)
            }
        }
        .map_err(failed)
    }

    /// Whether `url` is the registry itself, so that it may see the token.
    fn is_home(&self, url: &str) -> bool {
        origin(url).is_some_and(|found| Some(found) == origin(&self.origin))
    }

    /// The absolute address of a `Location` header, if it may be gone to.
    pub fn location(&self, answer: &Answer, from: &str) -> Result<String> {
        let header = answer.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
        let to = header.ok_or_else(|| RegistryError::Invalid(format!("{from}: an answer without Location")))?;
        let url = match to.starts_with('/') && !to.starts_with("//") {
            true => {
                let uri: Uri = from.parse().map_err(|_| RegistryError::Invalid(format!("{from:?} is no address")))?;
                format!("{}://{}{to}", uri.scheme_str().unwrap_or("https"), uri.authority().map_or("", |a| a.as_str()))
            }
            false => to.to_owned(),
        };
        self.check_address(&url)?;
        Ok(url)
    }

    fn check_address(&self, url: &str) -> Result<()> {
        let refuse = |why: &str| Err(RegistryError::Invalid(format!("the registry leads to {url:?}, {why}")));
        let Some((scheme, host, _)) = origin(url) else { return refuse("which is no address") };
        if url.contains('@') && url.parse::<Uri>().is_ok_and(|uri| uri.authority().is_some_and(|a| a.as_str().contains('@'))) {
            return refuse("which names a user");
        }
        match scheme.as_str() {
            "https" => (),
            "http" if self.options.plain_http && is_local(&host) => (),
            _ => return refuse("away from TLS"),
        }
        let bare = host.trim_matches(['[', ']']);
        match bare.starts_with("169.254.") || bare.to_ascii_lowercase().starts_with("fe80:") {
            true => refuse("an address of this link alone"),
            false => Ok(()),
        }
    }

    /// Gets what the challenge of a 401 asks for and keeps it for `scope`.
    fn authorise(&self, answer: &Answer, scope: &str) -> Result<()> {
        let refused = |message: String| Err(RegistryError::Status { status: 401, message });
        let challenges = answer.headers().get_all(header::WWW_AUTHENTICATE).iter();
        let challenge = challenges.filter_map(|value| value.to_str().ok()).find_map(challenge::parse);
        let header = match (challenge, &self.credentials) {
            (None, _) => return refused(format!("{} asks for credentials in a way that is not known here", self.origin)),
            (Some(Challenge::Basic), None) => {
                return refused(format!("{} asks for a name and a password; give --creds USER:PASSWORD or log in", self.origin));
            }
            (Some(Challenge::Basic), Some(credentials)) => credentials.basic(),
            (Some(Challenge::Bearer { realm, service, scope: asked }), credentials) => {
                let wanted = if scope.is_empty() { asked.unwrap_or_default() } else { scope.to_owned() };
                let token = self.token(&realm, service.as_deref(), &wanted, credentials.as_ref())?;
                format!("Bearer {token}")
            }
        };
        self.tokens.borrow_mut().insert(scope.to_owned(), header);
        Ok(())
    }

    fn token(&self, realm: &str, service: Option<&str>, scope: &str, credentials: Option<&Credentials>) -> Result<String> {
        self.check_address(realm)?;
        let mut url = format!("{realm}{}", if realm.contains('?') { "&" } else { "?" });
        if let Some(service) = service {
            url += &format!("service={}&", escaped(service));
        }
        let scopes: Vec<String> = scope.split(' ').filter(|s| !s.is_empty()).map(|s| format!("scope={}", escaped(s))).collect();
        url += &scopes.join("&");
        let mut request = Request::builder().method("GET").uri(&url);
        if let Some(credentials) = credentials {
            request = request.header(header::AUTHORIZATION, credentials.basic());
        }
        let request = request.body(()).map_err(|error| RegistryError::Invalid(format!("{realm}: {error}")))?;
        let answer = self.agent.run(request).map_err(|error| RegistryError::Transport(format!("{realm}: {error}")))?;
        if answer.status() != 200 {
            return Err(refusal("GET", realm, answer));
        }
        let bytes = read_limited(answer, MAX_TOKEN, realm)?;
        let token: Token =
            serde_json::from_slice(&bytes).map_err(|error| RegistryError::Invalid(format!("{realm}: no token: {error}")))?;
        let token = token.token.or(token.access_token).unwrap_or_default();
        match !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()) {
            true => Ok(token),
            false => Err(RegistryError::Invalid(format!("{realm}: a token of odd characters"))),
        }
    }

    /// Does `step` again while it fails in passing.
    pub fn retrying<T>(&self, mut step: impl FnMut() -> Result<T>) -> Result<T> {
        let mut pause = self.options.pause;
        for _ in 0..self.options.retries {
            match step() {
                Err(error) if error.is_passing() => std::thread::park_timeout(pause),
                other => return other,
            }
            pause *= 2;
        }
        step()
    }
}

/// Reads a whole answer of at most `limit` bytes.
pub(crate) fn read_limited(answer: Answer, limit: u64, place: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = answer.into_body().into_reader().take(limit + 1).read_to_end(&mut bytes);
    read.map_err(|error| RegistryError::Transport(format!("{place}: {error}")))?;
    match bytes.len() as u64 <= limit {
        true => Ok(bytes),
        false => Err(RegistryError::Invalid(format!("{place}: more than {limit} bytes"))),
    }
}

/// The error for an answer with an unwanted status, with the server's words where they are readable.
pub(crate) fn refusal(method: &str, url: &str, answer: Answer) -> RegistryError {
    let status = answer.status().as_u16();
    let mut words = Vec::new();
    // The status is what counts; words that cannot be read are left out.
    let _ = answer.into_body().into_reader().take(MAX_WORDS).read_to_end(&mut words);
    let json: serde_json::Value = serde_json::from_slice(&words).unwrap_or_default();
    let said = json["errors"][0]["message"].as_str().or(json["errors"][0]["code"].as_str()).unwrap_or_default();
    let said: String = said.chars().filter(|c| !c.is_control()).take(200).collect();
    let path = url.split('?').next().unwrap_or(url);
    let message = if said.is_empty() { format!("{method} {path}") } else { format!("{method} {path}: {said}") };
    RegistryError::Status { status, message }
}

/// Scheme, host and port.
fn origin(url: &str) -> Option<(String, String, u16)> {
    let uri: Uri = url.parse().ok()?;
    let scheme = uri.scheme_str()?.to_ascii_lowercase();
    let port = uri.port_u16().unwrap_or(if scheme == "http" { 80 } else { 443 });
    Some((scheme, uri.host()?.to_ascii_lowercase(), port))
}

/// Whether a host is this machine.
fn is_local(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    };
    let name = name.trim_matches(['[', ']']);
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/,".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// The roots to trust: Mozilla's, or this machine's and the given file's.
fn tls(options: &Options) -> Result<TlsConfig> {
    const SYSTEM: &str = "/etc/ssl/certs/ca-certificates.crt";
    let read = |path: &std::path::Path| -> Result<Vec<Certificate<'static>>> {
        let bytes = fs::read(path).map_err(|error| RegistryError::file("read", path, &error))?;
        let items = parse_pem(&bytes).filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        });
        Ok(items.collect())
    };
    let Some(path) = &options.tls_ca else { return Ok(TlsConfig::builder().root_certs(RootCerts::WebPki).build()) };
    let mut certificates = read(path)?;
    if certificates.is_empty() {
        return Err(RegistryError::Request(format!("{} holds no certificate in PEM form", path.display())));
    }
    certificates.extend(read(SYSTEM.as_ref()).unwrap_or_default());
    Ok(TlsConfig::builder().root_certs(RootCerts::new_with_certs(&certificates)).build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_told_from_others() {
        for local in ["localhost", "localhost:5000", "127.0.0.1:5000", "127.8.9.1", "[::1]:80", "::1"] {
            assert!(is_local(local), "{local}");
        }
        for other in ["localhost.evil.org", "10.0.0.1:5000", "example.org", "127.0.0.1.nip.io", "[fe80::1]:80"] {
            assert!(!is_local(other), "{other}");
        }
    }

    #[test]
    fn origins_differ_by_scheme_host_and_port() {
        assert_eq!(origin("https://a.io/x"), origin("HTTPS://A.io:443/y?z"));
        for other in ["http://a.io/x", "https://a.io:444/x", "https://b.io/x", "https://a.io.b/x"] {
            assert_ne!(origin("https://a.io/x"), origin(other), "{other}");
        }
    }
}
