//! Long calls: the work runs on threads of its own with the GIL released, while the calling thread listens for
//! Ctrl-C and reports progress.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokenmill_core::count::Watch;

use crate::errors::IntoPython;

/// How often the calling thread looks up, and how long it waits for work that was told to stop: together, with what
/// Python needs to end, less than a quarter of a second.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const GRACE: Duration = Duration::from_millis(80);

/// Texts up to this many bytes are done in a few milliseconds: no thread is needed to listen for Ctrl-C.
pub const MOMENT: usize = 1 << 20;

/// Run `work`, calling `progress(done, detail)` now and then. On a signal the work is told to stop and given a
/// moment; one that is stuck in a blocking read is left behind, since nothing can wake it.
pub fn detached<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Watch) -> tokenmill_core::Result<T> + Send + 'static,
) -> PyResult<T> {
    let watch = Arc::new(Watch::default());
    let (sender, receiver) = mpsc::channel();
    let for_work = watch.clone();
    std::thread::Builder::new()
        .name("tokenmill".into())
        .spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(|| work(&for_work)));
            let _ = sender.send(result);
        })
        .map_err(|e| PyRuntimeError::new_err(format!("cannot start a thread: {e}")))?;
    let receiver = Mutex::new(receiver);
    let wait = |time| py.detach(|| receiver.lock().expect("only this thread locks it").recv_timeout(time));
    loop {
        match wait(LOOK_EVERY) {
            Ok(Ok(result)) => {
                report(progress, &watch)?;
                return result.into_python(py);
            }
            Ok(Err(_)) | Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(bug());
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
        if let Err(interrupt) = py.check_signals().and_then(|()| report(progress, &watch)) {
            watch.cancel.store(true, Ordering::Relaxed);
            let _ = wait(GRACE);
            return Err(interrupt);
        }
    }
}

/// Run `work` on borrowed data with the GIL released: at once if `small`, else on a thread of its own while this one
/// listens for Ctrl-C. Data that is only lent cannot be left behind, so the work is waited for.
pub fn attentive<T: Send>(
    py: Python<'_>,
    small: bool,
    work: impl FnOnce(&Watch) -> tokenmill_core::Result<T> + Send,
) -> PyResult<T> {
    let watch = Watch::default();
    let guarded = |watch: &Watch| catch_unwind(AssertUnwindSafe(|| work(watch)));
    let (result, interrupt) = py.detach(|| {
        if small {
            return (guarded(&watch), None);
        }
        std::thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            let (watch, sender) = (&watch, sender);
            scope.spawn(move || sender.send(guarded(watch)));
            let mut interrupt = None;
            loop {
                match receiver.recv_timeout(LOOK_EVERY) {
                    Ok(result) => return (result, interrupt),
                    Err(mpsc::RecvTimeoutError::Disconnected) => return (Err(Box::new(())), interrupt),
                    Err(mpsc::RecvTimeoutError::Timeout) => {}
                }
                if interrupt.is_none() {
                    interrupt = Python::attach(|py| py.check_signals()).err();
                    watch.cancel.store(interrupt.is_some(), Ordering::Relaxed);
                }
            }
        })
    });
    match (result, interrupt) {
        (_, Some(interrupt)) => Err(interrupt),
        (Ok(result), None) => result.into_python(py),
        (Err(_), None) => Err(bug()),
    }
}

fn bug() -> PyErr {
    PyRuntimeError::new_err("a bug in tokenmill: the worker panicked, see stderr")
}

fn report(progress: Option<&Bound<'_, PyAny>>, watch: &Watch) -> PyResult<()> {
    if let Some(progress) = progress {
        progress.call1((watch.done.load(Ordering::Relaxed), watch.detail.load(Ordering::Relaxed)))?;
    }
    Ok(())
}
