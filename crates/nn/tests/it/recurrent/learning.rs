//! Training: it learns what needs memory, allocates nothing after its first update,
//! and goes on from a file bit for bit.

use std::sync::Arc;

use homeostat_core::{Persist, Stream};
use homeostat_nn::{
    Adam, AdamConfig, Cell, Error, Kernel, RecurrentConfig, RecurrentGradients, RecurrentInput,
    RecurrentNetwork, RecurrentShape, RecurrentTape, SequenceBatch, StateFile, decode, encode,
};

use crate::closeness::assert_same_bits;
use crate::no_allocation::allocations_during;

const STEPS: usize = 6;

/// Learns to repeat the first number of each sequence at every later step.
struct Learner {
    kernel: Kernel,
    network: RecurrentNetwork,
    adam: Adam,
    rng: Stream,
    batch: SequenceBatch,
    tape: RecurrentTape,
    x: Vec<f32>,
    d_output: Vec<f32>,
    gradient: Vec<f32>,
}

impl Learner {
    fn new(kernel: Kernel, config: RecurrentConfig) -> Self {
        let shape =
            Arc::new(RecurrentShape::new(config).expect("the tests choose possible shapes"));
        let mut rng = Stream::from_seed(3);
        let network = RecurrentNetwork::new(Arc::clone(&shape), &mut rng);
        let parameter_count = shape.parameter_count();
        Self {
            kernel,
            network,
            adam: Adam::new(AdamConfig::default(), parameter_count),
            rng,
            batch: SequenceBatch::default(),
            tape: RecurrentTape::default(),
            x: Vec::new(),
            d_output: Vec::new(),
            gradient: vec![0.0; parameter_count],
        }
    }

    /// Returns the mean squared error before the update. Without memory it stays above
    /// two fifths of that of a network that answers zero.
    fn update(&mut self, lengths: &[usize]) -> f32 {
        let Self { network, rng, batch, tape, x, d_output, .. } = self;
        let outputs = network.shape().outputs();
        batch.set(lengths).expect("no length is zero");
        x.clear();
        x.extend((0..batch.padded_rows()).map(|_| rng.range(-1.0, 1.0) as f32));
        let input = RecurrentInput { x, batch, initial: None };
        let output = network.forward(self.kernel, input, Some(rng), tape);
        d_output.clear();
        let mut loss = 0.0;
        for (row, output) in output.chunks_exact(outputs).enumerate() {
            let sequence = row % lengths.len();
            let error = if row / lengths.len() < lengths[sequence] {
                output[0] - 0.5 * x[sequence]
            } else {
                0.0
            };
            loss += error * error / batch.rows() as f32;
            d_output.extend(std::iter::repeat_n(0.0, outputs));
            d_output[row * outputs] = 2.0 * error / batch.rows() as f32;
        }
        let gradients =
            RecurrentGradients { params: Some(&mut self.gradient), ..Default::default() };
        let shape = network.shape();
        shape.backward(self.kernel, network.params(), input, tape, d_output, None, gradients);
        let params = network.params_mut();
        assert!(self.adam.step(self.kernel, 0.01, 1.0, &self.gradient, params));
        loss
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut file = StateFile { kind: "test/1".to_owned(), ..StateFile::default() };
        self.network.save("network", &mut file.arrays);
        self.adam.save("adam", &mut file.arrays);
        self.rng.save("rng", &mut file.arrays);
        for (name, dimensions, _) in self.network.tensors() {
            file.shapes.insert(format!("network/{name}"), dimensions);
        }
        encode(&file)
    }

    fn resume(&mut self, bytes: &[u8]) {
        let arrays = decode(bytes, "test/1").expect("it was just encoded").arrays;
        self.network.load("network", &arrays).expect("it was saved");
        self.adam.load("adam", &arrays).expect("it was saved");
        self.rng.load("rng", &arrays).expect("it was saved");
    }
}

fn config(cell: Cell, layers: usize, bidirectional: bool, dropout: f32) -> RecurrentConfig {
    RecurrentConfig { cell, inputs: 1, hidden: 20, layers, bidirectional, dropout }
}

fn configs() -> Vec<RecurrentConfig> {
    let mut configs = Vec::new();
    for cell in [Cell::Gru, Cell::Elman] {
        for (layers, bidirectional) in [(1, false), (2, false), (2, true), (3, true)] {
            configs.push(config(cell, layers, bidirectional, 0.1));
        }
    }
    configs
}

#[test]
fn both_cells_learn_to_remember() {
    for cell in [Cell::Gru, Cell::Elman] {
        let mut learner = Learner::new(Kernel::best(), config(cell, 1, false, 0.0));
        let first = learner.update(&[STEPS; 16]);
        let last = (0..400).map(|_| learner.update(&[STEPS; 16])).last().unwrap();
        assert!(last < 0.2 * first, "{cell:?}: from {first} to {last}");
    }
}

#[test]
fn an_update_after_the_first_allocates_nothing() {
    let (full, ragged, few) = ([STEPS; 24], [3; 24], [5, 1, STEPS, 2]);
    let mut uneven = full;
    uneven[..ragged.len() / 2].copy_from_slice(&ragged[12..]);
    for kernel in Kernel::available() {
        for config in configs() {
            let mut learner = Learner::new(kernel, config);
            learner.update(&full);
            learner.update(&uneven);
            for lengths in [&full[..], &uneven, &few, &full] {
                let allocations = allocations_during(|| {
                    learner.update(lengths);
                });
                assert_eq!(allocations, 0, "{kernel} {config:?} {lengths:?}");
            }
        }
    }
}

#[test]
fn an_update_that_is_spread_over_threads_allocates_nothing_either() {
    let large = RecurrentConfig { hidden: 96, ..config(Cell::Gru, 2, true, 0.1) };
    for large in [large, RecurrentConfig { bidirectional: false, ..large }] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let allocations = pool.install(|| {
            let mut learner = Learner::new(Kernel::best(), large);
            learner.update(&[STEPS; 64]);
            allocations_during(|| {
                learner.update(&[STEPS; 64]);
            })
        });
        assert_eq!(allocations, 0, "{large:?}");
    }
}

#[test]
fn training_goes_on_from_a_file_bit_for_bit() {
    let lengths = [4, STEPS, 1, 3];
    for config in configs() {
        let mut learner = Learner::new(Kernel::best(), config);
        for _ in 0..3 {
            learner.update(&lengths);
        }
        let bytes = learner.to_bytes();
        let mut resumed = Learner::new(Kernel::best(), config);
        resumed.resume(&bytes);
        for _ in 0..3 {
            assert_same_bits("loss", &[resumed.update(&lengths)], &[learner.update(&lengths)]);
        }
        assert_same_bits("parameters", resumed.network.params(), learner.network.params());
    }
}

#[test]
fn files_have_the_tensors_of_pytorch() {
    let file = |config| {
        let bytes = Learner::new(Kernel::best(), config).to_bytes();
        decode(&bytes, "test/1").unwrap()
    };
    let found = file(config(Cell::Gru, 2, true, 0.0)).shapes;
    let expect = [
        ("network/weight_hh_l0", [60, 20]),
        ("network/weight_hh_l0_reverse", [60, 20]),
        ("network/weight_hh_l1", [60, 20]),
        ("network/weight_hh_l1_reverse", [60, 20]),
        ("network/weight_ih_l0", [60, 1]),
        ("network/weight_ih_l0_reverse", [60, 1]),
        ("network/weight_ih_l1", [60, 40]),
        ("network/weight_ih_l1_reverse", [60, 40]),
    ];
    assert_eq!(found, expect.map(|(name, shape)| (name.to_owned(), shape.to_vec())).into());
    let arrays = file(config(Cell::Elman, 1, false, 0.0)).arrays;
    assert_eq!(arrays.f32s("network/bias_ih_l0", 20).unwrap().len(), 20);
    assert_eq!(arrays.f32s("network/bias_hh_l0", 20).unwrap().len(), 20);
}

#[test]
fn a_file_of_another_shape_is_refused() {
    let bytes = Learner::new(Kernel::best(), config(Cell::Gru, 1, false, 0.0)).to_bytes();
    let arrays = decode(&bytes, "test/1").unwrap().arrays;
    for other in [config(Cell::Elman, 1, false, 0.0), config(Cell::Gru, 2, false, 0.0)] {
        let mut learner = Learner::new(Kernel::best(), other);
        assert!(learner.network.load("network", &arrays).is_err(), "{other:?}");
    }
}

#[test]
fn impossible_networks_are_refused() {
    let good = config(Cell::Gru, 2, true, 0.5);
    for empty in [
        RecurrentConfig { inputs: 0, ..good },
        RecurrentConfig { hidden: 0, ..good },
        RecurrentConfig { layers: 0, ..good },
    ] {
        assert!(matches!(RecurrentShape::new(empty), Err(Error::EmptyLayer { .. })));
    }
    for large in [
        RecurrentConfig { hidden: 1 << 20, ..good },
        RecurrentConfig { inputs: usize::MAX, ..good },
        RecurrentConfig { layers: usize::MAX, ..good },
    ] {
        assert!(matches!(RecurrentShape::new(large), Err(Error::TooLarge { .. })));
    }
    for dropout in [-0.1, 1.0, f32::NAN] {
        let error = RecurrentShape::new(RecurrentConfig { dropout, ..good }).unwrap_err();
        assert!(matches!(error, Error::Dropout { .. }), "{error}");
    }
}
