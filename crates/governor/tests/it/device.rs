//! A fake GPU that records what was done to it.

use std::cell::RefCell;
use std::rc::Rc;

use homeostat_decide::{Decision, GpuClock, Megahertz};
use homeostat_governor::gpu::{Gpu, GpuError, GpuSample, PowerLimit};

/// Shared with the test while a governor owns the device.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// None for unlocked.
    pub(crate) limit: Option<u32>,
    pub(crate) power_limit: u32,
    pub(crate) busy: f64,
    pub(crate) fails: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct TestGpu {
    pub(crate) uuid: String,
    pub(crate) state: Rc<RefCell<State>>,
}

pub(crate) const HIGHEST: u32 = 1980;

impl TestGpu {
    pub(crate) fn new(uuid: &str) -> Self {
        let state = State { power_limit: 700_000, busy: 0.5, ..State::default() };
        Self { uuid: uuid.to_owned(), state: Rc::new(RefCell::new(state)) }
    }

    pub(crate) fn clock(&self) -> f64 {
        f64::from(self.state.borrow().limit.unwrap_or(HIGHEST))
    }

    fn answer<T>(&self, value: T) -> Result<T, GpuError> {
        match self.state.borrow().fails {
            true => {
                Err(GpuError::Other { what: "answer", problem: "it was told not to".to_owned() })
            }
            false => Ok(value),
        }
    }
}

impl Gpu for TestGpu {
    fn uuid(&self) -> &str {
        &self.uuid
    }

    fn name(&self) -> &str {
        "Test GPU"
    }

    fn supported_clocks(&self) -> Result<Vec<Megahertz>, GpuError> {
        self.answer((0..110).map(|place| Megahertz(HIGHEST - 15 * place)).collect())
    }

    fn sample(&self) -> Result<GpuSample, GpuError> {
        let busy = Some(self.state.borrow().busy);
        self.answer(GpuSample { busy, ..GpuSample::default() })
    }

    fn power_limit(&self) -> Result<PowerLimit, GpuError> {
        let present = self.state.borrow().power_limit;
        self.answer(PowerLimit { present, min: 200_000, max: 700_000 })
    }

    fn apply(&mut self, decision: &Decision<GpuClock>) -> Result<(), GpuError> {
        self.answer(())?;
        self.state.borrow_mut().limit = Some(decision.applied().0);
        Ok(())
    }

    fn unlock(&mut self) -> Result<(), GpuError> {
        self.answer(())?;
        self.state.borrow_mut().limit = None;
        Ok(())
    }

    fn set_power_limit(&mut self, limit: u32) -> Result<(), GpuError> {
        self.answer(())?;
        self.state.borrow_mut().power_limit = limit;
        Ok(())
    }
}
