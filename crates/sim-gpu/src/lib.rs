//! Devices that serve models: operators whose time is a + b / f, batches, caches, queues, and the
//! energy that all of it takes.
//!
//! * [`DeviceType`]: clocks, power curve, memory and interconnect of an accelerator.
//! * [`Model`]: a chain of [`Operator`]s; [`Model::zoo`] has the fifteen models of the mu-Serve chapter.
//! * [`GpuPlant`]: a small cluster under load, whose clocks a governor sets through decisions; and the
//!   environment `gpu/clock-v1`.
//! * [`Serving`]: requests, batched in one of three ways ([`Batching`]), on executors with a clock each.
//!
//! Requests are conserved: every request that arrived was answered, was refused on arrival, or is
//! still inside. Energy is power integrated over time, also across a change of clock in the middle
//! of an iteration.
//!
//! Layer 2: no I/O. Left out: failures of devices, power capping, memory clocks, heat, and overlap of
//! transfers with computation.
//!
//! A request to BERT on one V100, at the highest clock and at 802 MHz:
//!
//! ```
//! use homeostat_core::{Bounds, SimDuration, SimTime};
//! use homeostat_decide::{
//!     ClockBounds, ClockProposal, GpuObservation, Guards, GuardsConfig, Megahertz,
//!     PreparedProposal, decide,
//! };
//! use homeostat_sim_gpu::{Batching, DeviceType, Model, Request, Serving, single_device};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = Model::by_name("bert-large")?;
//! let bounds = ClockBounds { range: Bounds::try_new(Megahertz(135), Megahertz(1380))?, step: 0 };
//! let mut guards = Guards::try_new(GuardsConfig::bounds_only(bounds))?;
//! let seen = GpuObservation::new(SimTime::ZERO, Megahertz(1380));
//! let mut seconds = Vec::new();
//! for mhz in [1380.0, 802.0] {
//!     let deployment = single_device(DeviceType::by_name("v100")?, &model, Batching::None)?;
//!     let mut serving = Serving::new(deployment)?;
//!     let proposal = ClockProposal { mhz, reasons: Vec::new() };
//!     let decision = decide(&mut PreparedProposal::new(proposal), &mut guards, &seen);
//!     serving.apply(0, &decision);
//!     let (arrival, rank) = (SimTime::ZERO, 0.0);
//!     serving.submit(Request { arrival, model: 0, prompt: 512, output: 0, rank })?;
//!     serving.advance(SimTime::ZERO + SimDuration::from_secs(2));
//!     seconds.push(serving.take_finished()[0].latency.seconds());
//! }
//! // The table of the chapter says 365 ms at the highest clock.
//! assert!((seconds[0] - 0.365).abs() < 0.001 && seconds[1] > 0.4, "{seconds:?}");
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod clock_env;
mod config;
mod device;
mod error;
mod model;
mod operator;
mod planned_load;
mod plant;
mod serving;
mod simulator;
mod totals;

pub use config::{BatchingKind, GpuConfig, GpuLoad, GpuPlan};
pub use device::{Curve, DeviceType};
pub use error::{Error, Result};
pub use model::{Model, ModelSpec, TABLE_TOKENS, Transformer};
pub use operator::{Cost, Operator, OperatorKind, Work};
pub use plant::{GpuPlant, PlantWindows};
pub use serving::{
    Admission, Batching, Counts, Deployment, Executor, Finished, Instance, Request, ServedModel,
    ServiceOrder, Serving, Stage, StageCost, single_device,
};
pub use simulator::{ConfiguredGpu, Gpu, SIMULATOR};
pub use totals::{DeviceWindow, GpuTotals};
