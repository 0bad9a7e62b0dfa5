//! What lies between `runtime_init` and `runtime_cleanup`: models, one worker thread each, their
//! queues, and the one queue of outputs. Waiting threads are woken, nothing polls.

use crate::{
    config::{Settings, text},
    tensors::{Request, Response},
    types::{Failure, ModelConfig, Outcome, Status},
};
use oaax_core::{Model, PortInfo, Session, Thread, ports, quote};
use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Failures that `runtime_get_info` remembers.
const REMEMBERED: usize = 16;

/// A finished request.
pub struct Done {
    pub model: i32,
    pub id: i32,
    pub outcome: Outcome<Response>,
}

/// A loaded model and its queue.
struct Loaded {
    session: Session,
    inputs: Vec<PortInfo>,
    outputs: Vec<PortInfo>,
    settings: Settings,
    queue: Mutex<VecDeque<Request>>,
    arrived: Condvar,
}

#[derive(Default)]
struct Outputs {
    done: VecDeque<Done>,
    closed: bool,
    in_flight: usize,
    failures: VecDeque<String>,
}

/// Shared by the calling threads and the workers.
pub struct Engine {
    pub settings: Settings,
    models: Mutex<Option<Arc<Vec<Loaded>>>>,
    workers: Mutex<Vec<Thread>>,
    outputs: Mutex<Outputs>,
    finished: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    pub fn new(settings: Settings) -> Engine {
        Engine {
            settings,
            models: Mutex::new(None),
            workers: Mutex::new(Vec::new()),
            outputs: Mutex::new(Outputs::default()),
            finished: Condvar::new(),
        }
    }

    /// Loads all models or none.
    ///
    /// # Safety
    /// Configs as the header says.
    pub unsafe fn load(self: &Arc<Engine>, configs: &[ModelConfig]) -> Outcome<()> {
        let mut models = lock(&self.models);
        if models.is_some() {
            return Err(Failure::new(Status::AlreadyInitialized, "models are loaded already"));
        }
        let mut loaded = Vec::new();
        for config in configs {
            // SAFETY: by this function's contract.
            loaded.push(unsafe { self.load_one(config) }?);
        }
        let loaded = Arc::new(loaded);
        let mut workers = Vec::new();
        for index in 0..loaded.len() {
            let (engine, models) = (self.clone(), loaded.clone());
            match Thread::spawn(move || engine.work(&models[index], index as i32)) {
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

    unsafe fn load_one(&self, config: &ModelConfig) -> Outcome<Loaded> {
        // SAFETY: by the caller's contract.
        let settings = unsafe { self.settings.clone().with(&config.config) }?;
        // SAFETY: a string or null.
        let path = unsafe { text(config.file_path) };
        let model = match (config.model_data.is_null(), path) {
            (false, _) if config.model_size > isize::MAX as usize => {
                return Err(Failure::new(Status::InvalidArgument, "model_size is impossible"));
            }
            (false, _) => {
                // SAFETY: the caller gives as many bytes.
                let bytes = unsafe { std::slice::from_raw_parts(config.model_data, config.model_size) };
                Model::open_memory(bytes, &settings.options)?
            }
            (true, Some(path)) => Model::open(&path, &settings.options)?,
            (true, None) => {
                return Err(Failure::new(Status::InvalidArgument, "a ModelConfig has neither file_path nor model_data"));
            }
        };
        let (inputs, outputs) = ports(model.program());
        if inputs.iter().chain(&outputs).any(|port| port.kind != 0) {
            let message = "OAAX has no form for the sequences and optionals of this model";
            return Err(Failure::new(Status::NotImplemented, message));
        }
        let (queue, arrived) = (Mutex::new(VecDeque::new()), Condvar::new());
        Ok(Loaded { session: Session::new(&model), inputs, outputs, settings, queue, arrived })
    }

    fn models(&self) -> Option<Arc<Vec<Loaded>>> {
        lock(&self.models).clone()
    }

    /// Takes a request over if all is well; the order of checks is that of the reference.
    ///
    /// # Safety
    /// `raw` is null or tensors as the header says.
    pub unsafe fn enqueue(&self, model_id: i32, raw: *mut crate::types::Tensors) -> Outcome<()> {
        let Some(models) = self.models() else {
            return Err(Failure::new(Status::ModelNotLoaded, "no models are loaded"));
        };
        let Some(model) = usize::try_from(model_id).ok().and_then(|id| models.get(id)) else {
            let message = format!("model id {model_id} is not among the {} loaded", models.len());
            return Err(Failure::new(Status::InvalidModelId, message));
        };
        if raw.is_null() {
            return Err(Failure::new(Status::InvalidArgument, "input_tensors is NULL"));
        }
        // SAFETY: by this function's contract.
        let mut request = unsafe { Request::read(raw, &model.inputs) }?;
        let outcome = self.accept(model, &request);
        if let Err(failure) = outcome {
            request.disown();
            return Err(failure);
        }
        let mut queue = lock(&model.queue);
        let mut outputs = lock(&self.outputs);
        if outputs.closed || queue.len() >= model.settings.queue_depth {
            request.disown();
            return Err(match outputs.closed {
                true => Failure::new(Status::NotInitialized, "the runtime is being cleaned up"),
                false => Failure::new(model.settings.queue_full, format!("the queue of model {model_id} is full")),
            });
        }
        outputs.in_flight += 1;
        drop(outputs);
        queue.push_back(request);
        model.arrived.notify_one();
        Ok(())
    }

    /// Types, shapes and byte counts against the model.
    fn accept(&self, model: &Loaded, request: &Request) -> Outcome<()> {
        let checked = model.session.check(&request.values()?);
        checked.map_err(|error| match error.status {
            oaax_core::Status::InvalidArgument => Failure::new(Status::InvalidTensor, error.to_string()),
            _ => error.into(),
        })
    }

    /// Waits for an output; `None` if none came in time or the runtime is being cleaned up.
    pub fn retrieve(&self, timeout_ms: i32) -> Option<Done> {
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
    fn work(&self, model: &Loaded, model_id: i32) {
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
            let id = request.id;
            let run = || -> Outcome<Response> {
                let outputs = model.session.run_fresh(&request.values()?)?;
                Response::new(id, outputs, &model.outputs)
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
                outputs.failures.push_back(format!("{{\"model\":{model_id},\"id\":{id},\"error\":{error}}}"));
            }
            outputs.done.push_back(Done { model: model_id, id, outcome });
            drop(outputs);
            self.finished.notify_one();
        }
    }

    fn close(&self, models: &[Loaded]) {
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
        self.close(models.as_deref().map_or(&[], Vec::as_slice));
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
        let models = self.models();
        let list = models.iter().flat_map(|models| models.iter()).enumerate();
        let entry = |(id, model): (usize, &Loaded)| {
            let depth = lock(&model.queue).len();
            let info = oaax_core::info_json(model.session.model());
            format!("{{\"id\":{id},\"input_queue_depth\":{depth},{}", &info[1..])
        };
        let list: Vec<String> = list.map(entry).collect();
        let outputs = lock(&self.outputs);
        let failures: Vec<&str> = outputs.failures.iter().map(String::as_str).collect();
        format!(
            "{{\"loaded_models\":{},\"requests_in_flight\":{},\"backend_version\":\"{}\",\"output_queue_depth\":{},\
             \"available_devices\":[\"CPU\"],\"failures\":[{}],\"models\":[{}]}}",
            list.len(),
            outputs.in_flight,
            env!("CARGO_PKG_VERSION"),
            outputs.done.len(),
            failures.join(","),
            list.join(",")
        )
    }
}
