//! A registry in this process: just enough of the protocol, with faults to order.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use oaaxc_container::{Data, Digest, Manifest, Package, PackageFile, Platform, Role, write_layout};
use oaaxc_registry::{Client, Credentials, LayoutFolder, Options, Reference};

/// What a server does wrong, and what it saw.
#[derive(Default)]
pub struct State {
    pub blobs: BTreeMap<String, Vec<u8>>,
    /// By `repository/manifests/name`.
    pub manifests: BTreeMap<String, (String, Vec<u8>)>,
    pub uploads: BTreeMap<String, Vec<u8>>,
    /// Method, path and Authorization of each request.
    pub seen: Vec<(String, String, Option<String>)>,
    /// Bearer: where tokens come from; the one that is good is `good-token`.
    pub realm: Option<String>,
    /// Demand basic credentials.
    pub basic: Option<String>,
    /// Cut the connection after so many bytes of the next so many bodies.
    pub cut_uploads: Vec<usize>,
    pub cut_downloads: Vec<usize>,
    /// Send blobs from there.
    pub redirect_blobs: Option<String>,
    /// Answer these statuses first.
    pub statuses: Vec<u16>,
    /// Refuse whole bodies.
    pub pieces_only: bool,
    /// Change a byte of every blob.
    pub corrupt: bool,
    /// Send so many bytes too many.
    pub longer: usize,
    pub mounts: usize,
    /// Repository and digest of what was pushed or mounted.
    pub known: std::collections::BTreeSet<(String, String)>,
}

pub struct Server {
    pub address: String,
    pub state: Arc<Mutex<State>>,
}

impl Server {
    pub fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                thread::spawn(move || while answer(&stream, &shared).is_some() {});
            }
        });
        Server { address, state }
    }

    pub fn with(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
    }

    pub fn client(&self, repository: &str) -> Client {
        self.client_as(repository, None)
    }

    pub fn client_as(&self, repository: &str, credentials: Option<&str>) -> Client {
        let reference = Reference::parse(&format!("{}/{repository}:v1", self.address)).unwrap();
        Client::new(&reference, &options(credentials)).unwrap()
    }

    /// How many requests had this method and a path with this part.
    pub fn count(&self, method: &str, part: &str) -> usize {
        let state = self.state.lock().unwrap();
        state.seen.iter().filter(|(m, path, _)| m == method && path.contains(part)).count()
    }

    pub fn authorizations(&self) -> Vec<Option<String>> {
        self.state.lock().unwrap().seen.iter().map(|(_, _, auth)| auth.clone()).collect()
    }
}

pub fn options(credentials: Option<&str>) -> Options {
    let credentials = credentials.map(|text| Credentials::parse(text).unwrap());
    let auth_file = Some(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/no-auth.json").into());
    Options { plain_http: true, credentials, auth_file, pause: Duration::ZERO, ..Options::default() }
}

/// A layout of a small package, large enough to be cut in the middle.
pub fn layout(folder: &std::path::Path) -> LayoutFolder {
    let mut package = Package { platforms: vec![Platform::linux("amd64")], ..Package::default() };
    package.manifest = Manifest::new("m", "0");
    let weights: Vec<u8> = (0..400_000u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    package.files = vec![PackageFile { path: "weights/0.bin".to_owned(), role: Role::Weights, data: Data::from(weights) }];
    write_layout(&package, folder).unwrap();
    LayoutFolder::open(folder, None).unwrap()
}

struct Request {
    method: String,
    path: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    length: usize,
}

fn read_head(reader: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let query = query.split('&').filter_map(|pair| pair.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    Some(Request { method, path: path.to_owned(), query, headers, length })
}

/// Answers one request; nothing where the connection is over.
fn answer(stream: &TcpStream, shared: &Mutex<State>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let request = read_head(&mut reader)?;
    let upload = matches!(request.method.as_str(), "PUT" | "PATCH") && request.path.contains("/uploads/") && request.length > 0;
    let cut = if upload { shared.lock().unwrap().cut_uploads.pop() } else { None };
    if request.headers.contains_key("expect") {
        (&mut &*stream).write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
    }
    let mut body = vec![0u8; cut.unwrap_or(request.length).min(request.length)];
    reader.read_exact(&mut body).ok()?;
    let mut state = shared.lock().unwrap();
    let auth = request.headers.get("authorization").cloned();
    state.seen.push((request.method.clone(), format!("{}{:?}", request.path, request.query), auth.clone()));
    if cut.is_some() {
        if let Some(upload) = state.uploads.get_mut(request.path.rsplit('/').next()?) {
            upload.extend(body);
        }
        stream.shutdown(std::net::Shutdown::Both).ok()?;
        return None;
    }
    let (status, headers, bytes) = respond(&mut state, &request, auth.as_deref(), body);
    let cut = if request.path.contains("/blobs/sha256:") && request.method == "GET" { state.cut_downloads.pop() } else { None };
    drop(state);
    let mut head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n", bytes.len());
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    let mut out = head.into_bytes();
    out.extend_from_slice(b"\r\n");
    if request.method != "HEAD" {
        out.extend_from_slice(&bytes[..cut.unwrap_or(bytes.len()).min(bytes.len())]);
    }
    (&mut &*stream).write_all(&out).ok()?;
    if cut.is_some() {
        stream.shutdown(std::net::Shutdown::Both).ok()?;
        return None;
    }
    Some(())
}

type Answer = (u16, Vec<(&'static str, String)>, Vec<u8>);

fn respond(state: &mut State, request: &Request, auth: Option<&str>, body: Vec<u8>) -> Answer {
    if request.path == "/token" {
        return (200, vec![], br#"{"token":"good-token"}"#.to_vec());
    }
    if request.path.starts_with("/elsewhere/") {
        let digest = request.path.trim_start_matches("/elsewhere/");
        return state.blobs.get(digest).map_or((404, vec![], vec![]), |blob| (200, vec![], blob.clone()));
    }
    if let Some(realm) = state.realm.clone().filter(|_| auth != Some("Bearer good-token")) {
        return (401, vec![("WWW-Authenticate", format!("Bearer realm=\"{realm}\",service=\"r\",scope=\"x\""))], vec![]);
    }
    if let Some(basic) = state.basic.clone().filter(|basic| auth != Some(basic)) {
        let _ = basic;
        return (401, vec![("WWW-Authenticate", "Basic realm=\"r\"".to_owned())], vec![]);
    }
    if let Some(status) = state.statuses.pop() {
        return (status, vec![], br#"{"errors":[{"code":"X","message":"not now"}]}"#.to_vec());
    }
    let parts: Vec<&str> = request.path.trim_start_matches("/v2/").splitn(2, "/blobs/").collect();
    match (request.method.as_str(), parts.as_slice()) {
        ("POST", [_, "uploads/"]) => {
            if let Some(blob) = request.query.get("mount").filter(|mount| state.blobs.contains_key(*mount)) {
                state.mounts += 1;
                state.known.insert((parts[0].to_owned(), blob.clone()));
                return (201, vec![("Docker-Content-Digest", blob.clone())], vec![]);
            }
            let id = format!("u{}", state.uploads.len());
            state.uploads.insert(id.clone(), Vec::new());
            (202, vec![("Location", format!("{}{id}?state=1", request.path))], vec![])
        }
        (method, [_, rest]) if rest.starts_with("uploads/") => upload(state, request, method, &rest[8..], body),
        ("HEAD", [repository, digest]) => {
            let known = state.known.contains(&((*repository).to_owned(), (*digest).to_owned()));
            (if known { 200 } else { 404 }, vec![], vec![])
        }
        ("GET", [_, digest]) => blob(state, request, digest),
        ("PUT", [name]) => {
            let media_type = request.headers.get("content-type").cloned().unwrap_or_default();
            let digest = Digest::of(&body).to_string();
            if let Some((repository, _)) = name.split_once("/manifests/") {
                state.manifests.insert(format!("{repository}/manifests/{digest}"), (media_type.clone(), body.clone()));
            }
            state.manifests.insert((*name).to_owned(), (media_type, body));
            (201, vec![("Docker-Content-Digest", digest)], vec![])
        }
        ("GET" | "HEAD", [name]) => match state.manifests.get(*name) {
            Some((media_type, bytes)) => (200, vec![("Content-Type", media_type.clone())], bytes.clone()),
            None => (404, vec![], vec![]),
        },
        _ => (405, vec![], vec![]),
    }
}

fn upload(state: &mut State, request: &Request, method: &str, id: &str, body: Vec<u8>) -> Answer {
    let Some(have) = state.uploads.get_mut(id) else { return (404, vec![], vec![]) };
    let location = ("Location", format!("{}?state=2", request.path));
    match method {
        "GET" => (204, vec![location, ("Range", format!("0-{}", have.len().saturating_sub(1)))], vec![]),
        "PATCH" => {
            let start = request.headers.get("content-range").and_then(|range| range.split('-').next()?.parse::<usize>().ok());
            if start != Some(have.len()) {
                return (416, vec![], vec![]);
            }
            have.extend(body);
            (202, vec![location], vec![])
        }
        "PUT" if state.pieces_only && !body.is_empty() => (413, vec![], vec![]),
        "PUT" => {
            have.extend(body);
            let digest = Digest::of(have).to_string();
            if request.query.get("digest") != Some(&digest) {
                return (400, vec![], br#"{"errors":[{"message":"digest invalid"}]}"#.to_vec());
            }
            let bytes = std::mem::take(have);
            let repository = request.path.trim_start_matches("/v2/").split("/blobs/").next().unwrap_or_default().to_owned();
            state.known.insert((repository, digest.clone()));
            state.blobs.insert(digest, bytes);
            (201, vec![], vec![])
        }
        _ => (405, vec![], vec![]),
    }
}

fn blob(state: &State, request: &Request, digest: &str) -> Answer {
    if let Some(base) = &state.redirect_blobs {
        return (307, vec![("Location", format!("{base}/elsewhere/{digest}"))], vec![]);
    }
    let Some(bytes) = state.blobs.get(digest) else { return (404, vec![], vec![]) };
    let mut bytes = bytes.clone();
    if state.corrupt {
        bytes[0] ^= 1;
    }
    bytes.extend(std::iter::repeat_n(0, state.longer));
    let start = request.headers.get("range").and_then(|range| range.trim_start_matches("bytes=").split('-').next()?.parse().ok());
    match start {
        Some(start) if start < bytes.len() => {
            let range = format!("bytes {start}-{}/{}", bytes.len() - 1, bytes.len());
            (206, vec![("Content-Range", range)], bytes.split_off(start))
        }
        _ => (200, vec![], bytes),
    }
}
