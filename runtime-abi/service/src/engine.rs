//! What lies between init and cleanup: models, one worker thread each, their queues, and the one queue
//! of outputs. Waiting threads are woken, nothing polls.

use crate::{
    settings::Settings,
    status::{Failure, Outcome, Status},
};
use oaax_core::{Model, Output, PortInfo, Session, Thread, Value, ports, quote};
use std::{
    collections::{BTreeSet, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Failures that the information remembers.
const REMEMBERED: usize = 16;

/// An input that the host handed over, in the host's own form.
pub trait Request: Send + 'static {
    /// An output in the host's form.
    type Response: Send + 'static;
    /// What the host calls the request.
    fn id(&self) -> i32;
    /// The tensors in the order of the model's inputs.
    fn values(&self) -> Outcome<Vec<Value<'_>>>;
    /// Outputs of the model in the host's form.
    fn respond(&self, outputs: Vec<Output>, ports: &[PortInfo]) -> Outcome<Self::Response>;
}

/// Where a model lies.
pub enum Source<'a> {
    /// At a path.
    File(String),
    /// In the caller's memory, which is free again after the load.
    Memory(&'a [u8]),
}

/// A finished request.
pub struct Done<T> {
    /// Whose it was.
    pub model: i32,
    /// The host's name for it.
    pub id: i32,
    /// Its outputs, or why there are none.
    pub outcome: Outcome<T>,
}

/// A loaded model and its queue.
pub struct Loaded<R: Request> {
    session: Session,
    /// What it takes.
    pub inputs: Vec<PortInfo>,
    /// What it gives.
    pub outputs: Vec<PortInfo>,
    id: i32,
    settings: Settings,
    queue: Mutex<VecDeque<R>>,
    arrived: Condvar,
}

struct Outputs<T> {
    done: VecDeque<Done<T>>,
    closed: bool,
    in_flight: usize,
    failures: VecDeque<String>,
}

type Models<R> = Option<Vec<Arc<Loaded<R>>>>;

/// Shared by the calling threads and the workers.
pub struct Engine<R: Request> {
    settings: Settings,
    process: u32,
    models: Mutex<Models<R>>,
    workers: Mutex<Vec<Thread>>,
    outputs: Mutex<Outputs<R::Response>>,
    finished: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R: Request> Engine<R> {
    /// An engine without models.
    pub fn new(settings: Settings) -> Engine<R> {
        let outputs = Outputs { done: VecDeque::new(), closed: false, in_flight: 0, failures: VecDeque::new() };
        Engine {
            settings,
            process: std::process::id(),
            models: Mutex::new(None),
            workers: Mutex::new(Vec::new()),
            outputs: Mutex::new(outputs),
            finished: Condvar::new(),
        }
    }

    /// What holds for models that say nothing else.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether this is the process that made the engine: a fork has none of its threads.
    pub fn is_ours(&self) -> bool {
        self.process == std::process::id()
    }

    /// Errors: models are loaded already.
    pub fn needs_models(&self) -> Outcome<()> {
        match *lock(&self.models) {
            None => Ok(()),
            Some(_) => Err(Failure::new(Status::AlreadyInitialized, "models are loaded already")),
        }
    }

    /// Loads all models or none; `admit` may refuse one by its inputs and outputs.
    pub fn load(
        self: &Arc<Engine<R>>,
        sources: Vec<(Settings, Source<'_>)>,
        admit: impl Fn(&PortInfo) -> Outcome<()>,
    ) -> Outcome<()> {
        let mut models = lock(&self.models);
        if models.is_some() {
            return Err(Failure::new(Status::AlreadyInitialized, "models are loaded already"));
        }
        let mut loaded = Vec::new();
        for (id, (settings, source)) in sources.into_iter().enumerate() {
            let model = match source {
                Source::File(path) => Model::open(&path, &settings.options)?,
                Source::Memory(bytes) => Model::open_memory(bytes, &settings.options)?,
            };
            let (inputs, outputs) = ports(model.program());
            for port in inputs.iter().chain(&outputs) {
                if port.kind != 0 {
                    let message = format!("{:?} is a sequence or an optional, for which OAAX has no form", port.name);
                    return Err(Failure::new(Status::NotImplemented, message));
                }
                admit(port)?;
            }
            let (session, id) = (Session::new(&model), id as i32);
            let (queue, arrived) = (Mutex::new(VecDeque::new()), Condvar::new());
            loaded.push(Arc::new(Loaded { session, inputs, outputs, id, settings, queue, arrived }));
        }
        let mut workers = Vec::new();
        for model in &loaded {
            let (engine, model) = (self.clone(), model.clone());
            match Thread::spawn(move || engine.work(&model)) {
                Ok(thread) => workers.push(thread),
                Err(error) => {
                    self.close(&loaded);
                    drop(workers);
                    lock(&self.outputs).closed = false;
                    return Err(error.into());
                }
            }
        }
        *lock(&self.workers) = workers;
        *models = Some(loaded);
        Ok(())
    }

    /// The model of this id. Errors: none are loaded, or none has the id.
    pub fn model(&self, id: i32) -> Outcome<Arc<Loaded<R>>> {
        let models = lock(&self.models);
        let Some(models) = &*models else {
            return Err(Failure::new(Status::ModelNotLoaded, "no models are loaded"));
        };
        let found = usize::try_from(id).ok().and_then(|id| models.get(id));
        found.cloned().ok_or_else(|| {
            let message = format!("model id {id} is not among the {} loaded", models.len());
            Failure::new(Status::InvalidModelId, message)
        })
    }

    /// Takes a request over if it fits the model and the queue has room, else gives it back.
    pub fn enqueue(&self, model: &Loaded<R>, request: R) -> Result<(), (R, Failure)> {
        if let Err(failure) = accept(model, &request) {
            return Err((request, failure));
        }
        let mut queue = lock(&model.queue);
        let mut outputs = lock(&self.outputs);
        if outputs.closed {
            return Err((request, Failure::new(Status::NotInitialized, "the runtime is being cleaned up")));
        }
        if model.settings.queue_depth <= queue.len() {
            let message = format!("the queue of model {} is full, {} requests wait", model.id, queue.len());
            return Err((request, Failure::new(model.settings.queue_full, message)));
        }
        outputs.in_flight += 1;
        drop(outputs);
        queue.push_back(request);
        model.arrived.notify_one();
        Ok(())
    }

    /// Waits for an output; `None` if none came in time or the runtime is being cleaned up.
    pub fn retrieve(&self, timeout_ms: i32) -> Option<Done<R::Response>> {
        let deadline = u64::try_from(timeout_ms).ok().map(|ms| Instant::now() + Duration::from_millis(ms));
        let mut outputs = lock(&self.outputs);
        loop {
            if let Some(done) = outputs.done.pop_front() {
                return Some(done);
            }
            if outputs.closed {
                return None;
            }
            outputs = match deadline {
                None => self.finished.wait(outputs).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return None;
                    }
                    self.finished.wait_timeout(outputs, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// A worker's life: requests of one model in their order.
    fn work(&self, model: &Loaded<R>) {
        loop {
            let mut queue = lock(&model.queue);
            let request = loop {
                if lock(&self.outputs).closed {
                    return;
                }
                match queue.pop_front() {
                    Some(request) => break request,
                    None => queue = model.arrived.wait(queue).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(queue);
            let id = request.id();
            let run = || -> Outcome<R::Response> {
                let outputs = model.session.run_fresh(&request.values()?)?;
                request.respond(outputs, &model.outputs)
            };
            let bug = || Err(Failure::new(Status::UnknownError, "the runtime met a bug of its own"));
            let outcome = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| bug());
            drop(request);
            let mut outputs = lock(&self.outputs);
            outputs.in_flight -= 1;
            if let Err(failure) = &outcome {
                if outputs.failures.len() == REMEMBERED {
                    outputs.failures.pop_front();
                }
                let error = quote(&failure.message);
                outputs.failures.push_back(format!("{{\"model\":{},\"id\":{id},\"error\":{error}}}", model.id));
            }
            outputs.done.push_back(Done { model: model.id, id, outcome });
            drop(outputs);
            self.finished.notify_one();
        }
    }

    fn close(&self, models: &[Arc<Loaded<R>>]) {
        lock(&self.outputs).closed = true;
        self.finished.notify_all();
        for model in models {
            drop(lock(&model.queue)); // A worker is either waiting or will see `closed`.
            model.arrived.notify_all();
        }
    }

    /// Ends all workers, wakes all who wait, frees what is queued.
    pub fn shut_down(&self) {
        let models = lock(&self.models).take();
        self.close(models.as_deref().unwrap_or_default());
        let workers = std::mem::take(&mut *lock(&self.workers));
        drop(workers); // Joins.
        for model in models.iter().flat_map(|models| models.iter()) {
            lock(&model.queue).clear();
        }
        let mut outputs = lock(&self.outputs);
        outputs.done.clear();
        outputs.in_flight = 0;
    }

    /// The state as compact JSON.
    pub fn info(&self) -> String {
        let models = lock(&self.models).clone();
        let list = models.iter().flat_map(|models| models.iter()).enumerate();
        let entry = |(id, model): (usize, &Arc<Loaded<R>>)| {
            let depth = lock(&model.queue).len();
            let info = oaax_core::info_json(model.session.model());
            format!("{{\"id\":{id},\"input_queue_depth\":{depth},{}", &info[1..])
        };
        let list: Vec<String> = list.map(entry).collect();
        let names =
            models.iter().flat_map(|models| models.iter()).filter_map(|model| model.session.model().device_name.as_deref());
        let devices: BTreeSet<&str> = names.collect();
        let devices: Vec<String> = ["CPU"].into_iter().chain(devices).map(quote).collect();
        let outputs = lock(&self.outputs);
        let failures: Vec<&str> = outputs.failures.iter().map(String::as_str).collect();
        format!(
            "{{\"loaded_models\":{},\"requests_in_flight\":{},\"backend_version\":\"{}\",\"output_queue_depth\":{},\
             \"available_devices\":[{}],\"failures\":[{}],\"models\":[{}]}}",
            list.len(),
            outputs.in_flight,
            env!("CARGO_PKG_VERSION"),
            outputs.done.len(),
            devices.join(","),
            failures.join(","),
            list.join(",")
        )
    }
}

/// Types, shapes and byte counts against the model.
fn accept<R: Request>(model: &Loaded<R>, request: &R) -> Outcome<()> {
    model.session.check(&request.values()?).map_err(|error| match error.status {
        oaax_core::Status::InvalidArgument => Failure::new(Status::InvalidTensor, error.to_string()),
        _ => error.into(),
    })
}
