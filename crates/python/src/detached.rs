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
const MOMENT: Duration = Duration::from_millis(80);

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
                return Err(PyRuntimeError::new_err("a bug in tokenmill: the worker panicked, see stderr"));
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
        if let Err(interrupt) = py.check_signals().and_then(|()| report(progress, &watch)) {
            watch.cancel.store(true, Ordering::Relaxed);
            let _ = wait(MOMENT);
            return Err(interrupt);
        }
    }
}

fn report(progress: Option<&Bound<'_, PyAny>>, watch: &Watch) -> PyResult<()> {
    if let Some(progress) = progress {
        progress.call1((watch.done.load(Ordering::Relaxed), watch.detail.load(Ordering::Relaxed)))?;
    }
    Ok(())
}
